//! Why a handshake failed: the label of a metric, and what to do about it.

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};
use std::io;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    PlainText,
    TimedOut,
    Closed,
    NoCertificate,
    UnknownAuthority,
    Expired,
    NotYetValid,
    WrongName,
    WrongAddress,
    WrongPurpose,
    Revoked,
    RevocationUnknown,
    BadCertificate,
    Incompatible,
    RefusedByOtherSide,
    Busy,
    Malformed,
}

impl Reason {
    pub const ALL: [Reason; 17] = [
        Reason::PlainText,
        Reason::TimedOut,
        Reason::Closed,
        Reason::NoCertificate,
        Reason::UnknownAuthority,
        Reason::Expired,
        Reason::NotYetValid,
        Reason::WrongName,
        Reason::WrongAddress,
        Reason::WrongPurpose,
        Reason::Revoked,
        Reason::RevocationUnknown,
        Reason::BadCertificate,
        Reason::Incompatible,
        Reason::RefusedByOtherSide,
        Reason::Busy,
        Reason::Malformed,
    ];

    /// The metric's label.
    pub fn name(self) -> &'static str {
        match self {
            Reason::PlainText => "plain_text",
            Reason::TimedOut => "timed_out",
            Reason::Closed => "closed",
            Reason::NoCertificate => "no_certificate",
            Reason::UnknownAuthority => "unknown_authority",
            Reason::Expired => "expired",
            Reason::NotYetValid => "not_yet_valid",
            Reason::WrongName => "wrong_name",
            Reason::WrongAddress => "wrong_address",
            Reason::WrongPurpose => "wrong_purpose",
            Reason::Revoked => "revoked",
            Reason::RevocationUnknown => "revocation_unknown",
            Reason::BadCertificate => "bad_certificate",
            Reason::Incompatible => "incompatible",
            Reason::RefusedByOtherSide => "refused_by_other_side",
            Reason::Busy => "busy",
            Reason::Malformed => "malformed",
        }
    }

    /// What whoever reads the log can do.
    pub fn advice(self) -> &'static str {
        match self {
            Reason::PlainText => "it speaks without TLS: send it to the plain port, or switch TLS on in it",
            Reason::TimedOut => {
                "it did not finish in time: a plain-text client that waits, or a slow network"
            }
            Reason::Closed => {
                "it left in the middle: a port check, or a client that does not trust our certificate"
            }
            Reason::NoCertificate => "it has to show a certificate: give it one of an authority in ca_file",
            Reason::UnknownAuthority => {
                "its certificate is of no authority in ca_file: issue another, or add the authority"
            }
            Reason::Expired => "its certificate has expired: renew it, or correct a wrong clock",
            Reason::NotYetValid => "its certificate is not valid yet: correct the clock of one side",
            Reason::WrongName => {
                "its certificate does not carry the dialled name: add the name, or set verify_names = false"
            }
            Reason::WrongAddress => {
                "its certificate does not carry the address it comes from: add it as an IP address among the \
                 alternative names, or set verify_client_addresses = false"
            }
            Reason::WrongPurpose => {
                "its certificate is not for this use: a client needs clientAuth, a member both uses"
            }
            Reason::Revoked => {
                "its certificate stands on a list in crl_file: find out who uses it, issue another"
            }
            Reason::RevocationUnknown => {
                "crl_file has no current list of an authority above its certificate: put the newest ones there"
            }
            Reason::BadCertificate => "its certificate is not sound: issue another",
            Reason::Incompatible => "it knows no TLS version or cipher of ours (1.2 and 1.3): update it",
            Reason::RefusedByOtherSide => {
                "it refused us: it needs the authority of our certificate, or ours has expired"
            }
            Reason::Busy => {
                "too many handshakes at once: look for a flood, or for clients in a reconnect loop"
            }
            Reason::Malformed => "it speaks no sound TLS",
        }
    }

    /// Whether it is worth a line in the log: port checks of load balancers leave at once, time and again.
    pub(crate) fn is_loud(self) -> bool {
        self != Reason::Closed
    }

    pub(crate) fn of(error: &io::Error) -> Reason {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
        match inner {
            Some(error) => Reason::of_rustls(error),
            None if error.kind() == io::ErrorKind::TimedOut => Reason::TimedOut,
            // Whatever else the stream says is the end of the connection.
            None => Reason::Closed,
        }
    }

    /// The same of who came to us: there is no dialled name, only the address it comes from.
    pub(crate) fn of_client(error: &io::Error) -> Reason {
        match Reason::of(error) {
            Reason::WrongName => Reason::WrongAddress,
            reason => reason,
        }
    }

    fn of_rustls(error: &Error) -> Reason {
        match error {
            Error::InvalidMessage(InvalidMessage::InvalidContentType) => Reason::PlainText,
            Error::NoCertificatesPresented => Reason::NoCertificate,
            Error::PeerIncompatible(_) | Error::NoApplicationProtocol => Reason::Incompatible,
            Error::AlertReceived(AlertDescription::CloseNotify | AlertDescription::UserCanceled) => {
                Reason::Closed
            }
            Error::AlertReceived(
                AlertDescription::ProtocolVersion
                | AlertDescription::HandshakeFailure
                | AlertDescription::InsufficientSecurity,
            ) => Reason::Incompatible,
            Error::AlertReceived(_) => Reason::RefusedByOtherSide,
            Error::InvalidCertificate(error) => match error {
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => Reason::Expired,
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                    Reason::NotYetValid
                }
                CertificateError::UnknownIssuer => Reason::UnknownAuthority,
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                    Reason::WrongName
                }
                CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
                    Reason::WrongPurpose
                }
                CertificateError::Revoked => Reason::Revoked,
                CertificateError::UnknownRevocationStatus
                | CertificateError::ExpiredRevocationList
                | CertificateError::ExpiredRevocationListContext { .. } => Reason::RevocationUnknown,
                _ => Reason::BadCertificate,
            },
            // A list that its authority has not signed.
            Error::InvalidCertRevocationList(_) => Reason::RevocationUnknown,
            _ => Reason::Malformed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_for_people_tells_every_reason() {
        let page = include_str!("../../../docs/tls.md");
        for reason in Reason::ALL {
            assert!(page.contains(&format!("`{}`", reason.name())), "{}", reason.name());
        }
    }
}

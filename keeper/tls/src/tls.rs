//! The TLS of one port: accepts and dials with what its files held when they were last good.

use crate::certificate;
use crate::client::{self, ClientTls, server_name};
use crate::config::{ClientAuth, TlsConfig};
use crate::counts::{Counts, Share};
use crate::limits::{HANDSHAKE_TIME_MAX, HANDSHAKES_MAX, PEER_HANDSHAKE_TIME_MAX, RELOAD_PERIOD};
use crate::material::{Files, TlsError};
use crate::refusal::Reason;
use crate::trust::Trust;
use crate::verify::with_claim;
use rustls::server::NoServerSessionStorage;
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, ServerConfig};
use std::io;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, Semaphore};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Which port, and with it the rules that hold there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// ZooKeeper's clients: they prove a certificate if the configuration asks for it.
    Client,
    /// Members among themselves: both sides prove a certificate, always.
    Peer,
    /// Admin calls: callers prove a certificate, always.
    Admin,
}

impl Port {
    /// The label of metrics and log lines.
    pub fn name(self) -> &'static str {
        match self {
            Port::Client => "client",
            Port::Peer => "peer",
            Port::Admin => "admin",
        }
    }

    fn handshake_time_max(self) -> Duration {
        match self {
            Port::Client | Port::Admin => HANDSHAKE_TIME_MAX,
            Port::Peer => PEER_HANDSHAKE_TIME_MAX,
        }
    }

    pub(crate) fn client_auth(self, config: &TlsConfig) -> ClientAuth {
        match self {
            Port::Client => config.client_auth(),
            Port::Peer | Port::Admin => ClientAuth::Required,
        }
    }
}

pub struct Tls {
    port: Port,
    config: TlsConfig,
    current: RwLock<Arc<Loaded>>,
    /// What the files held when they were last looked at, usable or not.
    seen: Mutex<Seen>,
    look_now: Arc<Notify>,
    handshakes: Semaphore,
    counts: Counts,
}

/// The files' fingerprint, or why they could not be read.
type Seen = Result<[u8; 32], TlsError>;

/// What connections are made with; those that exist keep what they were made with.
struct Loaded {
    acceptor: TlsAcceptor,
    /// Only where members dial each other.
    connector: Option<Arc<ClientConfig>>,
}

/// A connection whose handshake is done.
pub struct Accepted<S> {
    pub stream: tokio_rustls::server::TlsStream<S>,
    /// The subject of the certificate that the other side has proved, as RFC 2253 text; see docs/tls.md.
    pub subject: Option<String>,
}

impl Tls {
    /// Reads the files; the error says which of them cannot be used and why.
    pub fn open(port: Port, config: &TlsConfig) -> Result<Arc<Tls>, TlsError> {
        let counts = Counts::default();
        let files = Files::read(config)?;
        let fingerprint = files.fingerprint();
        let loaded = load(port, config, &files, &counts)?;
        Ok(Arc::new(Tls {
            port,
            config: config.clone(),
            current: RwLock::new(Arc::new(loaded)),
            seen: Mutex::new(Ok(fingerprint)),
            look_now: Arc::default(),
            handshakes: Semaphore::new(HANDSHAKES_MAX),
            counts,
        }))
    }

    pub fn port(&self) -> Port {
        self.port
    }

    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    fn current(&self) -> Arc<Loaded> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The accepting side of a handshake, bounded in time and number. `None`: refused, counted and logged.
    pub async fn accept<S>(&self, stream: S, remote: &str) -> Option<Accepted<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let Ok(_permit) = self.handshakes.try_acquire() else {
            self.refuse(Reason::Busy, remote, None, "no place for another handshake");
            return None;
        };
        let acceptor = self.current().acceptor.clone();
        let limit = self.port.handshake_time_max();
        let (outcome, claimed) = with_claim(remote, keeper_rt::timeout(limit, acceptor.accept(stream))).await;
        let accepted = match outcome {
            Ok(Ok(stream)) => identified(stream),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, format!("no handshake within {limit:?}"))),
        };
        match accepted {
            Ok(accepted) => {
                self.counts.complete();
                Some(accepted)
            }
            Err(error) => {
                self.refuse(Reason::of_client(&error), remote, claimed.as_deref(), &error.to_string());
                None
            }
        }
    }

    /// The dialling side, between members. `None`: refused, counted and logged.
    pub async fn dial<S>(&self, stream: S, address: &str) -> Option<tokio_rustls::client::TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let connector =
            self.current().connector.clone().expect("only members dial, and they have a connector");
        let limit = self.port.handshake_time_max();
        let connector = TlsConnector::from(connector);
        let handshake = async { connector.connect(server_name(address)?, stream).await };
        let error = match keeper_rt::timeout(limit, handshake).await {
            Ok(Ok(stream)) => {
                self.counts.complete();
                return Some(stream);
            }
            Ok(Err(error)) => error,
            Err(_) => io::Error::new(io::ErrorKind::TimedOut, format!("no handshake within {limit:?}")),
        };
        self.refuse(Reason::of(&error), address, None, &error.to_string());
        None
    }

    /// Dials other members' ports of this kind, with what the files hold now; `None` for a port that only accepts.
    pub fn client(&self) -> Option<ClientTls> {
        self.current().connector.clone().map(ClientTls::of)
    }

    fn refuse(&self, reason: Reason, remote: &str, certificate: Option<&str>, error: &str) {
        let (port, advice) = (self.port.name(), reason.advice());
        match self.counts.refuse(reason) {
            Share::Shown { suppressed_before } => tracing::warn!(
                port,
                remote,
                certificate,
                reason = reason.name(),
                error,
                suppressed_before,
                "TLS handshake refused: {advice}"
            ),
            Share::Suppressed => {
                tracing::debug!(
                    port,
                    remote,
                    certificate,
                    reason = reason.name(),
                    error,
                    "TLS handshake refused"
                );
            }
        }
    }

    /// Looks at the files every few seconds, and at once after [`Tls::look_now`], until the last handle is gone.
    pub fn watch(self: &Arc<Tls>) {
        let (tls, look_now) = (Arc::downgrade(self), self.look_now.clone());
        keeper_rt::spawn("tls-files", watch(tls, look_now));
    }

    /// Has the files looked at without waiting for the next time: SIGHUP does.
    pub fn look_now(&self) {
        self.look_now.notify_one();
    }

    /// Takes over what the files hold now. Nothing changes while they hold what they held, or cannot be used.
    fn look(&self) {
        let files = Files::read(&self.config);
        let found: Seen = files.as_ref().map(Files::fingerprint).map_err(Clone::clone);
        {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            if *seen == found {
                return;
            }
            *seen = found;
        }
        let port = self.port.name();
        match files.and_then(|files| load(self.port, &self.config, &files, &self.counts)) {
            Ok(loaded) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(loaded);
                self.counts.reloaded();
                tracing::info!(
                    port,
                    "new certificate files taken over; existing connections go on with the old ones"
                );
            }
            Err(error) => {
                self.counts.reload_failed();
                tracing::error!(
                    port,
                    %error,
                    "new certificate files cannot be used: the old ones stay in use until they expire"
                );
            }
        }
    }
}

async fn watch(tls: Weak<Tls>, look_now: Arc<Notify>) {
    loop {
        // Either is a reason to look.
        let _ = keeper_rt::timeout(RELOAD_PERIOD, look_now.notified()).await;
        let Some(tls) = tls.upgrade() else { return };
        // Stretching a password may take long.
        let _ = keeper_rt::blocking(move || tls.look()).await;
    }
}

/// Reads the proved certificate's subject. Its chain was verified, so that it can be read is certain but for a fault
/// of ours; then the connection must not go on without its identity.
fn identified<S>(stream: tokio_rustls::server::TlsStream<S>) -> io::Result<Accepted<S>> {
    let proved = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let subject = match proved {
        Some(certificate) => {
            let facts = certificate::facts(certificate);
            let facts = facts.ok_or_else(|| {
                io::Error::other(rustls::Error::from(rustls::CertificateError::BadEncoding))
            })?;
            Some(facts.subject)
        }
        None => None,
    };
    Ok(Accepted { stream, subject })
}

fn load(port: Port, config: &TlsConfig, files: &Files, counts: &Counts) -> Result<Loaded, TlsError> {
    let provider = config.provider();
    let own = files.own(&provider)?;
    if own.facts.not_after_s < keeper_rt::wall_ms() / 1_000 {
        tracing::error!(
            port = port.name(),
            subject = own.facts.subject,
            "the certificate in use has expired; renew it"
        );
    }
    let trust = files.trust()?;
    let asked = port.client_auth(config);
    let trust = match (asked, trust) {
        (ClientAuth::None, _) => None,
        (ClientAuth::Optional | ClientAuth::Required, None) => {
            let why = "is not set, but certificates of the other side are to be checked: name the file with their \
                       authorities";
            return Err(TlsError { file: format!("ca_file of the {} port", port.name()), why: why.into() });
        }
        (ClientAuth::Optional | ClientAuth::Required, trust) => trust,
    };
    let lists_due_s = trust.as_ref().and_then(|trust| trust.revoked.as_ref()?.due_s());
    if lists_due_s.is_some_and(|due| due < keeper_rt::wall_ms() / 1_000) {
        tracing::error!(
            port = port.name(),
            "a revocation list is out of date: certificates of its authority are refused; put a new one into crl_file"
        );
    }
    let resolver = Arc::new(SingleCertAndKey::from(own.key));
    let acceptor = acceptor(port, config, trust.as_ref(), resolver.clone())?;
    let connector = match (port, trust) {
        (Port::Peer | Port::Admin, Some(trust)) => Some(connector(port, config, &trust, resolver)?),
        (Port::Client, _) | (_, None) => None,
    };
    counts.loaded(own.facts.not_after_s, lists_due_s);
    Ok(Loaded { acceptor, connector })
}

fn acceptor(
    port: Port,
    config: &TlsConfig,
    trust: Option<&Trust>,
    resolver: Arc<SingleCertAndKey>,
) -> Result<TlsAcceptor, TlsError> {
    let wrong = |why: String| TlsError { file: format!("TLS of the {} port", port.name()), why };
    let builder = ServerConfig::builder_with_provider(config.provider())
        .with_protocol_versions(&config.versions())
        .map_err(|error| wrong(error.to_string()))?;
    let builder = match trust {
        None => builder.with_no_client_auth(),
        Some(trust) => {
            let clients = trust.clients(port, config)?;
            builder.with_client_cert_verifier(Arc::new(clients))
        }
    };
    let mut server = builder.with_cert_resolver(resolver);
    // A resumed session would pass without its certificate being looked at again: after it has expired, after its
    // authority was taken out. Connections here live long, so a whole handshake each costs little.
    server.session_storage = Arc::new(NoServerSessionStorage {});
    server.send_tls13_tickets = 0;
    if port == Port::Admin {
        server.alpn_protocols = vec![client::HTTP_2.to_vec()];
    }
    Ok(TlsAcceptor::from(Arc::new(server)))
}

fn connector(
    port: Port,
    config: &TlsConfig,
    trust: &Trust,
    resolver: Arc<SingleCertAndKey>,
) -> Result<Arc<ClientConfig>, TlsError> {
    let wrong = |error: rustls::Error| TlsError {
        file: format!("TLS of the {} port", port.name()),
        why: error.to_string(),
    };
    let builder = ClientConfig::builder_with_provider(config.provider())
        .with_protocol_versions(&config.versions())
        .map_err(wrong)?;
    // `dangerous` for a verifier of our own choice: rustls' own, or one that looks at everything but the name.
    let verifier = trust.servers(config.verify_names)?;
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let mut client = builder.with_client_cert_resolver(resolver);
    client.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(client))
}

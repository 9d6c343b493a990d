//! What a certificate says of itself (RFC 5280, 4.1): its subject and how long it is good.

use crate::der;
use crate::subject;

pub struct Facts {
    /// As ZooKeeper's clients write it in ACLs: see [`subject::rfc2253`].
    pub subject: String,
    /// Seconds since 1970.
    pub not_before_s: i64,
    pub not_after_s: i64,
}

/// The parts of a certificate, as they stand in it.
pub struct Parts<'a> {
    /// All that the issuer has signed.
    pub signed: &'a [u8],
    /// What the issuer signed it with: an AlgorithmIdentifier's content, and the signature.
    pub algorithm: &'a [u8],
    pub signature: &'a [u8],
    pub is_version_1: bool,
    pub validity: &'a [u8],
    /// Names' content.
    pub issuer: &'a [u8],
    pub subject: &'a [u8],
    /// The public key with its algorithm, whole.
    pub public_key: &'a [u8],
}

/// `None` for bytes that are no certificate.
pub fn facts(certificate: &[u8]) -> Option<Facts> {
    let parts = parts(certificate)?;
    let mut validity = parts.validity;
    let not_before_s = seconds(der::next(&mut validity)?)?;
    let not_after_s = seconds(der::next(&mut validity)?)?;
    Some(Facts { subject: subject::rfc2253(parts.subject)?, not_before_s, not_after_s })
}

/// The same, taken apart.
pub fn parts(certificate: &[u8]) -> Option<Parts<'_>> {
    let mut input = certificate;
    let mut outer = der::expect(&mut input, der::SEQUENCE)?;
    let signed = der::next(&mut outer).filter(|element| element.tag == der::SEQUENCE)?;
    let algorithm = der::expect(&mut outer, der::SEQUENCE)?;
    let signature = bits(der::expect(&mut outer, der::BIT_STRING)?)?;
    let mut inner = signed.content;
    let mut element = der::next(&mut inner)?;
    let is_version_1 = element.tag != der::CONTEXT_0;
    if !is_version_1 {
        element = der::next(&mut inner)?;
    }
    // The serial number, then the algorithm once more.
    if element.tag != der::INTEGER || der::expect(&mut inner, der::SEQUENCE)? != algorithm {
        return None;
    }
    let issuer = der::expect(&mut inner, der::SEQUENCE)?;
    let validity = der::expect(&mut inner, der::SEQUENCE)?;
    let subject = der::expect(&mut inner, der::SEQUENCE)?;
    let public_key = der::next(&mut inner).filter(|element| element.tag == der::SEQUENCE)?.whole;
    let signed = signed.whole;
    Some(Parts { signed, algorithm, signature, is_version_1, validity, issuer, subject, public_key })
}

/// When a revocation list (RFC 5280, 5.1) says that the next one is due; `None` where it does not.
pub fn next_update_s(list: &[u8]) -> Option<i64> {
    let mut input = list;
    let mut outer = der::expect(&mut input, der::SEQUENCE)?;
    let mut inner = der::expect(&mut outer, der::SEQUENCE)?;
    // The version, the algorithm, the issuer; then when it was made.
    der::expect(&mut inner, der::INTEGER)?;
    der::expect(&mut inner, der::SEQUENCE)?;
    der::expect(&mut inner, der::SEQUENCE)?;
    der::next(&mut inner)?;
    seconds(der::next(&mut inner)?)
}

/// A bit string of whole bytes.
pub fn bits(content: &[u8]) -> Option<&[u8]> {
    content.strip_prefix(&[0])
}

/// `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`, the only forms that RFC 5280 allows.
fn seconds(time: der::Element<'_>) -> Option<i64> {
    let text = std::str::from_utf8(time.content).ok()?.strip_suffix('Z')?;
    let (year, rest) = match time.tag {
        der::UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            let year: i64 = year.parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        der::GENERALIZED_TIME => {
            let (year, rest) = text.split_at_checked(4)?;
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    if rest.len() != 10 || !rest.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let part = |at: usize| rest[at..at + 2].parse::<i64>().ok();
    let (month, day) = (part(0)?, part(2)?);
    if !(1..=12).contains(&month) {
        return None;
    }
    let time_s = part(4)? * 3_600 + part(6)? * 60 + part(8)?;
    Some(days_since_1970(year, month, day) * 86_400 + time_s)
}

/// Years begin in March, so that the leap day is the last: months then have a length that a formula gives.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let before = year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    before + (month * 153 + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(tag: u8, text: &str) -> Option<i64> {
        seconds(der::Element { tag, content: text.as_bytes(), whole: &[] })
    }

    #[test]
    fn dates_are_seconds_since_1970() {
        assert_eq!(at(der::UTC_TIME, "700101000000Z"), Some(0));
        assert_eq!(at(der::UTC_TIME, "000229120000Z"), Some(951_825_600));
        assert_eq!(at(der::GENERALIZED_TIME, "20380119031408Z"), Some(1 << 31));
        assert_eq!(at(der::UTC_TIME, "491231235959Z"), Some(2_524_607_999));
        assert_eq!(at(der::UTC_TIME, "7001010000Z"), None);
        assert_eq!(at(der::GENERALIZED_TIME, "20381319031408Z"), None);
    }

    #[test]
    fn bytes_that_are_no_certificate_are_none() {
        for bytes in [&b""[..], b"0", &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff], &[0x30, 0x02, 0x30, 0x00]] {
            assert!(facts(bytes).is_none(), "{bytes:?}");
            assert!(next_update_s(bytes).is_none(), "{bytes:?}");
        }
    }
}

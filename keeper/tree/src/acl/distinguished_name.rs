//! Whether a text is a distinguished name (RFC 2253 with the liberties of RFC 1779), which is what an ACL of
//! the scheme `x509` has to hold. Judges the form only: names are compared letter by letter.

/// Names of attributes that stand for an object identifier in Java's X500Principal, which ZooKeeper asks.
const KEYWORDS: [&str; 21] = [
    "C",
    "CN",
    "DC",
    "DNQ",
    "DNQUALIFIER",
    "EMAIL",
    "EMAILADDRESS",
    "GENERATION",
    "GIVENNAME",
    "INITIALS",
    "IP",
    "L",
    "O",
    "OU",
    "S",
    "SERIALNUMBER",
    "ST",
    "STREET",
    "SURNAME",
    "T",
    "UID",
];

/// Characters that a backslash may take their meaning from.
const ESCAPABLE: &[u8] = b",=\n+<>#;\\\" ";

/// The empty text is a name of no parts.
pub(super) fn is_distinguished_name(text: &str) -> bool {
    let mut rest = text.as_bytes();
    if rest.is_empty() {
        return true;
    }
    loop {
        let Some((keyword, value)) = split_at_equals(rest) else { return false };
        if !is_keyword(keyword) {
            return false;
        }
        match after_value(value) {
            Some([]) => return true,
            // The separator itself.
            Some(more) => rest = &more[1..],
            None => return false,
        }
    }
}

fn split_at_equals(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|byte| *byte == b'=')?;
    Some((bytes[..at].trim_ascii(), &bytes[at + 1..]))
}

fn is_keyword(keyword: &[u8]) -> bool {
    if KEYWORDS.iter().any(|known| keyword.eq_ignore_ascii_case(known.as_bytes())) {
        return true;
    }
    let digits = match keyword.split_at_checked(4) {
        Some((start, rest)) if start.eq_ignore_ascii_case(b"OID.") => rest,
        _ => keyword,
    };
    let mut parts = digits.split(|byte| *byte == b'.');
    let all_numbers = parts.all(|part| !part.is_empty() && part.iter().all(u8::is_ascii_digit));
    all_numbers && digits.contains(&b'.') && matches!(digits[0], b'0'..=b'2')
}

/// What follows a value: nothing, or a separator and more. `None` when the value is malformed.
fn after_value(value: &[u8]) -> Option<&[u8]> {
    match value.trim_ascii_start() {
        [b'#', hex @ ..] => after_hex(hex),
        [b'"', quoted @ ..] => after_quoted(quoted),
        plain => after_plain(plain),
    }
}

fn is_separator(byte: u8) -> bool {
    matches!(byte, b',' | b';' | b'+')
}

fn after_hex(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.iter().position(|byte| is_separator(*byte)).unwrap_or(bytes.len());
    let digits = bytes[..end].trim_ascii();
    let sound =
        !digits.is_empty() && digits.len().is_multiple_of(2) && digits.iter().all(u8::is_ascii_hexdigit);
    sound.then_some(&bytes[end..])
}

fn after_quoted(mut bytes: &[u8]) -> Option<&[u8]> {
    loop {
        match bytes {
            [b'"', rest @ ..] => {
                let rest = rest.trim_ascii_start();
                return rest.first().is_none_or(|byte| is_separator(*byte)).then_some(rest);
            }
            [b'\\', escaped @ ..] => bytes = after_escape(escaped)?,
            [_, rest @ ..] => bytes = rest,
            [] => return None,
        }
    }
}

fn after_plain(mut bytes: &[u8]) -> Option<&[u8]> {
    loop {
        match bytes {
            [] => return Some(bytes),
            [byte, ..] if is_separator(*byte) => return Some(bytes),
            [b'<' | b'>' | b'"', ..] => return None,
            [b'\\', escaped @ ..] => bytes = after_escape(escaped)?,
            [_, rest @ ..] => bytes = rest,
        }
    }
}

fn after_escape(bytes: &[u8]) -> Option<&[u8]> {
    match bytes {
        [one, two, rest @ ..] if one.is_ascii_hexdigit() && two.is_ascii_hexdigit() => Some(rest),
        [one, rest @ ..] if ESCAPABLE.contains(one) => Some(rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Java's X500Principal judged the same texts.
    #[test]
    fn names_are_judged_by_their_form() {
        for good in [
            "",
            "CN=client",
            "cn=client,ou=Storage+l=Berlin;O=\"Castellan, Inc.\",C=DE",
            "CN=a\\, b\\2C c, 1.2.840.113549.1.9.1=a@b.c, OID.2.5.4.3=x",
            "CN=#0c0141",
            "CN=",
            "CN = a",
            "1.2=x",
            "CN=a=b",
            "CN=a#b",
            "CN=a\nb",
            "CN=a\\ ",
            "CN=\u{e9}",
            "CN=\"a\"  ,C=DE",
            "IP=1.2.3.4,EMAIL=x,UID=x,DNQ=x,GENERATION=x,S=x,SERIALNUMBER=1",
        ] {
            assert!(is_distinguished_name(good), "{good:?}");
        }
        for bad in [
            "  ",
            "client",
            "=x",
            "XX=client",
            "C N=x",
            "3=x",
            "3.1=x",
            "2.5.4.3.=x",
            "TITLE=x",
            "CN=a,",
            "CN=a,b",
            "CN=a+",
            "+CN=a",
            "CN=a;;CN=b",
            "CN=\"a",
            "CN=\"a\"b",
            "CN=a\"b",
            "CN=\"\\q\"",
            "CN=a\\",
            "CN=a\\q",
            "CN=#",
            "CN=#0",
            "CN=<a>",
        ] {
            assert!(!is_distinguished_name(bad), "{bad:?}");
        }
    }
}

//! A certificate's subject as text: RFC 2253 as Java's `X500Principal.getName()` prints it, because that is what
//! ZooKeeper's X509AuthenticationProvider takes as the client's id, and so what stands in ACLs.

use crate::der;
use std::fmt::Write;

/// Attribute types with a keyword in RFC 2253, 2.3; others are printed as numbers. The key is the OID's content.
const KEYWORDS: [(&[u8], &str); 9] = [
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 9], "STREET"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25], "DC"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1], "UID"),
];

/// UTF8, Printable, T61, IA5, General, Universal and BMP strings: Java reads all of them as UTF-8.
const STRING_TAGS: [u8; 7] = [0x0c, 0x13, 0x14, 0x16, 0x1b, 0x1c, 0x1e];

/// Characters that get a backslash wherever they stand.
const ESCAPED: &str = ",=+<>#;\"\\";

/// `name` is the content of the Name's sequence. The most specific part comes first, as RFC 2253 wants.
pub fn rfc2253(name: &[u8]) -> Option<String> {
    let mut relative_names = Vec::new();
    let mut input = name;
    while !input.is_empty() {
        relative_names.push(relative_name(der::expect(&mut input, der::SET)?)?);
    }
    relative_names.reverse();
    Some(relative_names.join(","))
}

fn relative_name(mut set: &[u8]) -> Option<String> {
    let mut text = String::new();
    while !set.is_empty() {
        let mut attribute = der::expect(&mut set, der::SEQUENCE)?;
        let kind = der::expect(&mut attribute, der::OBJECT_ID)?;
        let value = der::next(&mut attribute)?;
        if !text.is_empty() {
            text.push('+');
        }
        let keyword = KEYWORDS.iter().find(|(oid, _)| *oid == kind).map(|(_, keyword)| *keyword);
        match keyword {
            Some(keyword) if STRING_TAGS.contains(&value.tag) => {
                text.push_str(keyword);
                text.push('=');
                escape(&String::from_utf8_lossy(value.content), &mut text);
            }
            _ => {
                text.push_str(&keyword.map_or_else(|| dotted(kind), str::to_owned));
                text.push_str("=#");
                for byte in value.whole {
                    // Writing into a String cannot fail.
                    let _ = write!(text, "{byte:02x}");
                }
            }
        }
    }
    Some(text)
}

fn escape(value: &str, out: &mut String) {
    let is_blank = |c: char| c == ' ' || c == '\r';
    let begin = value.len() - value.trim_start_matches(is_blank).len();
    let end = value.trim_end_matches(is_blank).len();
    for (at, c) in value.char_indices() {
        if c == '\0' {
            out.push_str("\\00");
            continue;
        }
        if ESCAPED.contains(c) || at < begin || at >= end {
            out.push('\\');
        }
        out.push(c);
    }
}

/// An object identifier in numbers (X.690, 8.19).
fn dotted(oid: &[u8]) -> String {
    let mut arcs: Vec<u64> = Vec::new();
    let mut arc = 0_u64;
    for byte in oid {
        arc = arc.wrapping_shl(7) | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            arcs.push(arc);
            arc = 0;
        }
    }
    let first = arcs.first().copied().unwrap_or_default();
    let top = (first / 40).min(2);
    let mut text = format!("{top}.{}", first - top * 40);
    for arc in arcs.iter().skip(1) {
        let _ = write!(text, ".{arc}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn element(tag: u8, content: &[u8]) -> Vec<u8> {
        assert!(content.len() < 128);
        [&[tag, content.len() as u8], content].concat()
    }

    fn attribute(oid: &[u8], tag: u8, value: &[u8]) -> Vec<u8> {
        element(der::SEQUENCE, &[element(der::OBJECT_ID, oid), element(tag, value)].concat())
    }

    const COMMON_NAME: &[u8] = &[0x55, 4, 3];

    fn common_name(tag: u8, value: &[u8]) -> String {
        rfc2253(&element(der::SET, &attribute(COMMON_NAME, tag, value))).expect("a name")
    }

    #[test]
    fn parts_come_in_reverse_and_unknown_ones_as_numbers() {
        let email = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1];
        let name = [
            element(der::SET, &attribute(&[0x55, 4, 6], 0x13, b"DE")),
            element(
                der::SET,
                &[attribute(&[0x55, 4, 11], 0x0c, b"Ops"), attribute(COMMON_NAME, 0x0c, b"one")].concat(),
            ),
            element(der::SET, &attribute(&email, 0x16, b"a@b")),
        ]
        .concat();
        assert_eq!(rfc2253(&name).as_deref(), Some("1.2.840.113549.1.9.1=#1603614062,OU=Ops+CN=one,C=DE"));
    }

    #[test]
    fn what_has_a_meaning_is_escaped() {
        assert_eq!(common_name(0x0c, b"a,b=c+d<e>f#g;h\"i\\j"), r#"CN=a\,b\=c\+d\<e\>f\#g\;h\"i\\j"#);
        assert_eq!(common_name(0x0c, b"  a b "), r"CN=\ \ a b\ ");
        assert_eq!(common_name(0x0c, b"  "), r"CN=\ \ ");
        assert_eq!(common_name(0x0c, "Grüße".as_bytes()), "CN=Grüße");
        assert_eq!(common_name(0x0c, b"a\0b"), r"CN=a\00b");
        assert_eq!(common_name(0x03, b"\0a"), "CN=#03020061");
    }

    #[test]
    fn no_name_is_the_empty_text_and_a_broken_one_is_none() {
        assert_eq!(rfc2253(b"").as_deref(), Some(""));
        assert_eq!(rfc2253(&[0x31, 0x05, 0x30]), None);
    }
}

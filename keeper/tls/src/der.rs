//! Just enough DER (X.690) to find a subject and a date in a certificate that a verifier has read before.

/// One element: its tag, its content, and both with the length between them.
#[derive(Clone, Copy)]
pub struct Element<'a> {
    pub tag: u8,
    pub content: &'a [u8],
    pub whole: &'a [u8],
}

pub const INTEGER: u8 = 0x02;
pub const BIT_STRING: u8 = 0x03;
pub const OCTET_STRING: u8 = 0x04;
pub const OBJECT_ID: u8 = 0x06;
pub const UTC_TIME: u8 = 0x17;
pub const GENERALIZED_TIME: u8 = 0x18;
pub const SEQUENCE: u8 = 0x30;
pub const SET: u8 = 0x31;
/// `[0] EXPLICIT`: the version of a certificate.
pub const CONTEXT_0: u8 = 0xa0;

/// Takes the next element off the front. `None` at the end, and for what is not DER with tags of one byte.
pub fn next<'a>(input: &mut &'a [u8]) -> Option<Element<'a>> {
    let whole = *input;
    let (&tag, rest) = whole.split_first()?;
    if tag & 0x1f == 0x1f {
        return None;
    }
    let (&first, mut rest) = rest.split_first()?;
    let mut len = usize::from(first);
    if first >= 0x80 {
        let count = usize::from(first & 0x7f);
        if !(1..=4).contains(&count) {
            return None;
        }
        let (bytes, after) = rest.split_at_checked(count)?;
        len = bytes.iter().fold(0, |len, byte| len << 8 | usize::from(*byte));
        rest = after;
    }
    let (content, after) = rest.split_at_checked(len)?;
    *input = after;
    Some(Element { tag, content, whole: &whole[..whole.len() - after.len()] })
}

/// The next element's content, if it has this tag.
pub fn expect<'a>(input: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    next(input).filter(|element| element.tag == tag).map(|element| element.content)
}

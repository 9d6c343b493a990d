//! The trace context behind a request: one byte that says whether there is one, then its text, a line each: trace id
//! as a UUID, span id in decimal digits, the W3C `tracestate` with escapes, flags (ClickHouse, `TracingContext`).

use crate::limits::TRACE_STATE_BYTES_MAX;
use std::fmt;

const LINES: usize = 4;
/// UUID, span id, flags and line ends beside the state.
const CONTEXT_BYTES_MAX: usize = TRACE_STATE_BYTES_MAX + 128;

/// Of the caller's span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    pub trace_id: u128,
    pub span_id: u64,
    pub flags: u8,
}

/// As the header `traceparent` (W3C Trace Context, version 00).
impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, self.flags)
    }
}

/// All of `bytes`; `None` when they are something else.
pub(super) fn read(bytes: &[u8]) -> Option<Option<Trace>> {
    match bytes.split_first()? {
        (0, []) => Some(None),
        (1, text) => parse(std::str::from_utf8(text).ok()?).map(Some),
        _ => None,
    }
}

/// The one that `bytes` begin with, and how many bytes it takes; `Some(None)` while not all of it is there.
#[allow(clippy::type_complexity)]
pub(super) fn read_first(bytes: &[u8]) -> Option<Option<(Option<Trace>, usize)>> {
    match bytes.split_first() {
        None => Some(None),
        Some((0, _)) => Some(Some((None, 1))),
        Some((1, text)) => {
            let ends = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
            match ends.take(CONTEXT_BYTES_MAX).nth(LINES - 1) {
                Some(end) => read(&bytes[..1 + end]).map(|trace| Some((trace, 1 + end))),
                None if text.len() < CONTEXT_BYTES_MAX => Some(None),
                None => None,
            }
        }
        Some(_) => None,
    }
}

fn parse(text: &str) -> Option<Trace> {
    let mut lines = text.strip_suffix('\n')?.split('\n');
    let (trace_id, span_id, state, flags) = (lines.next()?, lines.next()?, lines.next()?, lines.next()?);
    if lines.next().is_some() || state.len() > TRACE_STATE_BYTES_MAX {
        return None;
    }
    let dashes =
        trace_id.bytes().enumerate().all(|(at, byte)| (byte == b'-') == matches!(at, 8 | 13 | 18 | 23));
    if trace_id.len() != 36 || !dashes {
        return None;
    }
    let trace_id = u128::from_str_radix(&trace_id.replace('-', ""), 16).ok()?;
    Some(Trace { trace_id, span_id: span_id.parse().ok()?, flags: flags.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_read_and_shown_as_its_header() {
        let text = b"\x0102030405-0607-0809-0a0b-0c0d0e0f1011\n255\nvendor=x\\ty\n1\n";
        let trace = read(text).unwrap().unwrap();
        assert_eq!(trace.to_string(), "00-02030405060708090a0b0c0d0e0f1011-00000000000000ff-01");
        assert_eq!(read(b"\x00"), Some(None));
    }

    #[test]
    fn anything_else_is_malformed() {
        let uuid = "02030405-0607-0809-0a0b-0c0d0e0f1011";
        for text in [
            String::new(),
            format!("\u{1}{uuid}\n1\n\n1"),
            format!("\u{1}{uuid}\n1\n\n1\n\n"),
            format!("\u{1}{uuid}\n-1\n\n1\n"),
            format!("\u{1}{uuid}\n1\n\n256\n"),
            format!("\u{1}{}\n1\n\n1\n", uuid.replace('-', "")),
            format!("\u{1}{uuid}\n1\n{}\n1\n", "x".repeat(TRACE_STATE_BYTES_MAX + 1)),
            "\u{0}\u{0}".into(),
            "\u{2}".into(),
        ] {
            assert_eq!(read(text.as_bytes()), None, "{text:?}");
        }
    }
}

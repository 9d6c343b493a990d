//! The text of an answer: bounded, and it says so when it was cut.

use crate::limits::ANSWER_BYTES_MAX;
use std::fmt::{self, Write as _};

#[derive(Default)]
pub struct Text {
    text: String,
    cut: bool,
}

impl Text {
    /// Appends one line. False once the bound is reached: nothing more is taken in.
    pub fn line(&mut self, line: fmt::Arguments<'_>) -> bool {
        if self.cut {
            return false;
        }
        let before = self.text.len();
        // Writing into a String cannot fail.
        let _ = self.text.write_fmt(line);
        self.text.push('\n');
        if self.text.len() > ANSWER_BYTES_MAX {
            self.text.truncate(before);
            self.cut = true;
        }
        !self.cut
    }

    pub fn finish(mut self) -> String {
        if self.cut {
            let _ = writeln!(self.text, "... cut: an answer has at most {ANSWER_BYTES_MAX} bytes");
        }
        self.text
    }
}

/// `text.line`, with the arguments of `format!`.
macro_rules! put {
    ($text:expr, $($arguments:tt)*) => { $text.line(format_args!($($arguments)*)) };
}
pub(super) use put;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_answer_ends_with_whole_lines_and_says_that_it_was_cut() {
        let mut text = Text::default();
        let long = "x".repeat(1_000);
        let taken = (0..10_000).take_while(|_| put!(text, "{long}")).count();
        assert_eq!(taken, ANSWER_BYTES_MAX / 1_001);
        let text = text.finish();
        assert!(text.ends_with(&format!("x\n... cut: an answer has at most {ANSWER_BYTES_MAX} bytes\n")));
    }
}

//! The written list of accepted differences of one suite.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// `minimum: N` is the least number of tests that must run. An unindented line is a reason, the indented lines below it
/// are the tests it holds for; `#` begins a comment.
pub struct Accepted {
    pub minimum: u64,
    reasons: BTreeMap<String, String>,
}

impl Accepted {
    pub fn read(file: &Path) -> Result<Accepted> {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        Accepted::parse(&text).with_context(|| file.display().to_string())
    }

    fn parse(text: &str) -> Result<Accepted> {
        let (mut minimum, mut reason, mut reasons) = (None, None, BTreeMap::new());
        for (number, line) in text.lines().enumerate() {
            let entry = line.trim();
            if entry.is_empty() || entry.starts_with('#') {
                continue;
            }
            if let Some(count) = entry.strip_prefix("minimum:") {
                let count = count.trim();
                minimum = Some(
                    count.parse().with_context(|| format!("line {}: `{count}` is no number", number + 1))?,
                );
            } else if !line.starts_with(char::is_whitespace) {
                reason = Some(entry.trim_end_matches(':').to_owned());
            } else if let Some(reason) = &reason {
                reasons.insert(entry.to_owned(), reason.clone());
            } else {
                bail!("line {}: `{entry}` stands under no reason", number + 1);
            }
        }
        let minimum = minimum.context("there is no line `minimum: N`")?;
        Ok(Accepted { minimum, reasons })
    }

    pub fn reason(&self, name: &str) -> Option<&str> {
        self.reasons.get(name).map(String::as_str)
    }

    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.reasons.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_stand_under_their_reason() {
        let accepted =
            Accepted::parse("# x\nminimum: 7\n\nToo old:\n    a::b\n    c\nOther:\n  d\n").unwrap();
        assert_eq!(accepted.minimum, 7);
        assert_eq!((accepted.reason("c"), accepted.reason("d")), (Some("Too old"), Some("Other")));
        assert_eq!(accepted.reason("x"), None);
    }

    #[test]
    fn a_test_without_reason_and_a_list_without_minimum_are_refused() {
        let error = |text| format!("{:#}", Accepted::parse(text).err().unwrap());
        assert!(error("minimum: 1\n  a\n").contains("line 2"));
        assert!(error("Reason:\n  a\n").contains("minimum"));
        assert!(error("minimum: many\n").contains("`many`"));
    }
}

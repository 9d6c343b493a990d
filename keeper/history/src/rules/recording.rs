//! Whether the history can be judged at all: a fault here is the recorder's, not the server's.

use crate::facts::Facts;
use crate::history::Outcome;
use crate::report::{Report, Rule};

pub(crate) fn check(facts: &Facts<'_>, report: &mut Report) {
    for (at, operation) in facts.operations.iter().enumerate() {
        let mut wrong = |message: String| report.add(Rule::Recording, &[at], message);
        if operation.outcome != Outcome::Unknown {
            match operation.returned_at_ns {
                None => wrong("an answer without the time it came".into()),
                Some(returned) if returned < operation.invoked_at_ns => {
                    wrong("the reply came before the request".into())
                }
                Some(_) => {}
            }
        }
        if operation.kind.is_write() && operation.seen().is_some_and(|seen| seen.zxid <= 0) {
            wrong(format!("a write of {} was done without a zxid", operation.path));
        }
        if let (true, Some(value)) = (operation.kind.is_write(), &operation.value)
            && let Some(first) = facts.writer_of.get(value.as_str()).filter(|first| **first != at)
        {
            let message =
                format!("the value {value:?} is written twice, so nobody can tell which write was read");
            report.add(Rule::Recording, &[*first, at], message);
        }
    }
}

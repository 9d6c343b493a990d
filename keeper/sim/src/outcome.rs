//! What is left of one run, and the line it is reported in.

use crate::executor::{Ended, Finished};
use crate::oracle::Seen;
use crate::world::{Counts, World};
use std::fmt;
use std::time::Duration;

/// Of the first finding, in a seed's one line.
const FINDING_CHARS_MAX: usize = 250;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub findings: Vec<String>,
    pub seen: Seen,
    pub counts: Counts,
    /// Times from a leader's death to the next acknowledged operation, where they were measured.
    pub failovers: Vec<Duration>,
}

impl Outcome {
    pub fn of(world: &World) -> Outcome {
        Outcome {
            findings: world.oracle().findings(),
            seen: world.oracle().seen(),
            counts: world.counts(),
            failovers: Vec::new(),
        }
    }
}

/// A seed's run as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub seed: u64,
    pub outcome: Outcome,
    pub trace: u64,
    pub polls: u64,
    pub simulated: Duration,
}

impl Report {
    pub fn new(seed: u64, finished: Finished<Outcome>) -> Report {
        let mut outcome = finished.output.unwrap_or_default();
        for panic in &finished.panics {
            let what = format!("panic on node {} in task {}: {}", panic.node, panic.task, panic.message);
            outcome.findings.push(what);
        }
        let stuck = match finished.ended {
            Ended::Completed | Ended::Panicked => None,
            Ended::Deadlock => Some("deadlock: nothing is ready and no timer is set"),
            Ended::Livelock => Some("livelock: too many polls"),
            Ended::TimeUp => Some("the run does not end"),
        };
        outcome.findings.extend(stuck.map(str::to_string));
        Report { seed, outcome, trace: finished.trace, polls: finished.polls, simulated: finished.simulated }
    }

    pub fn is_good(&self) -> bool {
        self.outcome.findings.is_empty()
    }

    /// What was found first, cut to one line's length; empty if nothing was.
    pub fn first_finding(&self) -> String {
        let first = self.outcome.findings.first().map_or("", String::as_str);
        first.chars().take(FINDING_CHARS_MAX).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { seed, outcome, trace, polls, simulated } = self;
        write!(f, "seed {seed} trace {trace:016x} ")?;
        match outcome.findings.as_slice() {
            [] => write!(
                f,
                "good: {:.1} s, {polls} polls, {:?}, {:?}",
                simulated.as_secs_f64(),
                outcome.seen,
                outcome.counts
            ),
            [_, rest @ ..] => {
                write!(f, "FAILED: {}", self.first_finding())?;
                if !rest.is_empty() {
                    write!(f, " (and {} more)", rest.len())?;
                }
                Ok(())
            }
        }
    }
}

//! What a run does: which rows, how often and how long.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use castellan_load::bench::{Op, Row};

use super::{Arguments, targets};

/// A row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measured {
    Load(Row),
    Event(Event),
}

/// What happens to a cluster, with a stopwatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The leader's process is killed.
    Failover,
    /// The leader's process is stopped and later continued.
    Freeze,
    /// A client's connection breaks.
    Vanish,
}

impl Event {
    const ALL: [Event; 3] = [Event::Failover, Event::Freeze, Event::Vanish];

    pub fn name(self) -> &'static str {
        match self {
            Event::Failover => "failover",
            Event::Freeze => "freeze",
            Event::Vanish => "vanish",
        }
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Measured::Load(row) => row.fmt(f),
            Measured::Event(event) => f.write_str(event.name()),
        }
    }
}

impl FromStr for Measured {
    type Err = String;
    fn from_str(text: &str) -> Result<Measured, String> {
        if let Some(event) = Event::ALL.into_iter().find(|event| event.name() == text) {
            return Ok(Measured::Event(event));
        }
        let row = text.parse::<Row>();
        row.map(Measured::Load).map_err(|error| format!("{error}; or failover, freeze, vanish"))
    }
}

#[derive(Debug)]
pub struct Plan {
    pub rows: Vec<Measured>,
    pub rounds: usize,
    pub measure: Duration,
    /// Load right before what is measured.
    pub warm: Duration,
    /// Each floor is measured so long.
    pub floor: Duration,
    kills: usize,
    freezes: usize,
    clients: usize,
}

const FLOOR_TIME: Duration = Duration::from_secs(1);

impl Plan {
    pub fn of(arguments: &Arguments) -> Result<Plan> {
        let choose = |given: Option<f64>, full: f64, short: f64| {
            let value = given.unwrap_or(if arguments.short { short } else { full });
            Duration::try_from_secs_f64(value).with_context(|| format!("{value} is no number of seconds"))
        };
        let count = |given: Option<usize>, full: usize, short: usize| {
            given.unwrap_or(if arguments.short { short } else { full })
        };
        let measure = choose(arguments.seconds, 5.0, 0.5)?;
        let plan = Plan {
            rows: rows(arguments)?,
            rounds: count(arguments.rounds, 5, 1),
            measure,
            warm: choose(arguments.warm, 1.0, 0.2)?,
            floor: FLOOR_TIME.min(measure),
            kills: count(arguments.kills, 100, 1),
            freezes: count(arguments.freezes, 10, 1),
            clients: count(arguments.clients, 60, 3),
        };
        let counts = [plan.rounds, plan.kills, plan.freezes, plan.clients];
        ensure!(!counts.contains(&0), "--rounds, --kills, --freezes and --clients must be at least 1");
        Ok(plan)
    }

    /// How often `event` comes in this round: all rounds together make the whole number.
    pub fn share(&self, event: Event, round: usize) -> usize {
        let times = match event {
            Event::Failover => self.kills,
            Event::Freeze => self.freezes,
            Event::Vanish => self.clients,
        };
        times * (round + 1) / self.rounds - times * round / self.rounds
    }
}

fn rows(arguments: &Arguments) -> Result<Vec<Measured>> {
    if !arguments.rows.is_empty() {
        return Ok(arguments.rows.clone());
    }
    if arguments.short {
        // A frozen ZooKeeper would take longer than all else together.
        let load = Measured::Load(Row { op: Op::Mixed, sessions: 8, depth: 4 });
        return Ok(vec![load, Measured::Event(Event::Failover), Measured::Event(Event::Vanish)]);
    }
    targets::rows().into_iter().map(|row| row.parse().map_err(anyhow::Error::msg)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_rows_and_a_typo_names_what_is_allowed() {
        for event in Event::ALL {
            assert_eq!(event.name().parse(), Ok(Measured::Event(event)));
        }
        assert!("fail".parse::<Measured>().is_err_and(|error| error.contains("failover")));
    }

    #[test]
    fn the_rounds_shares_make_the_whole_number() {
        let arguments = Arguments { rounds: Some(3), kills: Some(10), ..Arguments::default() };
        let plan = Plan::of(&arguments).unwrap();
        let shares = [0, 1, 2].map(|round| plan.share(Event::Failover, round));
        assert_eq!(shares, [3, 3, 4]);
    }

    #[test]
    fn a_full_run_has_every_row_with_a_target_and_a_short_one_is_short() {
        let full = Plan::of(&Arguments::default()).unwrap();
        assert_eq!(full.rows.len(), targets::rows().len());
        assert_eq!((full.rounds, full.kills), (5, 100));
        let short = Plan::of(&Arguments { short: true, ..Arguments::default() }).unwrap();
        assert_eq!((short.rounds, short.kills, short.measure), (1, 1, Duration::from_millis(500)));
    }

    #[test]
    fn nothing_is_no_number_of_rounds() {
        let arguments = Arguments { rounds: Some(0), ..Arguments::default() };
        assert!(Plan::of(&arguments).unwrap_err().to_string().contains("--rounds"));
        let arguments = Arguments { seconds: Some(-1.0), ..Arguments::default() };
        assert!(Plan::of(&arguments).is_err());
    }
}

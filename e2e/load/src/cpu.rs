//! Processor time of server processes, as the kernel counts it: user and system, all threads.

use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::{Context, Result};

/// What all of `pids` have used since they began. One that has ended is an error: its time would be missing.
pub fn used(pids: &[u32]) -> Result<Duration> {
    let mut ticks = 0;
    for pid in pids {
        let path = format!("/proc/{pid}/stat");
        let stat = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        ticks += ticks_of(&stat).with_context(|| format!("{path} has an unknown form"))?;
    }
    Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// Fields 14 and 15; the name in field 2 stands in parentheses and may hold anything.
fn ticks_of(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(") ")?.1.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(user + system)
}

/// What processes use inside a window of time, read when a moment inside it and one behind it are first seen.
pub struct Meter {
    pids: Vec<u32>,
    window_ns: RangeInclusive<u64>,
    begin: Option<Duration>,
    end: Option<Duration>,
}

impl Meter {
    pub fn new(pids: &[u32], window_ns: RangeInclusive<u64>) -> Meter {
        Meter { pids: pids.to_vec(), window_ns, begin: None, end: None }
    }

    pub fn see(&mut self, now_ns: u64) -> Result<()> {
        if self.begin.is_none() && *self.window_ns.start() <= now_ns {
            self.begin = Some(used(&self.pids)?);
        }
        if self.end.is_none() && *self.window_ns.end() < now_ns {
            self.end = Some(used(&self.pids)?);
        }
        Ok(())
    }

    /// The time used inside the window, which is over.
    pub fn finish(self) -> Result<Duration> {
        let end = self.end.map_or_else(|| used(&self.pids), Ok)?;
        Ok(end.saturating_sub(self.begin.context("nothing happened inside the measured time")?))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn user_and_system_time_stand_behind_a_name_with_parentheses() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 1 0 5 1000 10";
        assert_eq!(ticks_of(stat), Some(300));
        assert_eq!(ticks_of("7 (a) S 1"), None);
    }

    #[test]
    fn a_busy_process_uses_time_inside_the_window_only() {
        let pids = [std::process::id()];
        let mut meter = Meter::new(&pids, 10..=20);
        meter.see(5).unwrap();
        assert!(meter.begin.is_none());
        meter.see(10).unwrap();
        let begin = Instant::now();
        while used(&pids).unwrap() < meter.begin.unwrap() + Duration::from_millis(50) {
            assert!(begin.elapsed() < Duration::from_secs(60), "this very loop uses time");
        }
        meter.see(21).unwrap();
        let end = meter.end;
        meter.see(22).unwrap();
        assert_eq!(meter.end, end, "what comes later is not counted");
        assert!(meter.finish().unwrap() >= Duration::from_millis(50));
    }
}

//! What a run tells while it goes on.

use crate::lanes::Phase;
use std::sync::Arc;
use std::time::Duration;

/// What a watcher of the run is told.
pub enum News<'a> {
    Stage(&'a str),
    Progress { elapsed: Duration, done_per_second: f64, failed: u64 },
}

pub type Watcher<'a> = &'a mut dyn FnMut(News<'_>);

/// Waits for `lanes`, and tells of them meanwhile. Stops them when the caller interrupts: then true.
pub async fn follow<T>(
    lanes: impl Future<Output = T>,
    phase: &Arc<Phase>,
    report_delay: Duration,
    interrupt: &mut (impl Future<Output = ()> + Unpin),
    watcher: Watcher<'_>,
) -> (T, bool) {
    let started = keeper_rt::now();
    let mut lanes = std::pin::pin!(lanes);
    let delay = if report_delay.is_zero() { Duration::MAX / 4 } else { report_delay };
    let (mut next, mut last, mut interrupted) = (started + delay, (started, 0), false);
    loop {
        tokio::select! {
            biased;
            done = &mut lanes => return (done, interrupted),
            () = &mut *interrupt, if !interrupted => {
                interrupted = true;
                phase.stop();
            }
            () = keeper_rt::sleep_until(next) => {
                let now = keeper_rt::now();
                let (done, failed) = phase.sink.recorder.counts();
                let done_per_second = done.saturating_sub(last.1) as f64 / (now - last.0).as_secs_f64();
                watcher(News::Progress { elapsed: now - started, done_per_second, failed });
                last = (now, done);
                next = now + delay;
            }
        }
    }
}

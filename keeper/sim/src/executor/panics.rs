//! Panics inside a simulation are findings: kept with their place instead of printed.

use super::{NodeId, Simulator};
use std::any::Any;
use std::cell::RefCell;
use std::sync::Once;

thread_local! {
    /// The simulation on this thread.
    static RUNNING: RefCell<Option<Simulator>> = const { RefCell::new(None) };
    /// Where the last panic of this thread came from.
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Ends the quiet when dropped.
pub(super) struct Quiet(());

impl Drop for Quiet {
    fn drop(&mut self) {
        RUNNING.with_borrow_mut(|running| *running = None);
    }
}

pub(super) fn keep_quiet(simulator: &Simulator) -> Quiet {
    // The hook is the process's, so it is set once; it asks the thread whether a simulation runs there.
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if position().is_none() {
                return before(info);
            }
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            PLACE.with_borrow_mut(|last| *last = place);
            if std::env::var_os("KEEPER_SIM_BACKTRACE").is_some() {
                eprintln!("{}", std::backtrace::Backtrace::force_capture());
            }
        }));
    });
    RUNNING.with_borrow_mut(|running| *running = Some(simulator.clone()));
    Quiet(())
}

/// The node being polled and the true simulated time in nanoseconds, if a simulation runs on this thread.
pub fn position() -> Option<(NodeId, u64)> {
    RUNNING.with_borrow(|running| {
        running.as_ref().map(|simulator| (simulator.current_node(), simulator.now_ns()))
    })
}

pub(super) fn describe(panic: &(dyn Any + Send)) -> String {
    let text = match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_string(),
        (None, Some(text)) => text.clone(),
        (None, None) => "a panic without a message".to_string(),
    };
    let place = PLACE.with_borrow_mut(std::mem::take);
    if place.is_empty() { text } else { format!("{text} ({place})") }
}

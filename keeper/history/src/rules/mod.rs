//! The rules, each a function over the facts that adds what it finds to the report.

pub(crate) mod reads;
pub(crate) mod recording;
pub(crate) mod sessions;
pub(crate) mod writes;

// Error codes on the wire.
pub(crate) const NO_NODE: i32 = -101;
pub(crate) const BAD_VERSION: i32 = -103;
pub(crate) const NODE_EXISTS: i32 = -110;

/// The highest of some numbers with who has it, as of a growing point in time.
pub(crate) struct Highest {
    /// (time, number, who), by time.
    items: Vec<(u64, i64, usize)>,
}

impl Highest {
    pub fn new(mut items: Vec<(u64, i64, usize)>) -> Highest {
        items.sort_unstable();
        let mut best: Option<(i64, usize)> = None;
        for item in &mut items {
            best = best.max(Some((item.1, item.2)));
            if let Some((number, who)) = best {
                (item.1, item.2) = (number, who);
            }
        }
        Highest { items }
    }

    /// The highest number of the items before `time`.
    pub fn before(&self, time: u64) -> Option<(i64, usize)> {
        let count = self.items.partition_point(|item| item.0 < time);
        let (_, number, who) = self.items.get(count.checked_sub(1)?)?;
        Some((*number, *who))
    }
}

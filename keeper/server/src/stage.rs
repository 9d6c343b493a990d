//! The stages of a write, in order. One name each for the histogram's label, the span, and the diagram in
//! ARCHITECTURE.md (a test compares them).

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Frame read from the socket and decoded (`connection.rs`).
    Received,
    /// In order within its session and accepted (`session.rs`).
    Admitted,
    /// Packed into a batch and on its way to the leader (`dispatch.rs`).
    Dispatched,
    /// Stamped by the leader and handed to consensus (`leader.rs`).
    Proposed,
    /// Durable in this member's log (`keeper-log`).
    Persisted,
    /// Durable on a quorum (`keeper-consensus`).
    Committed,
    /// In the tree; watches fired (`apply.rs`).
    Applied,
    /// Bytes of the reply taken by the socket (`connection.rs`).
    Replied,
}

impl Stage {
    pub const ALL: [Stage; 8] = [
        Stage::Received,
        Stage::Admitted,
        Stage::Dispatched,
        Stage::Proposed,
        Stage::Persisted,
        Stage::Committed,
        Stage::Applied,
        Stage::Replied,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Stage::Received => "received",
            Stage::Admitted => "admitted",
            Stage::Dispatched => "dispatched",
            Stage::Proposed => "proposed",
            Stage::Persisted => "persisted",
            Stage::Committed => "committed",
            Stage::Applied => "applied",
            Stage::Replied => "replied",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_stands_in_the_diagram_in_order() {
        let map = include_str!("../../../ARCHITECTURE.md");
        let mut at = map.find("## The walk of a write").expect("ARCHITECTURE.md has the walk of a write");
        for stage in Stage::ALL {
            let row = format!("| {} |", stage.name());
            at += map[at..].find(&row).unwrap_or_else(|| panic!("no row `{row}` after the previous stage"));
        }
    }
}

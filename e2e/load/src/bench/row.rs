//! Names of measured rows, such as `create-64x16`: an operation, the number of sessions, requests each keeps in flight.

use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A new persistent node a request.
    Create,
    Set,
    Get,
    /// Four gets to one set.
    Mixed,
}

impl Op {
    pub const ALL: [Op; 4] = [Op::Create, Op::Set, Op::Get, Op::Mixed];

    pub fn name(self) -> &'static str {
        match self {
            Op::Create => "create",
            Op::Set => "set",
            Op::Get => "get",
            Op::Mixed => "mixed",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub op: Op,
    pub sessions: usize,
    /// Requests each session keeps in flight.
    pub depth: usize,
}

/// Sessions × depth of the standard rows.
const SHAPES: [(usize, usize); 3] = [(1, 1), (32, 1), (64, 16)];
const SESSIONS_MAX: usize = 4096;
const DEPTH_MAX: usize = 4096;

impl Row {
    /// The rows of a full comparison, in order.
    pub fn all() -> Vec<Row> {
        let shapes = |op| SHAPES.map(|(sessions, depth)| Row { op, sessions, depth });
        Op::ALL.into_iter().flat_map(shapes).collect()
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}x{}", self.op.name(), self.sessions, self.depth)
    }
}

impl FromStr for Row {
    type Err = String;

    fn from_str(text: &str) -> Result<Row, String> {
        let parse = || {
            let (op, shape) = text.split_once('-')?;
            let op = Op::ALL.into_iter().find(|known| known.name() == op)?;
            let (sessions, depth) = shape.split_once('x')?;
            let row = Row { op, sessions: sessions.parse().ok()?, depth: depth.parse().ok()? };
            let fits = (1..=SESSIONS_MAX).contains(&row.sessions) && (1..=DEPTH_MAX).contains(&row.depth);
            fits.then_some(row)
        };
        parse().ok_or_else(|| {
            format!(
                "`{text}` is not a row: write OPERATION-SESSIONSxDEPTH, such as create-64x16, with \
                 create, set, get or mixed, and numbers from 1 to {SESSIONS_MAX}"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_back_from_its_name() {
        for row in Row::all() {
            assert_eq!(row.to_string().parse(), Ok(row));
        }
        assert_eq!(Row::all().len(), 12);
        assert_eq!(Row::all()[2].to_string(), "create-64x16");
    }

    #[test]
    fn what_is_no_row_is_refused_with_an_example() {
        for text in
            ["", "create", "create-1", "drop-1x1", "get-0x1", "get-1x0", "get-1x99999", "get-1x-1", "get-ax1"]
        {
            let error = text.parse::<Row>().unwrap_err();
            assert!(error.contains("create-64x16"), "{error}");
        }
    }
}

//! Connections: cons, and the list in stat. The shape is ZooKeeper's `ServerCnxn.dumpConnectionInfo`.

use super::text::{Text, put};
use crate::shared::Shared;
use crate::tally::Info;
use keeper_types::OpCode;
use std::fmt::{self, Display};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

pub fn cons(shared: &Shared) -> Text {
    let mut text = Text::default();
    list(shared, true, &mut text);
    put!(text, "");
    text
}

/// One line a connection; with `full`, all that is known of it.
pub fn list(shared: &Shared, full: bool, text: &mut Text) {
    for info in all(shared) {
        let more = if full { Some(Details(&info)) } else { None };
        let (queued, received, sent) =
            (info.outstanding.load(Relaxed), info.received.load(Relaxed), info.sent.load(Relaxed));
        let remote = &info.remote;
        let more: &dyn Display = match &more {
            Some(more) => more,
            None => &"",
        };
        if !put!(text, " /{remote}[1](queued={queued},recved={received},sent={sent}{more})") {
            return;
        }
    }
}

/// The map's lock is not held while a long answer is written.
pub fn all(shared: &Shared) -> Vec<Arc<Info>> {
    shared.connections().values().cloned().collect()
}

struct Details<'a>(&'a Info);

impl Display for Details<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = self.0;
        let session = info.session.load(Relaxed);
        if session == 0 {
            return Ok(());
        }
        let (op, established, timeout) =
            (operation(info.last_op.load(Relaxed)), info.established_ms, info.timeout_ms.load(Relaxed));
        write!(f, ",sid={session:#x},lop={op},est={established},to={timeout}")?;
        let cxid = info.last_cxid.load(Relaxed);
        if cxid >= 0 {
            write!(f, ",lcxid={cxid:#x}")?;
        }
        let latency = info.latency.read();
        let [last, min, max] = [latency.last, latency.min, latency.max].map(|us| us / 1_000);
        let average = latency.average() as u64 / 1_000;
        let (zxid, response) = (info.last_zxid.load(Relaxed), info.last_response_ms.load(Relaxed));
        write!(f, ",lzxid={zxid:#x},lresp={response},llat={last},minlat={min},avglat={average},maxlat={max}")
    }
}

/// ZooKeeper's short names (`FinalRequestProcessor`); an operation it has not keeps its own.
pub fn operation(code: i32) -> &'static str {
    let Some(op) = OpCode::from_i32(code) else { return "NA" };
    match op {
        OpCode::CreateSession => "SESS",
        OpCode::CloseSession => "CLOS",
        OpCode::Create | OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => "CREA",
        OpCode::Delete | OpCode::DeleteContainer => "DELE",
        OpCode::Exists => "EXIS",
        OpCode::GetData => "GETD",
        OpCode::SetData => "SETD",
        OpCode::GetAcl => "GETA",
        OpCode::SetAcl => "SETA",
        OpCode::GetChildren | OpCode::GetChildren2 => "GETC",
        OpCode::Sync => "SYNC",
        OpCode::Ping => "PING",
        OpCode::Check => "CHEC",
        OpCode::Multi => "MULT",
        OpCode::MultiRead => "MLTR",
        OpCode::Reconfig => "RECO",
        OpCode::CheckWatches => "CHKW",
        OpCode::RemoveWatches => "REMW",
        OpCode::SetWatches => "SETW",
        OpCode::SetWatches2 => "STW2",
        OpCode::AddWatch => "ADDW",
        OpCode::GetEphemerals => "GETE",
        OpCode::GetAllChildrenNumber => "GETACN",
        OpCode::WhoAmI => "HOMI",
        other => other.name(),
    }
}

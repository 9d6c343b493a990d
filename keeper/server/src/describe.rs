//! A log entry's payload in words, for `keeper log dump`.

use crate::batch::{BadBatch, Batch, BatchCommand, Kind};
use crate::digests::Report;
use keeper_types::{MultiOp, OpCode, Request};

/// Parts of a multi that are named.
const PARTS_SHOWN_MAX: usize = 16;

/// A line about the batch, then one about each of its commands.
pub fn describe_batch(payload: &[u8]) -> Result<Vec<String>, BadBatch> {
    let mut batch = Batch::decode(payload)?;
    let (id, time_ms) = (batch.id, batch.time_ms);
    let mut lines = vec![format!(
        "batch of member {}, start {}, number {}, at {time_ms} ms: {} commands",
        id.origin, id.epoch, id.seq, batch.count
    )];
    while let Some(command) = batch.next_command()? {
        lines.push(describe(&command)?);
    }
    Ok(lines)
}

fn describe(command: &BatchCommand<'_>) -> Result<String, BadBatch> {
    let what = match command.kind {
        Kind::Request | Kind::QuotaRequest => request(command.body)?,
        Kind::Sync => "sync".into(),
        Kind::CreateSession => "create session".into(),
        Kind::AttachSession => "attach session".into(),
        Kind::CloseSession => "close session".into(),
        Kind::ExpireSession => "expire session".into(),
        Kind::CleanUp => format!("clean up {:?}", String::from_utf8_lossy(command.body)),
        Kind::DigestMark => "digest mark".into(),
        Kind::DigestReport => {
            let Report { index, digest } = Report::decode(command.body)?;
            format!("digest {digest:016x} at index {index}")
        }
    };
    // Data, passwords and identities are not for everybody's eyes.
    Ok(format!("session {:#x} generation {}: {what}", command.session.0, command.generation))
}

fn request(body: &[u8]) -> Result<String, BadBatch> {
    let (op, body) = body.split_first_chunk::<4>().ok_or(BadBatch("request without its code"))?;
    let op = OpCode::from_i32(i32::from_be_bytes(*op)).ok_or(BadBatch("unknown operation"))?;
    let request = keeper_wire::decode_request(op, body).map_err(|_| BadBatch("request does not decode"))?;
    let (name, bytes) = (op.name(), body.len());
    Ok(match &request {
        Request::Create(_, create) => format!("{name} {:?}, {bytes} bytes", create.path),
        Request::Delete(delete) => format!("{name} {:?}", delete.path),
        Request::SetData(set) => format!("{name} {:?}, {bytes} bytes", set.path),
        Request::SetAcl(set) => format!("{name} {:?}", set.path),
        Request::Check(check) => format!("{name} {:?}", check.path),
        Request::Multi(parts) => {
            let part = |part: &MultiOp<'_>| format!("{} {:?}", part.op().name(), part.path());
            let shown: Vec<String> = parts.iter().take(PARTS_SHOWN_MAX).map(part).collect();
            let rest = if parts.len() > PARTS_SHOWN_MAX { ", ..." } else { "" };
            format!("{name} of {} ({}{rest}), {bytes} bytes", parts.len(), shown.join(", "))
        }
        _ => format!("{name}, {bytes} bytes"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::BatchBuilder;
    use keeper_tree::BatchId;
    use keeper_types::{Generation, ServerId, SessionId};

    #[test]
    fn every_command_is_named_and_no_data_is_shown() {
        let mut builder = BatchBuilder::new(BatchId { origin: ServerId(3), epoch: 7, seq: 11 }, 1_000);
        let body = b"\0\0\0\x02/a\0\0\0\x06secret\xff\xff\xff\xff";
        let (session, generation) = (SessionId(0x5), Generation(2));
        builder.push(Kind::Request, session, generation, &[], Some(OpCode::SetData.as_i32()), body);
        builder.push(Kind::CleanUp, SessionId(0), Generation(0), &[], None, b"/c");
        let report = Report { index: 9, digest: 0xab };
        builder.push(Kind::DigestReport, SessionId(0), Generation(0), &[], None, &report.body());
        let expected = [
            "batch of member 3, start 7, number 11, at 0 ms: 3 commands",
            "session 0x5 generation 2: SetData \"/a\", 20 bytes",
            "session 0x0 generation 0: clean up \"/c\"",
            "session 0x0 generation 0: digest 00000000000000ab at index 9",
        ];
        let found = describe_batch(&builder.finish()).unwrap();
        assert_eq!(found[0].replace("at 1000", "at 0"), expected[0]);
        assert_eq!(found[1..], expected[1..]);
        assert!(describe_batch(b"nonsense").is_err());
    }
}

//! Who this process is, in one small file that is replaced as a whole. Written before Raft may use it.
//!
//! The boot counter is raised and synced at each start before anything else happens, so two lives of one server
//! never share a number, whatever crashed in between.

use crate::api::{Identity, Member, OpenError};
use crate::codec::{Malformed, Reader, put_member, read_member};
use bytes::{BufMut, Bytes, BytesMut};
use keeper_log::SharedDisk;
use keeper_types::{ClusterId, ServerId};
use std::io;

pub const FILE: &str = "identity";
const MAGIC: &[u8; 4] = b"KPID";
const VERSION: u16 = 1;

/// The file's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub identity: Identity,
    /// Set on the member that founded the cluster: what it founded it with, so that a crash between storing the
    /// identity and writing the first configuration can be made good.
    pub founder: Option<Member>,
}

pub fn encode(stored: &Stored) -> Bytes {
    let mut out = BytesMut::new();
    out.put_slice(MAGIC);
    out.put_u16_le(VERSION);
    out.put_slice(&stored.identity.cluster_id.0);
    out.put_u64_le(stored.identity.server_id.0);
    out.put_u64_le(stored.identity.boot);
    out.put_u8(u8::from(stored.founder.is_some()));
    if let Some(member) = &stored.founder {
        put_member(&mut out, member);
    }
    out.freeze()
}

pub fn decode(bytes: Bytes) -> Result<Stored, Malformed> {
    let mut reader = Reader::new(bytes);
    if reader.array::<4>("identity")? != *MAGIC {
        return Err(Malformed("identity"));
    }
    if reader.u16("identity version")? != VERSION {
        return Err(Malformed("identity version"));
    }
    let cluster_id = ClusterId(reader.array("cluster id")?);
    let server_id = ServerId(reader.u64("server id")?);
    let boot = reader.u64("boot counter")?;
    let founder = if reader.flag("founder")? { Some(read_member(&mut reader)?) } else { None };
    reader.end("identity")?;
    Ok(Stored { identity: Identity { server_id, cluster_id, boot }, founder })
}

pub async fn store(disk: &SharedDisk, stored: &Stored) -> io::Result<()> {
    let (disk, bytes) = (disk.clone(), encode(stored));
    let write = async move { keeper_log::replace_file(&disk, FILE, &bytes).await };
    crate::machine::on_thread("identity", write).await?;
    keeper_rt::point("identity-stored");
    Ok(())
}

/// Reads the identity and counts this start. `None` on an empty disk.
pub async fn load(disk: &SharedDisk, expected: Option<ClusterId>) -> Result<Option<Stored>, OpenError> {
    let damaged =
        |cause: String| OpenError::Damaged { location: disk.location(), subject: "the identity", cause };
    let reading = disk.clone();
    let read = async move { keeper_log::read_small_file(&reading, FILE).await };
    let bytes =
        crate::machine::on_thread("identity", read).await.map_err(|error| damaged(error.to_string()))?;
    let Some(bytes) = bytes else { return Ok(None) };
    let mut stored = decode(bytes).map_err(|error| damaged(error.to_string()))?;
    let found = stored.identity.cluster_id;
    if let Some(expected) = expected.filter(|expected| *expected != found) {
        return Err(OpenError::OtherCluster { location: disk.location(), found, expected });
    }
    stored.identity.boot += 1;
    store(disk, &stored).await.map_err(|error| damaged(error.to_string()))?;
    Ok(Some(stored))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_keeps_its_bytes() {
        let identity = Identity { server_id: ServerId(3), cluster_id: ClusterId([0xab; 16]), boot: 9 };
        let plain = Stored { identity, founder: None };
        let bytes = encode(&plain);
        let expected =
            [&b"KPID"[..], &[1, 0], &[0xab; 16], &3u64.to_le_bytes(), &9u64.to_le_bytes(), &[0]].concat();
        assert_eq!(bytes, expected);
        assert_eq!(decode(bytes), Ok(plain));

        let founder = Member { id: ServerId(3), peer_address: "a:1".into(), ..Member::default() };
        let founded = Stored { identity, founder: Some(founder) };
        assert_eq!(decode(encode(&founded)), Ok(founded));
    }
}

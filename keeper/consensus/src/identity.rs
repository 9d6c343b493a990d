//! Who this process is, and how often it was started: two small files, both durable before Raft may use them.
//! `docs/formats/identity.md` has the tables.
//!
//! The boot counter is raised and synced at each start before anything else happens, so two lives of one server
//! never share a number, whatever crashed in between. It is written in place, into the older of two slots: a member
//! must be able to restart on a full disk.

use crate::api::{Identity, Member, OpenError};
use crate::codec::{Malformed, Reader, put_member, read_member};
use crate::machine::on_thread;
use bytes::{BufMut, Bytes, BytesMut};
use keeper_log::SharedDisk;
use keeper_types::{ClusterId, ServerId};
use sha2::{Digest, Sha256};
use std::io;

pub const FILE: &str = "identity";
const MAGIC: &[u8; 4] = b"KPID";
const VERSION: u16 = 1;

const BOOT_FILE: &str = "boot";
const BOOT_MAGIC: &[u8; 4] = b"KPBT";
/// A slot has a sector of its own, so that a torn write leaves the other one alone.
const SLOT_BYTES: usize = 512;
/// That of the second start, until it is counted.
const EMPTY_SLOT: [u8; SLOT_BYTES] = [0; SLOT_BYTES];
/// Bytes of a slot under its checksum, and of the checksum.
const SLOT_SUMMED_BYTES: usize = 16;
const SLOT_SUM_BYTES: usize = 8;

/// The identity file's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub server_id: ServerId,
    pub cluster_id: ClusterId,
    /// Set on the member that founded the cluster: what it founded it with, so that a crash between storing the
    /// identity and writing the first configuration can be made good.
    pub founder: Option<Member>,
}

pub fn encode(stored: &Stored) -> Bytes {
    let mut out = BytesMut::new();
    out.put_slice(MAGIC);
    out.put_u16_le(VERSION);
    out.put_slice(&stored.cluster_id.0);
    out.put_u64_le(stored.server_id.0);
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
    let founder = if reader.flag("founder")? { Some(read_member(&mut reader)?) } else { None };
    reader.end("identity")?;
    Ok(Stored { server_id, cluster_id, founder })
}

fn encode_slot(boot: u64) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    slot[..4].copy_from_slice(BOOT_MAGIC);
    slot[4..6].copy_from_slice(&VERSION.to_le_bytes());
    slot[8..SLOT_SUMMED_BYTES].copy_from_slice(&boot.to_le_bytes());
    let sum = Sha256::digest(&slot[..SLOT_SUMMED_BYTES]);
    slot[SLOT_SUMMED_BYTES..][..SLOT_SUM_BYTES].copy_from_slice(&sum[..SLOT_SUM_BYTES]);
    slot
}

/// `None` for a slot that was never written, torn, or damaged.
fn decode_slot(slot: &[u8]) -> Option<u64> {
    let boot = u64::from_le_bytes(slot.get(8..SLOT_SUMMED_BYTES)?.try_into().ok()?);
    (slot == encode_slot(boot)).then_some(boot)
}

/// The first start of a member: the counter is made, then the identity. Its presence says that the counter is there.
pub async fn store(disk: &SharedDisk, stored: &Stored) -> io::Result<Identity> {
    let (disk, bytes) = (disk.clone(), encode(stored));
    on_thread("identity", async move {
        let is_there = disk.list().await?.iter().any(|name| name == BOOT_FILE);
        let mut file = if is_there { disk.open(BOOT_FILE).await? } else { disk.create(BOOT_FILE).await? };
        let slots = [encode_slot(1), EMPTY_SLOT].concat();
        file.write_at(0, &slots).await?;
        file.sync().await?;
        disk.sync_folder().await?;
        keeper_log::replace_file(&disk, FILE, &bytes).await
    })
    .await?;
    keeper_rt::point("identity-stored");
    Ok(Identity { server_id: stored.server_id, cluster_id: stored.cluster_id, boot: 1 })
}

/// Counts this start; durable on return.
async fn count_boot(disk: SharedDisk) -> io::Result<u64> {
    let mut file = disk.open(BOOT_FILE).await?;
    let slots = file.read_at(0, 2 * SLOT_BYTES).await?;
    let counts = [decode_slot(&slots[..SLOT_BYTES]), decode_slot(&slots[SLOT_BYTES..])];
    let last = counts.into_iter().flatten().max();
    let last = last.ok_or_else(|| {
        let file = format!("{}/{BOOT_FILE}", disk.location());
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{file} is damaged at byte 0: so are both of its slots"),
        )
    })?;
    if keeper_rt::planted!("boot-not-counted") {
        return Ok(last);
    }
    let is_unreadable =
        |at: usize| counts[at].is_none() && slots[at * SLOT_BYTES..][..SLOT_BYTES] != EMPTY_SLOT;
    // A torn write leaves a number that was never used, a byte that changed later one that was: it is passed over.
    let next = last + 1 + u64::from(is_unreadable(0) || is_unreadable(1));
    let older = if counts[0] == Some(last) { SLOT_BYTES } else { 0 };
    file.write_at(older as u64, &encode_slot(next)).await?;
    file.sync().await?;
    Ok(next)
}

/// Reads the identity and counts this start. `None` on an empty disk.
pub async fn load(
    disk: &SharedDisk,
    expected: Option<ClusterId>,
) -> Result<Option<(Identity, Stored)>, OpenError> {
    let damaged =
        |cause: String| OpenError::Damaged { location: disk.location(), subject: "the identity", cause };
    let reading = disk.clone();
    let read = async move { keeper_log::read_small_file(&reading, FILE).await };
    let bytes = on_thread("identity", read).await.map_err(|error| damaged(error.to_string()))?;
    let Some(bytes) = bytes else { return Ok(None) };
    let stored = decode(bytes).map_err(|error| damaged(error.to_string()))?;
    let found = stored.cluster_id;
    if let Some(expected) = expected.filter(|expected| *expected != found) {
        return Err(OpenError::OtherCluster { location: disk.location(), found, expected });
    }
    let boot = on_thread("identity", count_boot(disk.clone())).await;
    let boot = boot.map_err(|error| damaged(error.to_string()))?;
    keeper_rt::point("boot-counted");
    Ok(Some((Identity { server_id: stored.server_id, cluster_id: found, boot }, stored)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use keeper_log::faulty::{FaultyDisk, Loss};

    fn stored() -> Stored {
        Stored { server_id: ServerId(3), cluster_id: ClusterId([0xab; 16]), founder: None }
    }

    #[test]
    fn an_identity_keeps_its_bytes() {
        let bytes = encode(&stored());
        assert_eq!(bytes, [&b"KPID"[..], &[1, 0], &[0xab; 16], &3u64.to_le_bytes(), &[0]].concat());
        assert_eq!(decode(bytes), Ok(stored()));

        let founder = Member { id: ServerId(3), peer_address: "a:1".into(), ..Member::default() };
        let founded = Stored { founder: Some(founder), ..stored() };
        assert_eq!(decode(encode(&founded)), Ok(founded));
    }

    async fn boot(disk: &FaultyDisk) -> u64 {
        load(&disk.disk(), None).await.expect("readable").expect("an identity").0.boot
    }

    #[tokio::test]
    async fn no_two_starts_share_a_number_whatever_a_crash_takes() {
        for seed in 0..50 {
            let disk = FaultyDisk::new(seed);
            assert_eq!(store(&disk.disk(), &stored()).await.expect("stored").boot, 1);
            let mut last = 1;
            for _ in 0..5 {
                disk.crash(Loss::Torn);
                let next = boot(&disk).await;
                assert!(last < next, "seed {seed}: {next} after {last}");
                last = next;
            }
        }
    }

    #[tokio::test]
    async fn an_unreadable_slot_falls_back_to_the_other_without_using_its_number_and_two_are_refused() {
        let disk = FaultyDisk::new(1);
        store(&disk.disk(), &stored()).await.expect("stored");
        assert_eq!([boot(&disk).await, boot(&disk).await], [2, 3]);
        disk.edit(BOOT_FILE, |bytes| bytes[9] ^= 1);
        assert_eq!(boot(&disk).await, 4, "the slot of 3 cannot be read, and 3 was used");
        disk.edit(BOOT_FILE, |bytes| {
            bytes[9] ^= 1;
            bytes[SLOT_BYTES + 9] ^= 1;
        });
        assert!(matches!(load(&disk.disk(), None).await, Err(OpenError::Damaged { .. })));
    }

    #[tokio::test]
    async fn whatever_byte_of_a_slot_changes_the_next_start_has_a_number_of_its_own() {
        for at in 0..2 * SLOT_BYTES {
            let disk = FaultyDisk::new(1);
            store(&disk.disk(), &stored()).await.expect("stored");
            assert_eq!([boot(&disk).await, boot(&disk).await], [2, 3]);
            disk.edit(BOOT_FILE, |bytes| bytes[at] ^= 0x10);
            assert!(3 < boot(&disk).await, "byte {at}");
        }
    }

    #[tokio::test]
    async fn a_start_is_counted_on_a_full_disk() {
        let disk = FaultyDisk::new(1);
        store(&disk.disk(), &stored()).await.expect("stored");
        disk.set_capacity(Some(disk.used_bytes()));
        assert_eq!(boot(&disk).await, 2);
    }
}

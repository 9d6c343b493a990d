//! Small files that are replaced as a whole, such as a member's identity. The format is in
//! `docs/formats/snapshot.md`. Must never leave anything but the old content or the new one.

use crate::format::u32_at;
use crate::limits::SMALL_FILE_BYTES_MAX;
use crate::stop::crash_point;
use crate::{DiskFile, LogError, SharedDisk};
use bytes::Bytes;
use std::io::{self, ErrorKind};

const MAGIC: &[u8; 8] = b"KEEPFILE";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 20;

/// Replaces or creates `name`; after a crash it holds either the old bytes or the new ones. Durable on return.
/// Two calls for one name must not overlap.
pub async fn replace_file(disk: &SharedDisk, name: &str, bytes: &[u8]) -> io::Result<()> {
    if bytes.len() > SMALL_FILE_BYTES_MAX {
        let message = format!("{name} would have {} bytes; {SMALL_FILE_BYTES_MAX} are allowed", bytes.len());
        return Err(io::Error::new(ErrorKind::InvalidInput, message));
    }
    let temporary = format!("{name}.tmp");
    match disk.remove(&temporary).await {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let written = write_new(disk, &temporary, bytes).await;
    if written.is_err() {
        // Gives the space back; the next call would remove it as well.
        let _ = disk.remove(&temporary).await;
        return written;
    }
    disk.rename(&temporary, name).await?;
    disk.sync_folder().await?;
    crash_point("identity-saved").await;
    Ok(())
}

async fn write_new(disk: &SharedDisk, temporary: &str, bytes: &[u8]) -> io::Result<()> {
    let mut content = Vec::with_capacity(HEADER_BYTES + bytes.len());
    content.extend_from_slice(MAGIC);
    content.extend_from_slice(&VERSION.to_le_bytes());
    content.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&content), bytes);
    content.extend_from_slice(&crc.to_le_bytes());
    content.extend_from_slice(bytes);
    let mut file = disk.create(temporary).await?;
    file.write_at(0, &content).await?;
    file.sync().await
}

/// The bytes of `name`, or `None` if it does not exist; damage is an `InvalidData` error that names the file.
pub async fn read_small_file(disk: &SharedDisk, name: &str) -> io::Result<Option<Bytes>> {
    let file = match disk.open(name).await {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let path = format!("{}/{name}", disk.location());
    Ok(Some(decode(&*file, path).await?))
}

async fn decode(file: &dyn DiskFile, path: String) -> Result<Bytes, LogError> {
    let failed = |error| LogError::io("read", path.clone(), error);
    let damaged = |what: &str| LogError::Damaged { file: path.clone(), offset: 0, what: what.into() };
    let len = file.len().await.map_err(failed)?;
    let possible = HEADER_BYTES as u64..=(HEADER_BYTES + SMALL_FILE_BYTES_MAX) as u64;
    if !possible.contains(&len) {
        return Err(damaged(&format!("it has {len} bytes, which cannot be")));
    }
    let bytes = Bytes::from(file.read_at(0, len as usize).await.map_err(failed)?);
    if &bytes[..8] != MAGIC {
        return Err(damaged("it has no magic"));
    }
    let found = u32_at(&bytes, 8);
    if found > VERSION {
        return Err(LogError::Version { file: path, found, known: VERSION });
    }
    let content = bytes.slice(HEADER_BYTES..);
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..16]), &content);
    if u32_at(&bytes, 12) as usize != content.len() || u32_at(&bytes, 16) != crc {
        return Err(damaged("it has a wrong length or checksum"));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faulty::{FaultyDisk, Loss};
    use crate::tests::executor::Executor;

    #[test]
    fn a_small_file_is_old_or_new_after_a_crash() {
        for polls in 1..40 {
            let faulty = FaultyDisk::new(polls);
            faulty.set_yields(true);
            Executor::new(1).finish(replace_file(&faulty.disk(), "identity", b"old")).unwrap();
            Executor::new(1).run(polls, replace_file(&faulty.disk(), "identity", b"newer"));
            faulty.crash(Loss::Torn);
            let found =
                Executor::new(1).finish(read_small_file(&faulty.disk(), "identity")).unwrap().unwrap();
            assert!(found == b"old"[..] || found == b"newer"[..], "{found:?}");
            Executor::new(1).finish(replace_file(&faulty.disk(), "identity", b"third")).unwrap();
            faulty.crash(Loss::Unsynced);
            let found =
                Executor::new(1).finish(read_small_file(&faulty.disk(), "identity")).unwrap().unwrap();
            assert_eq!(found, b"third"[..]);
        }
    }

    #[test]
    fn a_damaged_small_file_is_refused() {
        let faulty = FaultyDisk::new(1);
        let read = || Executor::new(1).finish(read_small_file(&faulty.disk(), "identity"));
        assert_eq!(read().unwrap(), None);
        Executor::new(1).finish(replace_file(&faulty.disk(), "identity", b"content")).unwrap();
        for bit in 0..(HEADER_BYTES + 7) * 8 {
            faulty.edit("identity", |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
            let error = read().unwrap_err();
            assert!(error.to_string().contains("faulty disk/identity"), "{error}");
            faulty.edit("identity", |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        }
        assert_eq!(read().unwrap().unwrap(), b"content"[..]);
    }
}

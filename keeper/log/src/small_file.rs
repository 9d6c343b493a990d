//! Small files that are replaced as a whole, such as a member's identity.

use crate::SharedDisk;
use bytes::Bytes;
use std::io;

/// Replaces or creates `name`; after a crash it holds either the old bytes or the new ones. Durable on return.
pub async fn replace_file(disk: &SharedDisk, name: &str, bytes: &[u8]) -> io::Result<()> {
    let _ = (disk, name, bytes);
    Err(io::Error::other("not there yet"))
}

/// The bytes of `name`, or `None` if it does not exist; damage is an `InvalidData` error that names the file.
pub async fn read_small_file(disk: &SharedDisk, name: &str) -> io::Result<Option<Bytes>> {
    let _ = (disk, name);
    Err(io::Error::other("not there yet"))
}

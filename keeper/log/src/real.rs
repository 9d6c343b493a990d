//! The real disk: the only place in the server that names files of an operating system.
//!
//! Every future is ready when it returns; the system calls block within it. So callers that must not block drive
//! them on threads of their own.
#![allow(clippy::disallowed_methods, reason = "this is the Disk that everything else has to use")]

use crate::{Disk, DiskFile, DiskFuture, SharedDisk};
use rustix::fs::FlockOperation;
use std::fs::{File, OpenOptions};
use std::future::ready;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Holds the folder's lock as long as a process has it open. Its content means nothing.
const LOCK_NAME: &str = "lock";

/// One folder of a real file system.
pub struct RealDisk {
    folder: PathBuf,
    /// The folder itself, for syncing it.
    handle: File,
    /// Locked until closed, which the operating system does even for a killed process.
    _lock: File,
}

impl RealDisk {
    /// Opens `folder`, creating it if needed, and takes its lock: a second process on it is refused.
    pub fn open(folder: impl AsRef<Path>) -> io::Result<SharedDisk> {
        let folder = folder.as_ref().to_path_buf();
        std::fs::create_dir_all(&folder).map_err(|error| explain("create folder", &folder, error))?;
        let handle = File::open(&folder).map_err(|error| explain("open folder", &folder, error))?;
        let lock_path = folder.join(LOCK_NAME);
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path)
            .map_err(|error| explain("open", &lock_path, error))?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(io::Error::new(
                    ErrorKind::ResourceBusy,
                    format!("another process uses the data folder {}: stop it first", folder.display()),
                ));
            }
            Err(error) => return Err(explain("lock", &lock_path, error.into())),
        }
        Ok(Arc::new(RealDisk { folder, handle, _lock: lock }))
    }

    fn path(&self, name: &str) -> io::Result<PathBuf> {
        if name.is_empty() || name == LOCK_NAME || name.starts_with('.') || name.contains('/') {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                format!("{name:?} is no name for a data file"),
            ));
        }
        Ok(self.folder.join(name))
    }

    fn open_with(&self, name: &str, verb: &str, options: &OpenOptions) -> io::Result<Box<dyn DiskFile>> {
        let path = self.path(name)?;
        let file = options.open(&path).map_err(|error| explain(verb, &path, error))?;
        Ok(Box::new(RealFile { path, file }))
    }

    fn list_now(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for item in std::fs::read_dir(&self.folder).map_err(|error| explain("list", &self.folder, error))? {
            let item = item.map_err(|error| explain("list", &self.folder, error))?;
            let Ok(name) = item.file_name().into_string() else { continue };
            if self.path(&name).is_ok() && item.file_type()?.is_file() {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn free_now(&self) -> io::Result<Option<u64>> {
        let volume = rustix::fs::fstatvfs(&self.handle).map_err(io::Error::from)?;
        Ok(Some(volume.f_bavail.saturating_mul(volume.f_frsize)))
    }
}

impl Disk for RealDisk {
    fn list(&self) -> DiskFuture<'_, Vec<String>> {
        Box::pin(ready(self.list_now()))
    }

    fn open(&self, name: &str) -> DiskFuture<'_, Box<dyn DiskFile>> {
        Box::pin(ready(self.open_with(name, "open", OpenOptions::new().read(true).write(true))))
    }

    fn create(&self, name: &str) -> DiskFuture<'_, Box<dyn DiskFile>> {
        let options = &mut OpenOptions::new();
        Box::pin(ready(self.open_with(name, "create", options.read(true).write(true).create_new(true))))
    }

    fn rename(&self, from: &str, to: &str) -> DiskFuture<'_, ()> {
        let rename = || {
            let (from, to) = (self.path(from)?, self.path(to)?);
            std::fs::rename(&from, &to).map_err(|error| explain("rename", &from, error))
        };
        Box::pin(ready(rename()))
    }

    fn remove(&self, name: &str) -> DiskFuture<'_, ()> {
        let remove = || {
            let path = self.path(name)?;
            std::fs::remove_file(&path).map_err(|error| explain("remove", &path, error))
        };
        Box::pin(ready(remove()))
    }

    fn sync_folder(&self) -> DiskFuture<'_, ()> {
        Box::pin(ready(self.handle.sync_all().map_err(|error| explain("sync folder", &self.folder, error))))
    }

    fn free_bytes(&self) -> DiskFuture<'_, Option<u64>> {
        Box::pin(ready(self.free_now()))
    }

    fn location(&self) -> String {
        self.folder.display().to_string()
    }
}

struct RealFile {
    path: PathBuf,
    file: File,
}

impl DiskFile for RealFile {
    fn len(&self) -> DiskFuture<'_, u64> {
        Box::pin(ready(self.file.metadata().map(|meta| meta.len())))
    }

    fn read_at(&self, offset: u64, len: usize) -> DiskFuture<'_, Vec<u8>> {
        let mut bytes = vec![0; len];
        let read = self.file.read_exact_at(&mut bytes, offset);
        Box::pin(ready(read.map(|()| bytes).map_err(|error| explain("read", &self.path, error))))
    }

    fn write_at<'a>(&'a mut self, offset: u64, bytes: &'a [u8]) -> DiskFuture<'a, ()> {
        let written = self.file.write_all_at(bytes, offset);
        Box::pin(ready(written.map_err(|error| explain("write", &self.path, error))))
    }

    fn sync(&mut self) -> DiskFuture<'_, ()> {
        Box::pin(ready(self.file.sync_data().map_err(|error| explain("sync", &self.path, error))))
    }
}

/// Keeps the kind, adds what was done to what.
fn explain(verb: &str, path: &Path, error: io::Error) -> io::Error {
    let kind = if error.kind() == ErrorKind::QuotaExceeded { ErrorKind::StorageFull } else { error.kind() };
    io::Error::new(kind, format!("cannot {verb} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn files_are_what_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let disk = RealDisk::open(folder.path().join("a/b")).unwrap();
        let mut file = disk.create("one").await.unwrap();
        file.write_at(3, b"abc").await.unwrap();
        file.sync().await.unwrap();
        assert_eq!(file.len().await.unwrap(), 6);
        assert_eq!(file.read_at(2, 3).await.unwrap(), b"\0ab");
        assert_eq!(file.read_at(4, 3).await.unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert_eq!(disk.create("one").await.err().unwrap().kind(), ErrorKind::AlreadyExists);
        disk.rename("one", "two").await.unwrap();
        disk.sync_folder().await.unwrap();
        assert_eq!(disk.list().await.unwrap(), ["two"]);
        assert_eq!(disk.open("one").await.err().unwrap().kind(), ErrorKind::NotFound);
        disk.remove("two").await.unwrap();
        assert!(disk.list().await.unwrap().is_empty());
        assert!(disk.free_bytes().await.unwrap().unwrap() > 0);
        assert_eq!(disk.open("../x").await.err().unwrap().kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn a_folder_in_use_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let first = RealDisk::open(folder.path()).unwrap();
        let error = RealDisk::open(folder.path()).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::ResourceBusy);
        assert!(error.to_string().contains(&folder.path().display().to_string()), "{error}");
        drop(first);
        RealDisk::open(folder.path()).unwrap();
    }
}

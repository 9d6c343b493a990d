//! A disk that says that a file is synced before it is: a fault to try the oracle with.

use crate::executor::Simulator;
use keeper_log::{Disk, DiskFile, DiskFuture, SharedDisk};
use std::sync::Arc;
use std::time::Duration;

/// Passes everything on but the syncs of files: these only take their time.
pub struct LyingDisk {
    disk: SharedDisk,
    simulator: Simulator,
}

impl LyingDisk {
    pub fn over(disk: SharedDisk, simulator: &Simulator) -> SharedDisk {
        Arc::new(LyingDisk { disk, simulator: simulator.clone() })
    }

    fn file(&self, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(LyingFile { file, simulator: self.simulator.clone() })
    }
}

impl Disk for LyingDisk {
    fn list(&self) -> DiskFuture<'_, Vec<String>> {
        self.disk.list()
    }

    fn open(&self, name: &str) -> DiskFuture<'_, Box<dyn DiskFile>> {
        let opening = self.disk.open(name);
        // The future borrows the name only while it is made.
        Box::pin(async move { Ok(self.file(opening.await?)) })
    }

    fn create(&self, name: &str) -> DiskFuture<'_, Box<dyn DiskFile>> {
        let creating = self.disk.create(name);
        Box::pin(async move { Ok(self.file(creating.await?)) })
    }

    fn rename(&self, from: &str, to: &str) -> DiskFuture<'_, ()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> DiskFuture<'_, ()> {
        self.disk.remove(name)
    }

    fn sync_folder(&self) -> DiskFuture<'_, ()> {
        self.disk.sync_folder()
    }

    fn free_bytes(&self) -> DiskFuture<'_, Option<u64>> {
        self.disk.free_bytes()
    }

    fn location(&self) -> String {
        self.disk.location()
    }
}

struct LyingFile {
    file: Box<dyn DiskFile>,
    simulator: Simulator,
}

impl DiskFile for LyingFile {
    fn len(&self) -> DiskFuture<'_, u64> {
        self.file.len()
    }

    fn read_at(&self, offset: u64, len: usize) -> DiskFuture<'_, Vec<u8>> {
        self.file.read_at(offset, len)
    }

    fn write_at<'a>(&'a mut self, offset: u64, bytes: &'a [u8]) -> DiskFuture<'a, ()> {
        self.file.write_at(offset, bytes)
    }

    fn sync(&mut self) -> DiskFuture<'_, ()> {
        Box::pin(async move {
            self.simulator.sleep(Duration::from_micros(300)).await;
            Ok(())
        })
    }
}

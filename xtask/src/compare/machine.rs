//! The machine in words that tell it apart from others and name none: cores, memory, kind of disk.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result};

pub struct Machine {
    pub cores: usize,
    pub memory_gib: u64,
    pub disk: &'static str,
}

impl Machine {
    /// `folder` is where the servers write.
    pub fn of(folder: &Path) -> Result<Machine> {
        let meminfo = std::fs::read_to_string("/proc/meminfo").context("cannot read /proc/meminfo")?;
        Ok(Machine {
            cores: std::thread::available_parallelism()?.get(),
            memory_gib: memory_gib(&meminfo).context("/proc/meminfo has no MemTotal")?,
            disk: disk(folder)?,
        })
    }
}

/// Rounded up: the kernel keeps some for itself.
fn memory_gib(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib.div_ceil(1 << 20))
}

fn disk(folder: &Path) -> Result<&'static str> {
    let device = std::fs::metadata(folder)?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let link = format!("/sys/dev/block/{major}:{minor}");
    // A file system in memory or over the network has no block device.
    let Ok(place) = std::fs::canonicalize(&link) else { return Ok("disk of unknown kind") };
    let name = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
    // A partition has its disk's queue.
    let queue = [place.join("queue"), place.join("../queue")];
    let rotates = queue.iter().find_map(|queue| std::fs::read_to_string(queue.join("rotational")).ok());
    Ok(kind_of_disk(&name, rotates.as_deref().map(str::trim)))
}

fn kind_of_disk(name: &str, rotational: Option<&str>) -> &'static str {
    match rotational {
        _ if name.starts_with("vd") || name.starts_with("xvd") => "virtual disk",
        _ if name.starts_with("nvme") => "NVMe disk",
        Some("0") => "solid-state disk",
        Some("1") => "rotating disk",
        _ => "disk of unknown kind",
    }
}

/// Of the last minute; other work on the machine shows in it.
pub fn load_average() -> Result<String> {
    let text = std::fs::read_to_string("/proc/loadavg").context("cannot read /proc/loadavg")?;
    Ok(text.split_whitespace().next().context("/proc/loadavg is empty")?.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_what_the_machine_was_sold_with() {
        assert_eq!(memory_gib("MemTotal:       24605012 kB\nMemFree: 1 kB\n"), Some(24));
        assert_eq!(memory_gib("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn a_disk_is_told_by_its_driver_and_by_whether_it_rotates() {
        assert_eq!(kind_of_disk("vda1", Some("1")), "virtual disk");
        assert_eq!(kind_of_disk("nvme0n1", Some("0")), "NVMe disk");
        assert_eq!(kind_of_disk("sda", Some("1")), "rotating disk");
        assert_eq!(kind_of_disk("dm-0", None), "disk of unknown kind");
    }

    #[test]
    fn this_machine_can_be_described() {
        let machine = Machine::of(Path::new("/")).unwrap();
        assert!(0 < machine.cores && 0 < machine.memory_gib);
        assert!(load_average().unwrap().parse::<f64>().is_ok());
    }
}

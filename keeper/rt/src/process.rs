//! What the operating system says of this process and its machine. A simulation has neither: every answer is then
//! `None` or the same text.

use crate::sim_hook;

/// Files and sockets that a process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFiles {
    pub count: u64,
    /// Soft limit; `None` when there is none.
    pub limit: Option<u64>,
}

/// Counts this process's file descriptors. Reads `/proc` (Linux, proc(5)): takes about a microsecond a descriptor, so
/// call it through [`blocking`](crate::blocking). `None` where `/proc` is not.
pub fn open_files() -> Option<OpenFiles> {
    if sim_hook::in_simulation() {
        return None;
    }
    // The listing itself holds one more.
    let count = (std::fs::read_dir("/proc/self/fd").ok()?.count() as u64).saturating_sub(1);
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    Some(OpenFiles { count, limit: soft_limit(&limits)? })
}

/// The soft limit in the line `Max open files            1024                 4096                 files`.
fn soft_limit(limits: &str) -> Option<Option<u64>> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(None),
        number => number.parse().ok().map(Some),
    }
}

/// Memory of this process that is resident now, in bytes (proc(5), `VmRSS`). `None` where `/proc` is not.
pub fn resident_bytes() -> Option<u64> {
    if sim_hook::in_simulation() {
        return None;
    }
    kilobytes(&std::fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")
}

/// Bytes of memory that this process may use: its control group's limit where it has one (cgroup v2 `memory.max`, v1
/// `memory.limit_in_bytes`), else what the machine has.
pub fn memory_limit() -> Option<u64> {
    if sim_hook::in_simulation() {
        return None;
    }
    let read = |file: &str| std::fs::read_to_string(file).ok();
    let groups = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let group = groups.into_iter().find_map(|file| read(file)?.trim().parse::<u64>().ok());
    let machine = read("/proc/meminfo").and_then(|text| kilobytes(&text, "MemTotal:"));
    [group, machine].into_iter().flatten().min()
}

/// The bytes in a line like `MemTotal:       24576000 kB`.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Name of the machine; empty where unknown.
pub fn host_name() -> String {
    kernel("hostname")
}

/// Release of the kernel; empty where unknown.
pub fn os_release() -> String {
    kernel("osrelease")
}

fn kernel(file: &str) -> String {
    if sim_hook::in_simulation() {
        return String::new();
    }
    let text = std::fs::read_to_string(format!("/proc/sys/kernel/{file}"));
    text.map(|text| text.trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_the_first_number() {
        let text = "Limit                     Soft Limit           Hard Limit           Units\n\
                    Max core file size        0                    unlimited            bytes\n\
                    Max open files            1024                 524288               files\n";
        assert_eq!(soft_limit(text), Some(Some(1024)));
        assert_eq!(soft_limit(&text.replace("1024  ", "unlimited")), Some(None));
        assert_eq!(soft_limit("nothing"), None);
    }

    #[test]
    fn sizes_are_in_kilobytes() {
        assert_eq!(kilobytes("MemFree: 1 kB\nMemTotal:       2048 kB\n", "MemTotal:"), Some(2_097_152));
        assert_eq!(kilobytes("MemFree: 1 kB\n", "MemTotal:"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_some_memory_and_less_than_it_may() {
        let (resident, limit) = (resident_bytes().expect("status"), memory_limit().expect("meminfo"));
        assert!(1 << 20 < resident && resident < limit, "{resident} of {limit}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_open_file_is_counted() {
        let before = open_files().expect("/proc is there");
        #[allow(clippy::disallowed_methods)]
        let held: Vec<_> = (0..50).map(|_| std::fs::File::open("/dev/null").expect("opens")).collect();
        let during = open_files().expect("/proc is there");
        // Other tests of this process open and close files meanwhile, far fewer than these.
        assert!(before.count + 25 < during.count, "{before:?}, {during:?} with {} more", held.len());
    }
}

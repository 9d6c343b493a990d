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

//! File descriptors: twenty thousand sessions need as many in this process and in a member's, which inherits our limit.

use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What a process needs beside its clients' sockets: logs, peers, libraries; and room to start the next client.
const OTHERS: u64 = 100;

/// Raises this process's limit, and so its children's, until `sockets` fit; as far as the system allows. Returns how
/// many of them do fit.
pub fn make_room(sockets: usize) -> Result<usize> {
    let wanted = sockets as u64 + OTHERS;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|current| current < wanted) {
        let raised = Rlimit { current: Some(wanted), maximum: maximum.map(|maximum| maximum.max(wanted)) };
        // Without the right to more than the hard limit, what that allows is taken.
        setrlimit(Resource::Nofile, raised)
            .or_else(|_| setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }))
            .context("cannot raise the limit of open files")?;
    }
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    ensure!(limit > OTHERS, "only {limit} files may be open: raise `ulimit -n`");
    Ok(sockets.min(usize::try_from(limit - OTHERS).unwrap_or(usize::MAX)))
}

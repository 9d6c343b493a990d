//! Where things are: everything under the repository, everything made under `target/`.

use std::path::{Path, PathBuf};

/// The repository's root.
pub fn root() -> PathBuf {
    // cargo names this folder at run time; the one of the build is the fallback for a binary started by hand.
    let xtask = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let xtask =
        xtask.filter(|path| path.ends_with("xtask")).unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    xtask.parent().map(Path::to_path_buf).unwrap_or(xtask)
}

/// Cargo's target folder.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// A fresh, empty folder for one run of `name`, on the disk that the servers under test shall use.
pub fn fresh(name: &str) -> anyhow::Result<PathBuf> {
    use anyhow::Context as _;
    let folder = target().join("run").join(format!("{name}-{}", std::process::id()));
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}

//! `images`: static binaries in `target/image/`, and the one image made of them by the repository's Dockerfile.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::{build, command, kube, paths, progress};

/// Both binaries are in it; the entry point is the server.
pub const IMAGE: &str = concat!("castellan.local/castellan:", env!("CARGO_PKG_VERSION"));
/// Names another image, one that a given cluster can pull.
pub const IMAGE_VARIABLE: &str = "CASTELLAN_IMAGE";

/// The image that charts are told to use.
pub fn name() -> String {
    std::env::var(IMAGE_VARIABLE).unwrap_or_else(|_| IMAGE.into())
}

pub fn run() -> Result<()> {
    let archive = build()?;
    println!("{}", archive.display());
    match kube::running()? {
        Some(kube) => kube.import(&archive),
        None => Ok(()),
    }
}

/// Builds the image when a binary or the Dockerfile is newer than it; returns its archive.
pub fn build() -> Result<PathBuf> {
    let binaries = build::release()?;
    let folder = paths::target().join("image");
    let context = folder.join("context");
    std::fs::create_dir_all(&context).with_context(|| format!("cannot create {}", context.display()))?;
    let dockerfile = paths::root().join("Dockerfile");
    let archive = folder.join("castellan.tar");
    let mut fresh = is_newer(&archive, &dockerfile);
    for package in build::PACKAGES {
        let (from, to) = (binaries.join(package), context.join(package));
        if !is_newer(&to, &from) {
            std::fs::copy(&from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
        }
        fresh &= is_newer(&archive, &to);
    }
    if fresh {
        progress::step("the image is up to date");
        return Ok(archive);
    }
    progress::step(format_args!("building the image {IMAGE}"));
    let launcher = kube::launcher()?.display().to_string();
    let [dockerfile, context, out] = [&dockerfile, &context, &archive].map(|path| path.display().to_string());
    let arguments =
        ["image", "--dockerfile", &dockerfile, "--context", &context, "--name", IMAGE, "--out", &out];
    command::run_quiet(&mut command::command(&launcher, &arguments)).context("cannot build the image")?;
    Ok(archive)
}

/// True when `made` exists and is not older than `source`.
fn is_newer(made: &Path, source: &Path) -> bool {
    let time = |path: &Path| std::fs::metadata(path).and_then(|data| data.modified()).ok();
    matches!((time(made), time(source)), (Some(made), Some(source)) if made >= source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_never_newer() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        assert!(is_newer(&here, &here));
        assert!(!is_newer(Path::new("/nowhere"), &here));
        assert!(!is_newer(&here, Path::new("/nowhere")));
    }
}

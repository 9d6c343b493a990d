//! The one release build: static binaries, used by the image, by `compare` and by `conformance` alike.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::{command, paths, progress};

/// What `rustc` calls this machine; naming it keeps the flags below from build scripts, and the build in a folder of its own.
fn host() -> Result<String> {
    let output =
        command::command("rustc", &["-vV"]).output().context("cannot run rustc; is Rust installed?")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc -vV names no host")?.to_string())
}

/// What goes into the image. Always built together: another choice of packages would be another choice of their
/// dependencies' features, and so a second build of everything.
pub const PACKAGES: [&str; 2] = ["keeper", "keeper-operator"];

/// Builds the static release binaries and returns the folder they are in.
pub fn release() -> Result<PathBuf> {
    progress::step(format_args!("building {} (release, static)", PACKAGES.join(", ")));
    let host = host()?;
    let mut arguments = vec!["build", "--release", "--quiet", "--target", &host];
    for package in PACKAGES {
        arguments.extend(["--package", package]);
    }
    let mut cargo = command::cargo(&arguments);
    cargo.env("RUSTFLAGS", "-C target-feature=+crt-static");
    command::run_quiet(&mut cargo)?;
    Ok(paths::target().join(host).join("release"))
}

/// The server, as it goes into the image.
pub fn keeper() -> Result<PathBuf> {
    Ok(release()?.join("keeper"))
}

//! Runs other programs, with errors that say what to do.

use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};

use crate::paths;

/// A command in the repository's root, without standard input.
pub fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(paths::root()).stdin(Stdio::null());
    command
}

/// The cargo that runs us. Its variables for us would make the inner cargo rebuild things.
pub fn cargo(arguments: &[&str]) -> Command {
    let program = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut command = command(&program, arguments);
    for (name, _) in std::env::vars() {
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_BIN_") || name == "CARGO_MANIFEST_DIR" {
            command.env_remove(name);
        }
    }
    command
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Standard output goes to our standard error, so that a command's result stays alone on standard output.
pub fn run_quiet(command: &mut Command) -> Result<()> {
    let text = shown(command);
    command.stdout(std::io::stderr());
    let status = command.status().with_context(|| format!("cannot start `{text}`"))?;
    check(status, &text)
}

fn check(status: ExitStatus, text: &str) -> Result<()> {
    match status.success() {
        true => Ok(()),
        false => bail!("`{text}` failed ({status})"),
    }
}

/// True when `program` can be started from PATH.
pub fn exists(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| folder.join(program).is_file())
}

/// Sees to it that `program` is there, from Debian's package when it is missing and we may install it.
pub fn need(program: &str, package: &str) -> Result<()> {
    if exists(program) {
        return Ok(());
    }
    let install = format!("`{program}` is missing: install it, on Debian with `apt-get install {package}`");
    if !exists("apt-get") {
        bail!(install);
    }
    crate::progress::step(format_args!("installing the Debian package {package}"));
    apt_install(package).context(install)
}

/// Installs one of Debian's packages.
pub fn apt_install(package: &str) -> Result<()> {
    let apt = |arguments: &[&str]| {
        run_quiet(command("apt-get", arguments).env("DEBIAN_FRONTEND", "noninteractive"))
    };
    apt(&["update", "-qq"])?;
    apt(&["install", "-y", "-qq", "--no-install-recommends", package])
}

//! `generate`: files that are made from code, committed, and compared in CI.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::{compatibility, paths, progress};

#[derive(Args)]
pub struct Arguments {
    /// Change nothing; fail when a file is not what would be generated
    #[arg(long)]
    pub check: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let mut stale = Vec::new();
    for (path, text) in files()? {
        let shown = path.strip_prefix(paths::root()).unwrap_or(&path).display().to_string();
        if std::fs::read_to_string(&path).is_ok_and(|had| had == text) {
            continue;
        }
        if arguments.check {
            stale.push(shown);
            continue;
        }
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&path, text).with_context(|| format!("cannot write {shown}"))?;
        progress::step(format_args!("wrote {shown}"));
    }
    if !stale.is_empty() {
        bail!("not what the code generates: {}; run `cargo xtask generate` and commit", stale.join(", "));
    }
    Ok(())
}

/// Every generated file with its text.
fn files() -> Result<Vec<(PathBuf, String)>> {
    let files = castellan_api::generated_files().into_iter().map(|(path, text)| (PathBuf::from(path), text));
    let ours = [(PathBuf::from(compatibility::FILE), compatibility::page())];
    Ok(files.chain(ours).map(|(path, text)| (paths::root().join(path), text)).collect())
}

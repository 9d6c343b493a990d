//! The jars of the real ZooKeeper, brought by Maven once and kept until the list of them changes.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::{command, paths, progress};

/// The folder with all jars.
pub fn jars() -> Result<PathBuf> {
    command::need("java", "default-jre-headless")?;
    let pom = paths::root().join("e2e/zookeeper/pom.xml");
    let folder = paths::target().join("zookeeper");
    let jars = folder.join("jars");
    // A copy of the list is written last: it says that the jars beside it are whole.
    let done = folder.join("pom.xml");
    let wanted = std::fs::read(&pom).with_context(|| format!("cannot read {}", pom.display()))?;
    if std::fs::read(&done).is_ok_and(|had| had == wanted) {
        return Ok(jars);
    }
    command::need("mvn", "maven")?;
    progress::step("fetching ZooKeeper's jars with Maven");
    if jars.exists() {
        std::fs::remove_dir_all(&jars)?;
    }
    let pom = pom.display().to_string();
    let output = format!("-DoutputDirectory={}", jars.display());
    command::run_quiet(&mut command::command(
        "mvn",
        &["-B", "-q", "-f", &pom, "dependency:copy-dependencies", &output],
    ))
    .context("cannot fetch ZooKeeper's jars; is Maven Central reachable?")?;
    std::fs::write(&done, wanted)?;
    Ok(jars)
}

//! Rust: our own client's tests, and those inside other people's crates. The latter's sources come through cargo and are copied, since cargo's own copy is
//! read-only and has no target folder.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::super::Context;
use super::super::ensemble::Ensemble;
use super::super::report::{self, Report};
use crate::{command, paths, progress};

/// Lints that were warnings when these crates were written are no reason to refuse them today.
const FLAGS: &str = "--cap-lints=warn";
/// Nobody debugs these builds: without symbols and without the thin LTO that `zookeeper-client` asks of its dev profile
/// they take minutes instead of an hour on two cores.
const BUILD: [(&str, &str); 5] = [
    ("RUSTFLAGS", FLAGS),
    ("CARGO_PROFILE_DEV_DEBUG", "0"),
    ("CARGO_PROFILE_DEV_LTO", "off"),
    ("CARGO_PROFILE_DEV_OPT_LEVEL", "0"),
    ("CARGO_INCREMENTAL", "0"),
];
/// Servers of other tests beside one's own: more of them would starve on two cores.
const TEST_THREADS: &str = "2";
/// `zookeeper-client` throws a coin in each test unless it is told: plaintext, but for the tests that are about TLS, and
/// there with the host's name verified.
const COINS: [(&str, &str); 2] = [("ZK_TEST_TLS", "false"), ("ZK_TLS_HOSTNAME_VERIFICATION", "true")];

/// Those of our client's tests that need servers; built with the workspace.
pub async fn keeper_client(context: &Context) -> Result<Report> {
    let what = ["test", "--package", "keeper-client", "--test", "real_server"];
    let run = [&what[..], &["--", "--ignored"], &context.only.iter().map(String::as_str).collect::<Vec<_>>()];
    progress::step("building the tests of keeper-client");
    command::run_quiet(&mut command::cargo(&[&what[..], &["--quiet", "--no-run"]].concat()))?;
    let ensemble = match context.hosts.is_empty() {
        true => Some(Ensemble::start(context).await?),
        false => None,
    };
    let hosts = ensemble.as_ref().map_or_else(|| context.hosts.join(","), Ensemble::connect_string);
    let mut command = super::command(context, std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()))?;
    command.args(run.concat()).env("KEEPER_HOSTS", hosts).current_dir(paths::root());
    report::cargo(&super::output(context, "keeper-client", command).await?).some("cargo test")
}

/// `zookeeper-client`: its dev-dependency testcontainers, which the published manifest leaves out, is our stand-in.
pub async fn zookeeper_client(context: &Context) -> Result<Report> {
    let source = source(context, "zookeeper-client", "0.11.2")?;
    let stand_in = context.glue.join("testcontainers");
    let manifest = source.join("Cargo.toml");
    let text = std::fs::read_to_string(&manifest)?;
    if !text.contains("testcontainers") {
        let more = format!("\n[dev-dependencies.testcontainers]\npath = {stand_in:?}\n\n[workspace]\n");
        std::fs::write(&manifest, text + &more)?;
    }
    // Unit tests and doc tests need no server.
    let what = ["--test", "zookeeper", "--features", "tokio,tls,sasl-digest-md5"];
    cargo_test(context, &source, "zookeeper-client", &what).await
}

/// `zookeeper` and `zookeeper-async`: both start a cluster by `java -jar`, and so find our `java` first.
pub async fn zookeeper(context: &Context) -> Result<Report> {
    let mut all = Report::default();
    for (package, version, what) in [
        ("zookeeper", "0.8.0", "test"),
        // Its file `test` has no test, only what the others share.
        ("zookeeper-async", "5.0.0", "test_*"),
    ] {
        let source = source(context, package, version)?;
        let report = cargo_test(context, &source, package, &["--test", what]).await?;
        all.join(&format!("{package}: "), report);
    }
    Ok(all)
}

async fn cargo_test(context: &Context, source: &Path, name: &str, more: &[&str]) -> Result<Report> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let build = [&["test", "--quiet", "--no-run"], more].concat();
    let mut building = command::cargo(&build);
    building.current_dir(source).env("CARGO_TARGET_DIR", context.home.join("target")).envs(BUILD);
    progress::step(format_args!("building the tests of {name}"));
    command::run_quiet(&mut building)?;
    let mut command = super::command(context, cargo)?;
    command.args(["test", "--no-fail-fast"]).args(more).current_dir(source);
    command.env("CARGO_TARGET_DIR", context.home.join("target")).envs(BUILD);
    command.envs(COINS).env("RUST_TEST_THREADS", TEST_THREADS);
    let path = std::env::var("PATH").unwrap_or_default();
    // The stand-in for `java` must not find itself when it starts the real one.
    command.env("CONFORMANCE_PATH", &path);
    command.env("PATH", format!("{}:{path}", context.glue.join("bin").display()));
    if let Some(only) = context.only.first() {
        command.args(["--", only]);
    }
    report::cargo(&super::output(context, name, command).await?).some("cargo test")
}

/// A writable copy of a crate's source, with its tests.
fn source(context: &Context, package: &str, version: &str) -> Result<PathBuf> {
    let home = context.home.join(package);
    let copy = home.join("source");
    super::once(&home, &format!("{package} {version}"), || {
        progress::step(format_args!("fetching the crate {package} {version}"));
        let probe = home.join("probe");
        std::fs::create_dir_all(probe.join("src"))?;
        std::fs::write(probe.join("src/lib.rs"), "")?;
        let manifest = format!(
            "[package]\nname = \"probe\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n[workspace]\n\n[dependencies]\n\
             {package} = \"={version}\"\n"
        );
        std::fs::write(probe.join("Cargo.toml"), manifest)?;
        let mut cargo = command::cargo(&["metadata", "--format-version=1", "--quiet"]);
        let output = cargo.current_dir(&probe).output().context("cannot run cargo")?;
        let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)
            .context("cargo cannot fetch it; is crates.io reachable?")?;
        let packages = metadata["packages"].as_array().context("cargo metadata names no packages")?;
        let found =
            packages.iter().find(|found| found["name"] == package).context("the crate is not there")?;
        let manifest = Path::new(found["manifest_path"].as_str().context("the crate has no path")?);
        let from = manifest.parent().context("the manifest has no folder")?.display().to_string();
        command::run_quiet(&mut command::command("cp", &["-r", &from, &copy.display().to_string()]))?;
        command::run_quiet(&mut command::command("chmod", &["-R", "u+w", &copy.display().to_string()]))?;
        // The published manifest's workspace is not ours.
        let manifest = copy.join("Cargo.toml");
        let text = std::fs::read_to_string(&manifest)?;
        if package != "zookeeper-client" && !text.contains("[workspace]") {
            std::fs::write(&manifest, text + "\n[workspace]\n")?;
        }
        Ok(())
    })?;
    Ok(copy)
}

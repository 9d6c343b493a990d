//! `fuzz`: runs the targets in `fuzz/` with libFuzzer. The coverage it needs comes from flags of the stable compiler,
//! so neither a nightly toolchain nor cargo-fuzz is needed; a C++ compiler is.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::{command, paths, progress};

#[derive(Args)]
pub struct Arguments {
    /// Executions of each target
    #[arg(long, default_value_t = 1_000_000)]
    runs: u64,
    /// Targets: handshake request first frames dialect sasl sasl_users zoo_cfg; all when none is named
    targets: Vec<String>,
}

const TARGETS: [&str; 8] =
    ["handshake", "request", "first", "frames", "dialect", "sasl", "sasl_users", "zoo_cfg"];

/// Longest input. Every bound but that of a SASL token, which is a comparison, is met below.
const INPUT_BYTES_MAX: &str = "-max_len=1000";
/// One input may take so long.
const INPUT_SECONDS_MAX: &str = "-timeout=5";

/// What `-Zsanitizer=…` would bring, without a sanitizer: safe code cannot do what those find.
const RUSTFLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";

pub fn run(arguments: &Arguments) -> Result<()> {
    for target in chosen(&arguments.targets)? {
        if !is_there(target) {
            println!("{target}: skipped, its parser is not there");
            continue;
        }
        let binary = build(target)?;
        let executed = execute(target, &binary, arguments.runs)?;
        println!("{target}: {executed} executions, no crash");
    }
    Ok(())
}

fn chosen(names: &[String]) -> Result<Vec<&'static str>> {
    if let Some(unknown) = names.iter().find(|name| !TARGETS.contains(&name.as_str())) {
        bail!("`{unknown}` is no target; there are {}", TARGETS.join(", "));
    }
    Ok(TARGETS
        .into_iter()
        .filter(|target| names.is_empty() || names.iter().any(|name| name == target))
        .collect())
}

fn is_there(target: &str) -> bool {
    target != "zoo_cfg" || paths::root().join("keeper/src/zoo_cfg/properties.rs").is_file()
}

fn folder() -> PathBuf {
    paths::target().join("fuzz")
}

fn build(target: &str) -> Result<PathBuf> {
    command::need("c++", "g++")?;
    progress::step(format_args!("building the fuzz target {target}"));
    let host = host()?;
    let folder = folder();
    let folder_name = folder.display().to_string();
    // Naming the host as the target keeps the flags away from build scripts.
    let mut words = vec!["build", "--quiet", "--release", "--manifest-path", "fuzz/Cargo.toml"];
    words.extend(["--target", &host, "--target-dir", &folder_name, "--bin", target]);
    if target == "zoo_cfg" {
        words.extend(["--features", "zoo_cfg"]);
    }
    command::run_quiet(command::cargo(&words).env("RUSTFLAGS", RUSTFLAGS))?;
    Ok(folder.join(&host).join("release").join(target))
}

fn host() -> Result<String> {
    let output = command::command("rustc", &["-vV"]).output().context("cannot start rustc")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host =
        text.lines().find_map(|line| line.strip_prefix("host: ")).context("`rustc -vV` names no host")?;
    Ok(host.to_owned())
}

/// How many inputs were run. New ones that reach something new are kept in `target/fuzz/corpus`.
fn execute(target: &str, binary: &std::path::Path, runs: u64) -> Result<u64> {
    let found = folder().join("corpus").join(target);
    let crashes = folder().join("crashes");
    for folder in [&found, &crashes] {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    progress::step(format_args!("{target}: {runs} executions"));
    let log = folder().join(format!("{target}.log"));
    let file = std::fs::File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut fuzzer = command::command(&binary.display().to_string(), &[INPUT_BYTES_MAX, INPUT_SECONDS_MAX]);
    fuzzer.args([format!("-runs={runs}"), format!("-artifact_prefix={}/{target}-", crashes.display())]);
    fuzzer.arg("-print_final_stats=1").arg(found);
    fuzzer.arg(paths::root().join("fuzz/corpus").join(target));
    fuzzer.stdout(Stdio::null()).stderr(file);
    let status = fuzzer.status().with_context(|| format!("cannot start {}", binary.display()))?;
    let text = String::from_utf8_lossy(&std::fs::read(&log)?).into_owned();
    if !status.success() {
        bail!(
            "{target}: an input fails; it is kept in {}, and {} says how",
            crashes.display(),
            log.display()
        );
    }
    executed(&text).with_context(|| format!("{} has no closing numbers", log.display()))
}

fn executed(log: &str) -> Option<u64> {
    let line = log.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_numbers_are_read() {
        let log =
            "Done 100 runs in 0 second(s)\nstat::number_of_executed_units: 100\nstat::peak_rss_mb: 30\n";
        assert_eq!(executed(log), Some(100));
        assert_eq!(executed("==1== ERROR: libFuzzer: deadly signal\n"), None);
    }

    #[test]
    fn a_wrong_target_is_refused_with_the_right_ones() {
        assert!(chosen(&["words".into()]).unwrap_err().to_string().contains("frames"));
        assert_eq!(chosen(&["sasl".into()]).unwrap(), ["sasl"]);
        assert_eq!(chosen(&[]).unwrap().len(), TARGETS.len());
    }
}

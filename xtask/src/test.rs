//! `test`: everything that CI runs, in stages; a stage that fails does not keep the later ones from running.
//!
//! The last line counts tests, in the form that test runners close with.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::{
    build, command, compare, conformance, e2e, faults, generate, kills, kube, paths, progress, robustness,
    sim, up,
};

#[derive(Args)]
pub struct Arguments {
    /// Only these stages
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// All but these stages
    #[arg(long, value_delimiter = ',')]
    skip: Vec<String>,
    /// Name the stages and end
    #[arg(long)]
    list: bool,
}

/// What one stage counted. A stage that is one check counts one.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    pub passed: u64,
    pub failed: u64,
}

const ONE: Counts = Counts { passed: 1, failed: 0 };

/// In the order in which they run: what is quick and fails often comes first, and what builds for release last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Format,
    Generated,
    Lints,
    Tests,
    Simulation,
    Kills,
    Faults,
    Robustness,
    Conformance,
    Compare,
    Launcher,
    Kubernetes,
}

impl Stage {
    const ALL: [Stage; 12] = [
        Stage::Format,
        Stage::Generated,
        Stage::Lints,
        Stage::Tests,
        Stage::Simulation,
        Stage::Kills,
        Stage::Faults,
        Stage::Robustness,
        Stage::Conformance,
        Stage::Compare,
        Stage::Launcher,
        Stage::Kubernetes,
    ];

    fn name(self) -> &'static str {
        match self {
            Stage::Format => "format",
            Stage::Generated => "generated",
            Stage::Lints => "lints",
            Stage::Tests => "tests",
            Stage::Simulation => "simulation",
            Stage::Kills => "kills",
            Stage::Faults => "faults",
            Stage::Robustness => "robustness",
            Stage::Conformance => "conformance",
            Stage::Compare => "compare",
            Stage::Launcher => "launcher",
            Stage::Kubernetes => "kubernetes",
        }
    }

    async fn run(self) -> Result<Counts> {
        match self {
            Stage::Format => run_cargo(&["fmt", "--all", "--check"]),
            Stage::Generated => generate::run(&generate::Arguments { check: true }).map(|()| ONE),
            Stage::Lints => {
                run_cargo(&["clippy", "--quiet", "--workspace", "--all-targets", "--", "--deny", "warnings"])
            }
            Stage::Tests => cargo_test(),
            Stage::Simulation => simulation(),
            Stage::Kills => kills_stage().await,
            Stage::Faults => faults_stage().await,
            Stage::Robustness => robustness_stage().await,
            Stage::Conformance => conformance_stage().await,
            Stage::Compare => compare_stage().await,
            Stage::Launcher => go_test(),
            Stage::Kubernetes => kubernetes().await,
        }
    }
}

struct Done {
    stage: Stage,
    seconds: f64,
    result: Result<Counts>,
}

pub async fn run(arguments: &Arguments) -> Result<()> {
    let stages = chosen(arguments)?;
    if arguments.list {
        stages.iter().for_each(|stage| println!("{}", stage.name()));
        return Ok(());
    }
    let mut all = Vec::new();
    for stage in stages {
        progress::step(format_args!("=== {} ===", stage.name()));
        let begin = Instant::now();
        let result = stage.run().await;
        if let Err(error) = &result {
            progress::step(format_args!("{} FAILED: {error:#}", stage.name()));
        }
        all.push(Done { stage, seconds: begin.elapsed().as_secs_f64(), result });
    }
    summarize(&all)
}

fn chosen(arguments: &Arguments) -> Result<Vec<Stage>> {
    let known: Vec<&str> = Stage::ALL.iter().map(|stage| stage.name()).collect();
    for name in arguments.only.iter().chain(&arguments.skip) {
        if !known.contains(&name.as_str()) {
            bail!("`{name}` is no stage; there are {}", known.join(", "));
        }
    }
    let wanted = |stage: &Stage| {
        let named = |names: &[String]| names.iter().any(|name| name == stage.name());
        (arguments.only.is_empty() || named(&arguments.only)) && !named(&arguments.skip)
    };
    Ok(Stage::ALL.into_iter().filter(wanted).collect())
}

fn summarize(all: &[Done]) -> Result<()> {
    println!();
    let (mut passed, mut failed) = (0, 0);
    for Done { stage, seconds, result } in all {
        // A stage that broke off counts as one failure more than it could count itself.
        let counts = result.as_ref().copied().unwrap_or(Counts { passed: 0, failed: 1 });
        passed += counts.passed;
        failed += counts.failed;
        let verdict = if counts.failed == 0 { "ok" } else { "FAILED" };
        println!(
            "{:12} {verdict:6} {:5} passed {:3} failed  {seconds:7.1} s",
            stage.name(),
            counts.passed,
            counts.failed
        );
    }
    println!("\n{passed} passed, {failed} failed");
    match failed {
        0 => Ok(()),
        _ => bail!("`cargo xtask test --only STAGE` runs one stage again"),
    }
}

fn run_cargo(arguments: &[&str]) -> Result<Counts> {
    command::run_quiet(&mut command::cargo(arguments)).map(|()| ONE)
}

/// Runs a test command, showing its output, and counts with `count` line by line.
pub fn counted(command: &mut Command, count: impl Fn(&str) -> Option<Counts>) -> Result<Counts> {
    let mut child =
        command.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot start {command:?}"))?;
    let mut sum = Counts::default();
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines() {
            let line = line?;
            println!("{line}");
            if let Some(Counts { passed, failed }) = count(&line) {
                sum.passed += passed;
                sum.failed += failed;
            }
        }
    }
    if !child.wait()?.success() && sum.failed == 0 {
        sum.failed = 1;
    }
    Ok(sum)
}

fn cargo_test() -> Result<Counts> {
    counted(&mut command::cargo(&["test", "--workspace", "--no-fail-fast"]), closing_line)
}

/// `test result: ok. 3 passed; 0 failed; …`
fn closing_line(line: &str) -> Option<Counts> {
    let counts = line.strip_prefix("test result: ")?;
    let number = |word: &str| {
        counts.split(word).next()?.rsplit([' ', ';']).find(|part| !part.is_empty())?.parse().ok()
    };
    Some(Counts { passed: number(" passed")?, failed: number(" failed")? })
}

/// The programs that make up our own Kubernetes have unit tests too.
fn go_test() -> Result<Counts> {
    let mut go = command::command("go", &["test", "-v", "./..."]);
    go.current_dir(paths::root().join("e2e/kubernetes/launcher"));
    counted(&mut go, |line| {
        let text = line.trim_start();
        let passed = u64::from(text.starts_with("--- PASS"));
        let failed = u64::from(text.starts_with("--- FAIL"));
        Some(Counts { passed, failed })
    })
}

const SIMULATION_SEEDS: u64 = 300;

fn simulation() -> Result<Counts> {
    sim::run(&sim::Arguments { seeds: Some(SIMULATION_SEEDS), seed: None, more: Vec::new() })?;
    Ok(Counts { passed: SIMULATION_SEEDS, failed: 0 })
}

/// The one release build, which `compare` and the image use too.
fn keeper() -> Result<Option<PathBuf>> {
    build::keeper().map(Some)
}

/// What stands before the name of each fault that the simulation plants (`keeper_rt::PLANTED_MARK`).
const PLANTED_MARK: &[u8] = b"planted-fault: ";

/// A released binary must have no planted fault in it, whatever was built beside it.
fn check_unplanted(binary: &[u8]) -> Result<()> {
    if binary.windows(PLANTED_MARK.len()).any(|window| window == PLANTED_MARK) {
        bail!("the release build has planted faults in it: was it built with debug assertions?");
    }
    Ok(())
}

const KILLS: usize = 20;

async fn kills_stage() -> Result<Counts> {
    check_unplanted(&std::fs::read(build::keeper()?)?)?;
    let arguments = kills::Arguments { binary: keeper()?, ..kills::Arguments::of(KILLS) };
    kills::run(&arguments).await.map(|()| ONE)
}

/// A round or two of each scenario.
async fn faults_stage() -> Result<Counts> {
    let passed = faults::measure(&faults::Arguments::short(build::keeper()?)).await?;
    Ok(Counts { passed, failed: 0 })
}

/// Fewer clients and shorter, judged by counts alone: a shared machine's times say nothing.
async fn robustness_stage() -> Result<Counts> {
    let passed = robustness::measure(&robustness::Arguments::short(build::keeper()?)).await?;
    Ok(Counts { passed, failed: 0 })
}

/// The suites that fit CI's time; the others are named.
async fn conformance_stage() -> Result<Counts> {
    let totals = conformance::run_suites(&conformance::Arguments::ci(keeper()?)).await?;
    Ok(Counts { passed: totals.passed, failed: totals.failed })
}

/// That both sides run and the lines are whole; a shared machine says nothing about speed.
async fn compare_stage() -> Result<Counts> {
    let passed = compare::check(build::keeper()?).await?;
    Ok(Counts { passed, failed: 0 })
}

/// What `up` does, kazoo's tests against the pods, all scenarios in their short form, and what `down` does.
async fn kubernetes() -> Result<Counts> {
    let result = on_kubernetes().await;
    if !kube::is_given() {
        // The failure of a scenario is the better news than that of cleaning up behind it.
        let down = kube::down_own();
        return result.and_then(|counts| down.map(|()| counts));
    }
    result
}

async fn on_kubernetes() -> Result<Counts> {
    let kube = up::install()?;
    let hosts = up::create_sample(&kube)?;
    let kazoo = conformance::run_suites(&conformance::Arguments::kazoo_on(hosts)).await?;
    let scenarios = e2e::run_on(&kube, &[], true)?;
    Ok(Counts { passed: 1 + kazoo.passed + scenarios.passed, failed: kazoo.failed + scenarios.failed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_tests_closing_lines_are_counted() {
        let line = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s";
        let counts = closing_line(line).unwrap();
        assert_eq!((counts.passed, counts.failed), (12, 3));
        assert!(closing_line("running 3 tests").is_none());
    }

    #[test]
    fn a_planted_fault_in_a_binary_is_refused() {
        assert!(check_unplanted(b"\x7fELF planted-fault append-not-synced").is_ok());
        assert!(check_unplanted(b"\x7fELF\0planted-fault: append-not-synced\0").is_err());
    }

    #[test]
    fn a_wrong_stage_is_refused_with_the_right_ones() {
        let arguments = |only: &[&str]| Arguments {
            only: only.iter().map(ToString::to_string).collect(),
            skip: Vec::new(),
            list: false,
        };
        let error = chosen(&arguments(&["lint"])).err().unwrap().to_string();
        assert!(error.contains("lints"), "{error}");
        assert_eq!(chosen(&arguments(&[])).unwrap().len(), Stage::ALL.len());
        assert_eq!(chosen(&arguments(&["lints"])).unwrap().len(), 1);
    }
}

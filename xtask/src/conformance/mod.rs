//! `conformance`: other people's test suites and clients, unmodified, against our server (or the real ZooKeeper).
//!
//! Each suite installs what it needs under `target/conformance/NAME`, runs under `target/run`, and is judged by its own
//! `e2e/conformance/NAME/accepted.txt`: a failure that is not written there fails the run, and so do fewer tests than
//! the minimum written there. docs/conformance.md says what each suite is.

mod accepted;
mod command;
mod ensemble;
mod report;
mod suites;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::local::Kind;
use crate::{build, paths, progress, up, zookeeper};
use accepted::Accepted;
use report::Report;
use suites::Suite;

#[derive(Args, Clone, Default)]
pub struct Arguments {
    /// Suites to run; all of them when none is named
    names: Vec<String>,
    /// Name the suites and end
    #[arg(long)]
    list: bool,
    /// Only the suites that fit CI's time; says what it leaves out
    #[arg(long, conflicts_with = "names")]
    ci: bool,
    /// The server under test; the real ZooKeeper is shown with its score and not judged
    #[arg(long, value_enum, default_value = "keeper")]
    against: Kind,
    /// Use this keeper binary instead of building one
    #[arg(long)]
    pub binary: Option<PathBuf>,
    /// Run against members that run already, such as 127.0.0.1:2181,127.0.0.1:2182: the suites that can
    #[arg(long, value_delimiter = ',', conflicts_with = "ci")]
    hosts: Vec<String>,
    /// The same with the pods of the KeeperCluster that `cargo xtask up` makes
    #[arg(long, conflicts_with_all = ["hosts", "ci", "binary", "against"])]
    kubernetes: bool,
    /// What to run of a suite, in its own terms: a test file, class or name
    #[arg(long, value_name = "TEST")]
    only: Vec<String>,
}

impl Arguments {
    /// What the stage of `cargo xtask test` runs.
    pub fn ci(binary: Option<PathBuf>) -> Arguments {
        Arguments { ci: true, binary, ..Arguments::default() }
    }

    /// kazoo's whole suite against members that run already.
    pub fn kazoo_on(hosts: Vec<String>) -> Arguments {
        Arguments { names: vec![Suite::Kazoo.name().into()], hosts, ..Arguments::default() }
    }
}

/// All suites of a run together.
#[derive(Clone, Copy, Default)]
pub struct Totals {
    pub passed: u64,
    /// Failures that are written nowhere, and suites that broke off or ran too few tests.
    pub failed: u64,
    pub skipped: u64,
}

/// What a suite runs with.
pub struct Context {
    /// Emptied at the start of each run, removed after a good one.
    pub run: PathBuf,
    /// Kept: environments, sources, builds.
    pub home: PathBuf,
    /// Ours: scripts, lists, stand-ins.
    pub glue: PathBuf,
    /// For `zkServer.sh`: what it starts.
    pub launcher: Vec<(String, String)>,
    pub hosts: Vec<String>,
    pub only: Vec<String>,
    pub time_max: Duration,
}

pub async fn run(arguments: &Arguments) -> Result<()> {
    if arguments.list {
        for suite in Suite::ALL {
            let when = if suite.in_ci() { "" } else { " (not in CI)" };
            let hosts = if suite.takes_hosts() { " (--hosts)" } else { "" };
            println!("{:18} {}{when}{hosts}", suite.name(), suite.about());
        }
        return Ok(());
    }
    let mut arguments = arguments.clone();
    if arguments.kubernetes {
        arguments.hosts = up::create_sample(&up::install()?)?;
    }
    let totals = run_suites(&arguments).await?;
    println!("\n{} passed, {} failed, {} skipped", totals.passed, totals.failed, totals.skipped);
    match (totals.failed, arguments.against) {
        (0, _) | (_, Kind::Zookeeper) => Ok(()),
        _ => bail!("`cargo xtask conformance NAME` runs one suite again; logs are in target/conformance"),
    }
}

pub async fn run_suites(arguments: &Arguments) -> Result<Totals> {
    let suites = chosen(arguments)?;
    let launcher = launcher(arguments)?;
    let mut totals = Totals::default();
    for suite in suites {
        progress::step(format_args!("=== {}: {} ===", suite.name(), suite.about()));
        let begin = Instant::now();
        let outcome = run_suite(suite, arguments, &launcher).await;
        let one = match outcome {
            Ok(report) => judge(suite, arguments, &report)?,
            Err(error) => {
                progress::step(format_args!("{} broke off: {error:#}", suite.name()));
                println!("{}: broke off: {error:#}", suite.name());
                Totals { failed: 1, ..Totals::default() }
            }
        };
        progress::step(format_args!("{} took {:.0} s", suite.name(), begin.elapsed().as_secs_f64()));
        totals.passed += one.passed;
        totals.failed += one.failed;
        totals.skipped += one.skipped;
    }
    if arguments.ci {
        let left: Vec<&str> =
            Suite::ALL.iter().filter(|suite| !suite.in_ci()).map(|suite| suite.name()).collect();
        println!("left to the full run: {}", left.join(", "));
    }
    Ok(totals)
}

fn chosen(arguments: &Arguments) -> Result<Vec<Suite>> {
    let Arguments { names, ci, hosts, .. } = arguments;
    for name in names {
        let Some(suite) = Suite::ALL.into_iter().find(|suite| suite.name() == name) else {
            let known: Vec<&str> = Suite::ALL.iter().map(|suite| suite.name()).collect();
            bail!("`{name}` is no suite; there are {}", known.join(", "));
        };
        if !hosts.is_empty() && !suite.takes_hosts() {
            bail!("`{name}` starts servers of its own; see --list for the suites that take --hosts");
        }
    }
    let wanted = |suite: &Suite| match ci {
        true => suite.in_ci(),
        false if !names.is_empty() => names.iter().any(|name| name == suite.name()),
        false => hosts.is_empty() || suite.takes_hosts(),
    };
    Ok(Suite::ALL.into_iter().filter(wanted).collect())
}

/// The variables by which `zkServer.sh` knows what to start.
fn launcher(arguments: &Arguments) -> Result<Vec<(String, String)>> {
    if !arguments.hosts.is_empty() {
        return Ok(Vec::new());
    }
    let bin = paths::root().join("e2e/conformance/bin").display().to_string();
    let what = match arguments.against {
        Kind::Keeper => {
            let binary = arguments.binary.clone().map_or_else(build::keeper, Ok)?;
            let binary =
                binary.canonicalize().with_context(|| format!("no binary at {}", binary.display()))?;
            ("KEEPER_BINARY".to_owned(), binary.display().to_string())
        }
        Kind::Zookeeper => {
            let jars = zookeeper::jars()?;
            let curator = suites::curator_jars()?;
            // The one that logs, out of Curator's.
            let simple = curator.join("slf4j-simple-2.0.13.jar");
            let classes = format!("{}:{}/*", simple.display(), jars.display());
            ("CONFORMANCE_ZOOKEEPER_CLASSPATH".to_owned(), classes)
        }
    };
    Ok(vec![("ZOOKEEPER_BIN_PATH".into(), bin), what])
}

async fn run_suite(suite: Suite, arguments: &Arguments, launcher: &[(String, String)]) -> Result<Report> {
    let context = Context {
        run: paths::fresh(&format!("conformance-{}", suite.name()))?,
        home: paths::target().join("conformance").join(suite.name()),
        glue: paths::root().join("e2e/conformance").join(suite.name()),
        launcher: launcher.to_vec(),
        hosts: arguments.hosts.clone(),
        only: arguments.only.clone(),
        time_max: suite.time_max(),
    };
    std::fs::create_dir_all(&context.home)?;
    let report = suite.run(&context).await?;
    if report.failed.is_empty() {
        std::fs::remove_dir_all(&context.run)?;
    }
    Ok(report)
}

/// Prints the suite's lines, and counts what nobody wrote down.
fn judge(suite: Suite, arguments: &Arguments, report: &Report) -> Result<Totals> {
    let accepted =
        Accepted::read(&paths::root().join("e2e/conformance").join(suite.name()).join("accepted.txt"))?;
    let mut failed = 0;
    for name in &report.failed {
        match accepted.reason(name) {
            Some(reason) => println!("  accepted: {name}: {reason}"),
            None => {
                failed += 1;
                println!("  FAILED: {name}");
            }
        }
    }
    for name in &report.skipped {
        println!("  skipped: {name}");
    }
    let whole = arguments.only.is_empty() && arguments.hosts.is_empty();
    for name in accepted.names().filter(|name| whole && report.passed.iter().any(|passed| passed == *name)) {
        println!("  passes now, can leave accepted.txt: {name}");
    }
    let (passed, skipped) = (report.passed.len() as u64, report.skipped.len() as u64);
    println!("{}: {passed} passed, {} failed, {skipped} skipped", suite.name(), report.failed.len());
    let ran = passed + report.failed.len() as u64;
    if whole && ran < accepted.minimum {
        println!("  FAILED: {ran} tests ran, at least {} are wanted", accepted.minimum);
        failed += 1;
    }
    Ok(Totals { passed, failed, skipped })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_name_is_refused_with_the_right_ones() {
        let named = |name: &str| Arguments { names: vec![name.into()], ..Arguments::default() };
        let error = chosen(&named("kazo")).unwrap_err().to_string();
        assert!(error.contains("`kazo`") && error.contains("kazoo"), "{error}");
        assert_eq!(chosen(&Arguments::default()).unwrap().len(), Suite::ALL.len());
        assert_eq!(chosen(&named("npm")).unwrap().len(), 1);
        assert!(chosen(&Arguments::ci(None)).unwrap().len() < Suite::ALL.len());
    }

    #[test]
    fn running_members_are_given_only_to_suites_that_can_use_them() {
        let on = |names: &[&str]| Arguments {
            names: names.iter().map(ToString::to_string).collect(),
            hosts: vec!["127.0.0.1:1".into()],
            ..Arguments::default()
        };
        assert!(chosen(&on(&[])).unwrap().iter().all(|suite| suite.takes_hosts()));
        assert_eq!(chosen(&on(&["kazoo"])).unwrap(), [Suite::Kazoo]);
        assert!(chosen(&on(&["go-zk"])).unwrap_err().to_string().contains("--hosts"));
    }

    #[test]
    fn every_suite_has_its_list_of_accepted_differences() {
        for suite in Suite::ALL {
            let file = paths::root().join("e2e/conformance").join(suite.name()).join("accepted.txt");
            let accepted = Accepted::read(&file).unwrap();
            assert!(accepted.minimum > 0, "{}", suite.name());
        }
    }
}

//! `keeper bench`: the flags of keeper-bench, its files and its output.

use super::Failure;
use super::output::{print, print_json};
use super::tls::TlsFlags;
use crate::runtimes::client_runtime;
use anyhow::{Context, anyhow};
use clap::{Args, ValueEnum};
use keeper_bench::replay::{ReplayError, ReplayOptions, replay};
use keeper_bench::{Arrivals, Config, Load, News, Options, Report, RunError, limits, report, workloads};
use keeper_client::{Connector, TcpConnector, TlsConnector};
use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Args)]
pub struct Bench {
    /// ClickHouse keeper-bench's YAML (docs/bench.md).
    #[arg(long, value_name = "FILE", conflicts_with = "workload")]
    config: Option<PathBuf>,
    /// A built-in workload.
    #[arg(long, value_name = "NAME")]
    workload: Option<String>,
    /// Name the built-in workloads.
    #[arg(long)]
    list: bool,
    /// Print the workload's YAML and run nothing.
    #[arg(long, requires = "workload")]
    print: bool,
    /// Send what a request log recorded: ClickHouse keeper-bench's columns as CSVWithNames.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workload", "rate", "concurrency", "sessions", "time"])]
    replay: Option<PathBuf>,
    /// Replay so many times as fast as recorded.
    #[arg(long, default_value_t = 1.0, requires = "replay", value_name = "FACTOR")]
    speed: f64,
    /// Members' client addresses with commas between, instead of the configuration's.
    #[arg(long, env = "KEEPER_HOSTS", value_delimiter = ',')]
    hosts: Vec<String>,
    /// Workers; and as many sessions at most.
    #[arg(long, short)]
    concurrency: Option<usize>,
    /// Sessions, spread over the hosts.
    #[arg(long)]
    sessions: Option<usize>,
    /// Length of the measurement, such as 30s, 500ms or 15m.
    #[arg(long, short, value_parser = duration)]
    time: Option<Duration>,
    /// Load before it that is not measured.
    #[arg(long, value_parser = duration)]
    warmup: Option<Duration>,
    /// Open loop with so many requests a second. Without it, 70 % of what a closed loop reaches first.
    #[arg(long, conflicts_with = "closed", value_name = "PER_SECOND")]
    rate: Option<f64>,
    /// Closed loop: the next request when the last one is answered. For throughput; its latencies leave out stalls.
    #[arg(long)]
    closed: bool,
    /// How an open loop's requests follow each other.
    #[arg(long, value_enum, default_value_t = ArrivalsFlag::Poisson)]
    arrivals: ArrivalsFlag,
    /// The same requests again.
    #[arg(long)]
    seed: Option<u64>,
    /// Exit with 1 when a larger share of the requests failed. With 0 the first error ends the run.
    #[arg(long, value_name = "SHARE")]
    errors_max: Option<f64>,
    /// Leave the tree of the run on the server.
    #[arg(long)]
    keep_tree: bool,
    /// JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Identity to show first: scheme:data, such as digest:user:password. May be repeated.
    #[arg(long)]
    auth: Vec<String>,
    #[command(flatten)]
    tls: TlsFlags,
}

#[derive(Clone, Copy, ValueEnum)]
enum ArrivalsFlag {
    Poisson,
    Constant,
}

fn usage(error: impl Into<anyhow::Error>) -> Failure {
    Failure { error: error.into(), code: 2 }
}

impl Bench {
    pub fn run(self) -> Result<(), Failure> {
        if self.list {
            let lines =
                workloads::ALL.map(|(name, text)| format!("{name:<16}{}\n", workloads::summary(text)));
            return Ok(print(&lines.concat())?);
        }
        let (name, config) = self.configuration()?;
        if self.print {
            let text = self.workload.as_deref().and_then(workloads::find).unwrap_or_default();
            return Ok(print(text)?);
        }
        crate::telemetry::install("error");
        let connections = &config.connections;
        let secure = connections.defaults.secure || connections.endpoints.iter().any(|host| host.secure);
        let report = match self.tls.open()? {
            Some(tls) => self.start(name, config, TlsConnector(tls))?,
            None if secure && self.hosts.is_empty() => {
                return Err(usage(anyhow!(
                    "the configuration says secure: give the authorities with --tls-ca"
                )));
            }
            None => self.start(name, config, TcpConnector)?,
        };
        report.verdict().map_err(|verdict| anyhow!(verdict).into())
    }

    fn configuration(&self) -> Result<(String, Config), Failure> {
        match (&self.config, &self.workload, &self.replay) {
            (Some(file), _, _) => {
                let text = read_config(file)?;
                let config = Config::parse(&text).with_context(|| file.display().to_string());
                let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                Ok((name, config.map_err(usage)?))
            }
            (None, Some(name), _) => {
                let text = workloads::find(name);
                let text =
                    text.ok_or_else(|| usage(anyhow!("no workload `{name}`: see keeper bench --list")))?;
                Ok((name.clone(), Config::parse(text).map_err(usage)?))
            }
            (None, None, Some(_)) => Ok(("replay".to_owned(), Config::empty())),
            (None, None, None) => Err(usage(anyhow!("--config, --workload, --replay or --list is needed"))),
        }
    }

    fn start<C: Connector + Clone>(
        &self,
        name: String,
        config: Config,
        connector: C,
    ) -> Result<Report, Failure> {
        let identities = self.identities()?;
        let output = config.output.clone();
        let runtime = client_runtime()?;
        let interrupt = async {
            // Without the signal the run goes on to its end.
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let mut watcher = watcher(name.clone());
        let report = match &self.replay {
            Some(file) => {
                let log =
                    std::fs::File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
                let options = ReplayOptions {
                    name,
                    config,
                    hosts: self.hosts.clone(),
                    identities,
                    speed: (!self.closed).then_some(self.speed),
                    errors_max: self.errors_max.unwrap_or(0.0),
                    keep_tree: self.keep_tree,
                };
                let log = std::io::BufReader::new(log);
                runtime
                    .block_on(replay(&options, log, connector, interrupt, &mut watcher))
                    .map_err(replay_failure)?
            }
            None => {
                let options = self.options(name, config, identities);
                let run = keeper_bench::run(&options, connector, interrupt, &mut watcher);
                runtime.block_on(run).map_err(run_failure)?
            }
        };
        if let Some(file) = &output.file {
            let file = if output.with_timestamp { with_timestamp(file) } else { PathBuf::from(file) };
            std::fs::write(&file, format!("{}\n", report.json()))
                .with_context(|| format!("cannot write {}", file.display()))?;
        }
        if self.json || output.stdout {
            print_json(&report.json())?
        } else {
            print(&report.table())?
        }
        Ok(report)
    }

    fn options(&self, name: String, config: Config, identities: Vec<(String, Vec<u8>)>) -> Options {
        let arrivals = match self.arrivals {
            ArrivalsFlag::Poisson => Arrivals::Poisson,
            ArrivalsFlag::Constant => Arrivals::Constant,
        };
        Options {
            name,
            config,
            hosts: self.hosts.clone(),
            identities,
            sessions: self.sessions,
            concurrency: self.concurrency,
            load: if self.closed { Load::Closed } else { Load::Open { rate: self.rate, arrivals } },
            time: self.time,
            warmup: self.warmup,
            seed: self.seed,
            errors_max: self.errors_max,
            keep_tree: self.keep_tree,
        }
    }

    fn identities(&self) -> Result<Vec<(String, Vec<u8>)>, Failure> {
        let parsed = self.auth.iter().map(|identity| {
            let (scheme, data) = identity
                .split_once(':')
                .ok_or_else(|| usage(anyhow!("--auth {identity}: write scheme:data")))?;
            Ok((scheme.to_owned(), data.as_bytes().to_vec()))
        });
        parsed.collect()
    }
}

fn read_config(file: &Path) -> Result<String, Failure> {
    let opened = std::fs::File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
    let mut text = String::new();
    // One byte more than is taken, so that too much is refused and not cut.
    let read = opened.take(limits::CONFIG_BYTES_MAX + 1).read_to_string(&mut text);
    read.with_context(|| format!("cannot read {}", file.display()))?;
    Ok(text)
}

fn run_failure(error: RunError) -> Failure {
    let code = match &error {
        RunError::Options(_) => 2,
        RunError::Connect { error, .. } | RunError::Tree { error, .. } => super::output::exit_code(error),
    };
    Failure { error: error.into(), code }
}

fn replay_failure(error: ReplayError) -> Failure {
    match error {
        ReplayError::Run(error) => run_failure(error),
        ReplayError::Log(error) => usage(error),
    }
}

/// Stages as lines; progress as one line that changes, where somebody looks at it.
fn watcher(name: String) -> impl FnMut(News<'_>) {
    let live = std::io::stderr().is_terminal();
    move |news| {
        let text = match news {
            News::Stage(stage) => format!("{stage}\n"),
            News::Progress { elapsed, done_per_second, failed } => {
                let line = report::progress_line(&name, elapsed, done_per_second, failed);
                if live { format!("\x1b[2K{line}\r") } else { format!("{line}\n") }
            }
        };
        // Nobody has to listen.
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
    }
}

/// `out.json` becomes `out-<milliseconds since 1970>.json`.
fn with_timestamp(file: &str) -> PathBuf {
    let path = Path::new(file);
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = format!("{stem}-{}", keeper_rt::wall_ms());
    let name = match path.extension() {
        Some(extension) => format!("{name}.{}", extension.to_string_lossy()),
        None => name,
    };
    path.with_file_name(name)
}

fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds = match &text[digits.len()..] {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        unit => return Err(format!("`{unit}` is none of ms, s, m and h")),
    };
    let number: f64 = digits.parse().map_err(|_| format!("`{text}` is no length of time: write 30s"))?;
    Duration::try_from_secs_f64(number * seconds).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_have_a_unit_or_are_seconds() {
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("2"), Ok(Duration::from_secs(2)));
        for text in ["", "s", "3 weeks", "-1s", "1d"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_timestamp_stands_before_the_extension() {
        let path = with_timestamp("/a/out.json");
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(path.starts_with("/a") && name.starts_with("out-") && name.ends_with(".json"), "{name}");
    }
}

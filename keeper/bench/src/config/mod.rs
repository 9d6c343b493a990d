//! The configuration of a run: ClickHouse keeper-bench's YAML, unchanged, and a few keys of our own (docs/bench.md).

mod connections;
mod generator;
mod getters;
mod setup;
mod yaml;

#[cfg(test)]
mod tests;

pub use connections::{Connections, Endpoint};
pub use generator::{GeneratorConfig, Kinds, RequestConfig, Weighted};
pub use getters::{Number, PathSource, Text};
pub use setup::SetupNode;

use crate::limits::{CONCURRENCY_MAX, PIPELINE_DEPTH_MAX};
use std::time::Duration;
use thiserror::Error;
use yaml::{Node, Section, Value};

/// A configuration that cannot be used, and the line to look at.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}{message}", self.line.map(|line| format!("line {line}: ")).unwrap_or_default())]
pub struct ConfigError {
    pub line: Option<u64>,
    pub message: String,
}

#[derive(Clone, Debug)]
pub struct Config {
    pub concurrency: usize,
    /// Requests that each worker keeps in flight in a closed loop.
    pub pipeline_depth: usize,
    /// 0: no limit.
    pub iterations: u64,
    /// Between two lines of progress; zero: none.
    pub report_delay: Duration,
    pub time_limit: Option<Duration>,
    pub warmup: Duration,
    pub continue_on_error: bool,
    pub use_remove_recursive: bool,
    pub connections: Connections,
    pub setup: Vec<SetupNode>,
    pub generator: Option<GeneratorConfig>,
    pub output: Output,
    /// What the file asks for and the run does not do.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Default)]
pub struct Output {
    pub stdout: bool,
    pub file: Option<String>,
    /// Put the time of the run into the file's name.
    pub with_timestamp: bool,
}

impl Config {
    pub fn parse(text: &str) -> Result<Config, ConfigError> {
        let root = yaml::parse(text)?;
        let top = Section::of(&root, "")?;
        let mut notes = Vec::new();
        let concurrency = top.parsed("concurrency", "a whole number")?.unwrap_or(1);
        within(&top, "concurrency", concurrency, CONCURRENCY_MAX)?;
        let pipeline_depth = top.parsed("pipeline_depth", "a whole number")?.unwrap_or(1);
        within(&top, "pipeline_depth", pipeline_depth, PIPELINE_DEPTH_MAX)?;
        // Older files say `delay` and `continue_on_errors`.
        let report_delay = seconds(&top, "report_delay")?.or(seconds(&top, "delay")?);
        let continue_on_error =
            top.boolean("continue_on_error")?.or(top.boolean("continue_on_errors")?).unwrap_or(false);
        if top.boolean("enable_tracing")?.unwrap_or(false) {
            notes.push("enable_tracing is not obeyed: requests carry no trace context".to_owned());
        }
        let generator_section = top.section("generator")?;
        let mut setup = setup::parse(top.section("setup")?)?;
        let generator = match generator_section {
            None => None,
            Some(section) => {
                // Older files have the set-up there.
                setup.extend(setup::parse(section.section("setup")?)?);
                Some(generator::parse(section)?)
            }
        };
        setup::check(&setup).map_err(|message| top.error(message))?;
        let config = Config {
            concurrency,
            pipeline_depth,
            iterations: top.parsed("iterations", "a whole number")?.unwrap_or(0),
            report_delay: report_delay.unwrap_or(Duration::from_secs(1)),
            time_limit: seconds(&top, "timelimit")?.filter(|limit| !limit.is_zero()),
            warmup: seconds(&top, "warmup_seconds")?.unwrap_or_default(),
            continue_on_error,
            use_remove_recursive: top.boolean("use_remove_recursive")?.unwrap_or(true),
            connections: connections::parse(top.section("connections")?, &mut notes)?,
            setup,
            generator,
            output: output(top.section("output")?)?,
            notes,
        };
        top.finish()?;
        config.check_tags()?;
        Ok(config)
    }

    /// A run that only a request log describes.
    pub fn empty() -> Config {
        Config::parse("").expect("all keys have defaults")
    }

    /// Every tag that a request names is one of the set-up's.
    fn check_tags(&self) -> Result<(), ConfigError> {
        let mut tags = Vec::new();
        self.setup.iter().for_each(|node| node.collect_tags(&mut tags));
        for (line, tag) in self.generator.iter().flat_map(GeneratorConfig::tags) {
            if !tags.contains(&tag) {
                let message = format!("no node of the setup has the tag `{tag}`");
                return Err(ConfigError { line: Some(line), message });
            }
        }
        Ok(())
    }
}

fn within(section: &Section<'_>, key: &'static str, value: usize, max: usize) -> Result<(), ConfigError> {
    match section.one(key)? {
        Some(node) if !(1..=max).contains(&value) => {
            Err(node.error(format!("{} is to be from 1 to {max}", section.name(key))))
        }
        _ => Ok(()),
    }
}

fn seconds(section: &Section<'_>, key: &'static str) -> Result<Option<Duration>, ConfigError> {
    let Some(node) = section.one(key)? else { return Ok(None) };
    let name = section.name(key);
    let number: f64 = node.parsed(&name, "a number of seconds")?;
    let duration = Duration::try_from_secs_f64(number)
        .map_err(|_| node.error(format!("{name}: `{number}` is no length of time")))?;
    Ok(Some(duration))
}

fn milliseconds(section: &Section<'_>, key: &'static str) -> Result<Option<u32>, ConfigError> {
    section.parsed(key, "a number of milliseconds")
}

fn output(section: Option<Section<'_>>) -> Result<Output, ConfigError> {
    let Some(section) = section else { return Ok(Output::default()) };
    let mut output = Output { stdout: section.boolean("stdout")?.unwrap_or(false), ..Output::default() };
    if let Some(node) = section.one("file")? {
        if let Value::Scalar(path) = &node.value {
            output.file = Some(path.clone());
        } else {
            let file = Section::of(node, section.name("file"))?;
            output.file = file.parsed("path", "a path")?;
            output.with_timestamp = file.boolean("with_timestamp")?.unwrap_or(false);
            file.finish()?;
        }
    }
    section.finish()?;
    Ok(output)
}

fn text_of(node: &Node, name: &str) -> Result<String, ConfigError> {
    Ok(node.text(name)?.to_owned())
}

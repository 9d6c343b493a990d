//! `bad-input`: every wrong request gets its answer, and while bad clients do their worst in masses, well-behaved ones
//! are served nearly as before.
//!
//! Each attack is measured against the window right before it, since a shared machine's speed changes by the minute.

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::answers::{self, Judged};
use super::attack::{self, Attack, Running};
use super::figures::Figure;
use super::probe::Probe;
use crate::cluster::Cluster;

#[derive(Clone, Debug)]
pub struct Options {
    pub attacks: Vec<Attack>,
    /// Of each window, before and during.
    pub window: Duration,
    /// Judge times too; a shared machine's say nothing.
    pub judge_times: bool,
}

/// Well-behaved clients, a third of them on each member.
const PROBES: usize = 12;
/// An attack has taken hold after this time.
const RAMP: Duration = Duration::from_millis(500);
/// Between an attack and the next window.
const CALM: Duration = Duration::from_millis(700);
/// What is more than both is too much: the p99 of others as a multiple of what it was, and [`Attack::p99_ms_max`].
const TIMES_MAX: f64 = 5.0;

/// `say` is told a line of each attack as it is done.
pub async fn run(
    cluster: &mut Cluster,
    options: &Options,
    say: &mut dyn FnMut(String),
) -> Result<Vec<Figure>> {
    cluster.wait_ready().await?;
    let leader = cluster.wait_leader().await?;
    let mut figures = Vec::new();
    attack::prepare(cluster.host(leader)).await.context("cannot prepare the nodes of the attacks")?;
    let mut probe = Probe::start(cluster.hosts(), PROBES).await?;
    say(header());
    for attack in &options.attacks {
        let figure = one(cluster, *attack, options, &mut probe, say).await;
        figures.push(figure.with_context(|| format!("during {}", attack.name()))?);
    }
    probe.finish(&cluster.hosts()).await?;
    ensure!(cluster.leader().await == Some(leader), "the leader has changed under the attacks");
    // Last, since some of them stop a real ZooKeeper.
    figures.push(judge_answers(cluster, leader, say).await?);
    Ok(figures)
}

fn header() -> String {
    let columns = ["p50 before", "p99 before", "p50 during", "p99 during", "max", "times", "memory"];
    let columns: Vec<String> = columns.iter().map(|column| format!("{column:>11}")).collect();
    format!("{:19}{}", "", columns.join(""))
}

async fn judge_answers(cluster: &Cluster, leader: usize, say: &mut dyn FnMut(String)) -> Result<Figure> {
    let mut wrong = 0;
    let mut show = |case: &Judged| {
        let verdict = match case.holds() {
            true => "ok".into(),
            false => format!("NOT {}", case.right[0]),
        };
        wrong += usize::from(!case.holds());
        say(format!("{:42} {:28} {verdict}", case.name, case.seen.to_string()));
    };
    let judged = answers::judge(cluster.host(leader), &mut show).await;
    Ok(Figure::of(format!("wrong answers to {} bad requests", judged.len()), wrong as f64, "").at_most(0.0))
}

async fn one(
    cluster: &mut Cluster,
    attack: Attack,
    options: &Options,
    probe: &mut Probe,
    say: &mut dyn FnMut(String),
) -> Result<Figure> {
    let leader = cluster.leader().await.context("there is no leader")?;
    probe.begin_window();
    tokio::time::sleep(options.window).await;
    let before = probe.end_window().await?;
    let running = Running::start(attack, cluster.host(leader))?;
    tokio::time::sleep(RAMP).await;
    probe.begin_window();
    tokio::time::sleep(options.window).await;
    let memory = cluster.resident_bytes().get(leader).copied().unwrap_or_default();
    let done = running.stop().await;
    let during = probe.end_window().await?;
    cluster.check_alive()?;
    tokio::time::sleep(CALM).await;
    let ms = |us: u64| us as f64 / 1000.0;
    let ([p50_before, p99_before, _], [p50, p99, max]) = (before.quantiles_us(), during.quantiles_us());
    let times = p99 as f64 / p99_before.max(1) as f64;
    let columns = [p50_before, p99_before, p50, p99, max].map(|us| format!("{:8.1} ms", ms(us))).join("");
    say(format!(
        "{:19}{columns}{times:11.1}{:8} MB   {} requests, {} connections, {} closed",
        attack.name(),
        memory >> 20,
        done.requests.load(Ordering::Relaxed),
        done.connections.load(Ordering::Relaxed),
        done.closed.load(Ordering::Relaxed),
    ));
    ensure!(done.connections.load(Ordering::Relaxed) > 0, "the attack did not begin");
    // Both bounds in one: what may be is the larger of them.
    let bound = attack.p99_ms_max().max(TIMES_MAX * ms(p99_before));
    let figure = Figure::of(format!("p99 of others during {}", attack.name()), ms(p99), "ms");
    Ok(if options.judge_times { figure.at_most(bound) } else { figure })
}

//! Stories of the whole server told step by step.

use super::client::Clients;
use super::connector::client_address;
use super::operations::KEYS;
use super::scenario::{Parameters, booted};
use crate::executor::{NodeId, Simulator, lock};
use crate::outcome::Outcome;
use crate::world::{Crash, World};
use keeper_client::{ANY_VERSION, Client, Options, SessionState};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SESSION_TIMEOUT_MS: i32 = 4_000;

/// What a pinned client went through.
#[derive(Clone, Debug, Default)]
struct Diary {
    connections: u32,
    losses: u32,
    written: u64,
    longest_gap: Duration,
}

/// The leader's process dies and stays dead for longer than the sessions' timeout. Clients of the other members keep
/// their sessions and even their connections, and write again soon.
pub async fn leader_crash_keeps_sessions(simulator: Simulator) -> Outcome {
    let (world, _, clients) = booted(&simulator, &Parameters::default(), 0).await;
    let diaries: Vec<(NodeId, Arc<Mutex<Diary>>)> = world
        .nodes()
        .flat_map(|server| [(server, 0), (server, 1)])
        .map(|(server, number)| {
            let diary: Arc<Mutex<Diary>> = Arc::default();
            let client = 100 + server * 10 + number;
            let pinned = pinned(clients.clone(), client, server, diary.clone());
            simulator.spawn_on(client, "pinned", pinned);
            (server, diary)
        })
        .collect();
    simulator.sleep_ms(5_000).await;
    let leader = world.wait_for_leader().await;
    world.crash(leader, Crash::Process);
    simulator.sleep_ms(3 * SESSION_TIMEOUT_MS as u64).await;
    let mut failovers = Vec::new();
    for (server, diary) in diaries.iter().filter(|(server, _)| *server != leader) {
        let diary = lock(diary).clone();
        judge(&world, *server, &diary);
        failovers.push(diary.longest_gap);
    }
    Outcome { failovers, ..Outcome::of(&world) }
}

fn judge(world: &World, server: NodeId, diary: &Diary) {
    if diary.connections != 1 || diary.losses != 0 {
        world.oracle().found(format!("a client of node {server}, which lived, went through {diary:?}"));
    }
    if diary.written < 100 || diary.longest_gap > Duration::from_millis(SESSION_TIMEOUT_MS as u64) {
        world.oracle().found(format!("a client of node {server} could not write: {diary:?}"));
    }
}

/// A client that knows one server and writes all the time.
async fn pinned(clients: Clients, node: NodeId, server: NodeId, diary: Arc<Mutex<Diary>>) {
    let options = Options {
        session_timeout_ms: SESSION_TIMEOUT_MS,
        operation_timeout: Some(Duration::from_secs(30)),
        ..Options::default()
    };
    let hosts = [client_address(server)];
    let Ok(client) = Client::connect_with(clients.connector(node), &hosts, options).await else { return };
    lock(&diary).connections += 1;
    let (mut states, losses) = (client.watch_state(), diary.clone());
    keeper_rt::spawn("diary", async move {
        while states.changed().await.is_ok() {
            if matches!(*states.borrow_and_update(), SessionState::Connecting { .. } | SessionState::Expired)
            {
                lock(&losses).losses += 1;
            }
        }
    });
    let mut last = keeper_rt::now();
    loop {
        if client.set(KEYS[0], b"", ANY_VERSION).await.is_ok() {
            let mut diary = lock(&diary);
            diary.written += 1;
            diary.longest_gap = diary.longest_gap.max(last.elapsed());
            last = keeper_rt::now();
        }
        keeper_rt::sleep(Duration::from_millis(10)).await;
    }
}

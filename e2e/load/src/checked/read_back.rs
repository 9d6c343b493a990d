//! After the load: every acknowledged write is read back through a fresh session, and every node that is there must
//! have been written.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use keeper_client::{Client, ClientError, ErrorCode, NodeData, Reply};
use keeper_history::{Kind, Operation, Outcome, Seen};

use super::record::{Clock, Record, operation, seen};
use super::{Options, Paths, READING_PROCESS, session};

/// Reads in flight at once, each as a worker of its own.
const DEPTH: usize = 64;

/// Returns what is not as acknowledged, and the reads themselves.
pub async fn check(
    options: &Options,
    paths: &Paths,
    records: &[Record],
    clock: Clock,
) -> Result<(Vec<String>, Vec<Operation>)> {
    let client = session::connect(options).await.context("cannot connect for the read-back")?;
    client.sync("/").await.context("cannot sync before the read-back")?;
    let mut violations = Vec::new();
    let mut reader = Reader { client: client.clone(), clock, reads: Vec::new() };
    for (index, record) in records.iter().enumerate() {
        let nodes = record.created.iter().chain(&record.sequential);
        reader
            .check_nodes(nodes.map(|(path, value)| (path.as_str(), value.as_str(), 0)), &mut violations)
            .await?;
        let (path, value, version) = &record.register;
        reader.check_nodes([(path.as_str(), value.as_str(), *version)].into_iter(), &mut violations).await?;
        check_names(&client, paths, index, record, &mut violations).await?;
        check_ephemeral(&client, record, &mut violations).await?;
    }
    for key in 0..options.shared_keys {
        // What must stand there only the whole history tells.
        reader.read(&paths.shared(key)).await?;
    }
    check_queue(&client, paths, records, &mut violations).await?;
    client.close().await.context("cannot close the session of the read-back")?;
    Ok((violations, reader.reads))
}

struct Reader {
    client: Client,
    clock: Clock,
    reads: Vec<Operation>,
}

impl Reader {
    async fn read(&mut self, path: &str) -> Result<()> {
        let begun = self.clock.now_ns();
        let answer = self.client.get(path).await;
        self.note(path, 0, begun, &answer)
    }

    fn note(
        &mut self,
        path: &str,
        worker: usize,
        begun: u64,
        answer: &Result<Reply<NodeData>, ClientError>,
    ) -> Result<()> {
        let outcome = match answer {
            Ok(reply) => {
                let value = String::from_utf8_lossy(reply.value.bytes()).into_owned();
                Outcome::Ok(Seen { value: Some(value), ..seen(&reply.clone().map(|node| node.stat)) })
            }
            Err(ClientError::Server(code)) => Outcome::Err { code: code.as_i32(), zxid: 0 },
            Err(error) => return Err(error.clone()).with_context(|| format!("get {path}")),
        };
        self.reads.push(Operation {
            session: self.client.session_id(),
            process: READING_PROCESS + worker as u32,
            is_final: true,
            returned_at_ns: Some(self.clock.now_ns()),
            outcome,
            ..operation(Kind::Get, path, begun)
        });
        Ok(())
    }

    /// Reads (path, value, version), many at once, and compares.
    async fn check_nodes(
        &mut self,
        nodes: impl Iterator<Item = (&str, &str, i32)>,
        violations: &mut Vec<String>,
    ) -> Result<()> {
        let nodes: Vec<(&str, &str, i32)> = nodes.collect();
        for chunk in nodes.chunks(DEPTH) {
            let begun = self.clock.now_ns();
            let mut reads = tokio::task::JoinSet::new();
            for (worker, (path, ..)) in chunk.iter().enumerate() {
                let (client, path) = (self.client.clone(), (*path).to_string());
                reads.spawn(async move { (worker, client.get(&path).await) });
            }
            while let Some(read) = reads.join_next().await {
                let (worker, answer) = read?;
                let (path, value, version) = chunk[worker];
                self.note(path, worker, begun, &answer)?;
                violations.extend(compare(path, value, version, &answer));
            }
        }
        Ok(())
    }
}

fn compare(
    path: &str,
    value: &str,
    version: i32,
    answer: &Result<Reply<NodeData>, ClientError>,
) -> Option<String> {
    let reply = match answer {
        Ok(reply) => reply,
        Err(ClientError::Server(ErrorCode::NoNode)) => {
            return Some(format!("LOST: {path} was acknowledged and is not there"));
        }
        Err(error) => return Some(format!("{path} cannot be read: {error}")),
    };
    let (found, found_version) = (String::from_utf8_lossy(reply.value.bytes()), reply.value.stat.version);
    (found != value || found_version != version).then(|| {
        format!("{path} holds `{found}` of version {found_version} where `{value}` was acknowledged as version {version}")
    })
}

/// Nodes that nobody created, or that came twice under another name.
async fn check_names(
    client: &Client,
    paths: &Paths,
    index: usize,
    record: &Record,
    violations: &mut Vec<String>,
) -> Result<()> {
    let directory = paths.directory(index);
    let names = client.children(&directory).await.with_context(|| format!("children {directory}"))?.value;
    let found = names.iter().filter(|name| name.starts_with('n')).count();
    if found != record.created.len() {
        violations.push(format!("{directory} has {found} nodes where {} were created", record.created.len()));
    }
    Ok(())
}

async fn check_ephemeral(client: &Client, record: &Record, violations: &mut Vec<String>) -> Result<()> {
    let (path, owner) = &record.ephemeral;
    let reply = client.exists(path).await.with_context(|| format!("exists {path}"))?;
    match reply.value {
        Some(stat) if stat.ephemeral_owner == *owner => {}
        Some(stat) => {
            violations.push(format!("{path} belongs to 0x{:x}, not 0x{owner:x}", stat.ephemeral_owner))
        }
        None => violations.push(format!("{path} is gone although session 0x{owner:x} lives")),
    }
    Ok(())
}

async fn check_queue(
    client: &Client,
    paths: &Paths,
    records: &[Record],
    violations: &mut Vec<String>,
) -> Result<()> {
    let queue = paths.queue();
    let names = client.children(&queue).await.with_context(|| format!("children {queue}"))?.value;
    // Name without its number, and the number.
    let mut by_create: BTreeMap<&str, usize> = BTreeMap::new();
    let mut by_number: BTreeMap<&str, usize> = BTreeMap::new();
    for name in &names {
        let Some((create, number)) = name.rsplit_once('-') else { continue };
        *by_create.entry(create).or_default() += 1;
        *by_number.entry(number).or_default() += 1;
    }
    let twice = |map: &BTreeMap<&str, usize>| -> Vec<String> {
        map.iter().filter(|(_, count)| **count > 1).map(|(key, _)| (*key).to_string()).collect()
    };
    for create in twice(&by_create) {
        violations.push(format!("the sequential create {create} was applied more than once"));
    }
    for number in twice(&by_number) {
        violations.push(format!("the sequence number {number} was given out more than once"));
    }
    let acknowledged: usize = records.iter().map(|record| record.sequential.len()).sum();
    if names.len() != acknowledged {
        violations.push(format!("{queue} has {} nodes where {acknowledged} were created", names.len()));
    }
    let there: std::collections::BTreeSet<&str> = names.iter().map(String::as_str).collect();
    for (path, _) in records.iter().flat_map(|record| &record.sequential) {
        let name = path.rsplit('/').next().unwrap_or_default();
        if !there.contains(name) {
            violations.push(format!("LOST: {path} was acknowledged and is not there"));
        }
    }
    Ok(())
}

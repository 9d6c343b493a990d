//! After the load: every acknowledged write is read back through a fresh session, and every node that is there must
//! have been written.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use keeper_client::{Client, ClientError, ErrorCode};

use super::record::Record;
use super::{Options, Paths, session};

/// Reads in flight at once.
const DEPTH: usize = 64;

/// Returns what is not as acknowledged.
pub async fn check(options: &Options, paths: &Paths, records: &[Record]) -> Result<Vec<String>> {
    let client = session::connect(options).await.context("cannot connect for the read-back")?;
    client.sync("/").await.context("cannot sync before the read-back")?;
    let mut violations = Vec::new();
    for (index, record) in records.iter().enumerate() {
        check_created(&client, record, &mut violations).await?;
        check_names(&client, paths, index, record, &mut violations).await?;
        check_register(&client, record, &mut violations).await?;
        check_ephemeral(&client, record, &mut violations).await?;
    }
    check_queue(&client, paths, records, &mut violations).await?;
    client.close().await.context("cannot close the session of the read-back")?;
    Ok(violations)
}

async fn check_created(client: &Client, record: &Record, violations: &mut Vec<String>) -> Result<()> {
    for chunk in record.created.chunks(DEPTH) {
        let mut reads = tokio::task::JoinSet::new();
        for (path, value) in chunk.iter().cloned() {
            let client = client.clone();
            reads.spawn(async move { (client.get(&path).await, path, value) });
        }
        while let Some(read) = reads.join_next().await {
            let (answer, path, value) = read?;
            match answer {
                Ok(reply) if reply.value.bytes() == value.as_bytes() && reply.value.stat.version == 0 => {}
                Ok(reply) => violations.push(format!(
                    "{path} holds `{}` of version {} where `{value}` was created and never changed",
                    String::from_utf8_lossy(reply.value.bytes()),
                    reply.value.stat.version
                )),
                Err(ClientError::Server(ErrorCode::NoNode)) => {
                    violations.push(format!("LOST: {path} was acknowledged and is not there"));
                }
                Err(error) => return Err(error).with_context(|| format!("get {path}")),
            }
        }
    }
    Ok(())
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

async fn check_register(client: &Client, record: &Record, violations: &mut Vec<String>) -> Result<()> {
    let (path, value, version) = &record.register;
    let reply = client.get(path).await.with_context(|| format!("get {path}"))?;
    let found = String::from_utf8_lossy(reply.value.bytes()).into_owned();
    let found_version = reply.value.stat.version;
    if found != *value || found_version != *version {
        violations.push(format!(
            "{path} holds `{found}` of version {found_version} where `{value}` was acknowledged as version {version}"
        ));
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
    for path in records.iter().flat_map(|record| &record.sequential) {
        let name = path.rsplit('/').next().unwrap_or_default();
        if !there.contains(name) {
            violations.push(format!("LOST: {path} was acknowledged and is not there"));
        }
    }
    Ok(())
}

//! `keeper log dump|verify` and `keeper snapshot dump|verify`: what a stopped member's data folder holds. They change
//! nothing in it.

use super::Failure;
use super::output::{Format, print, print_json};
use anyhow::{Context, Result, anyhow, bail};
use bytes::Bytes;
use clap::{Args, Subcommand};
use keeper_consensus::Membership;
use keeper_consensus::files::{LogRecord, snapshot_membership};
use keeper_log::{Found, RealDisk, SharedDisk, SnapshotInfo, SnapshotReader, SnapshotStore, Verified};
use keeper_server::describe::describe_batch;
use keeper_tree::Tree;
use keeper_types::AclId;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Nodes that one dump lists at most.
const NODES_SHOWN_MAX: usize = 10_000_000;

#[derive(Args)]
pub struct Folder {
    /// A member's data folder (`data.dir`). The member must be stopped.
    folder: PathBuf,
}

impl Folder {
    /// Takes the folder's lock, so that no member changes it meanwhile.
    fn open(&self) -> Result<SharedDisk> {
        if !self.folder.is_dir() {
            bail!("{} is no folder", self.folder.display());
        }
        Ok(RealDisk::open(&self.folder)?)
    }

    fn none(&self, what: &str) -> anyhow::Error {
        anyhow!("{} holds no {what}: is it a member's data folder?", self.folder.display())
    }
}

#[derive(Subcommand)]
pub enum LogCommand {
    /// Print every segment, batch and record, and the commands in them without their data.
    Dump(#[command(flatten)] Folder),
    /// Check all that a start of the member checks. Exit code 1: it would not start.
    Verify {
        #[command(flatten)]
        folder: Folder,
        #[arg(short, long, value_enum, default_value_t = Format::Text)]
        output: Format,
    },
}

impl LogCommand {
    pub async fn run(self) -> Result<(), Failure> {
        match self {
            LogCommand::Dump(folder) => Ok(dump_log(&folder).await?),
            LogCommand::Verify { folder, output } => Ok(verify_log(&folder, output).await?),
        }
    }
}

async fn dump_log(folder: &Folder) -> Result<()> {
    let disk = folder.open()?;
    let (mut nothing, mut failed) = (true, None);
    keeper_log::inspect(&disk, &mut |found| {
        nothing = false;
        let lines = std::iter::once(found.to_string()).chain(meaning(found));
        let text: String = lines.map(|line| line + "\n").collect();
        // The reader of a pipe may have gone; the rest of the files is read in vain then.
        if let Err(error) = print(&text) {
            failed.get_or_insert(error);
        }
    })
    .await?;
    match failed {
        Some(error) => Err(error.into()),
        None if nothing => Err(folder.none("log")),
        None => Ok(()),
    }
}

/// What a record says, in lines of their own below it.
fn meaning(found: Found) -> Vec<String> {
    let Found::Record { kind, index, head, payload, .. } = found else { return Vec::new() };
    let lines = match LogRecord::decode(&kind, index, head, payload) {
        Ok(LogRecord::Vote { term, node, committed }) => {
            let state = if committed { "elected" } else { "voted for" };
            vec![format!("term {term}, {state} member {node}")]
        }
        Ok(LogRecord::Blank { term }) => vec![format!("term {term}, a leader begins")],
        Ok(LogRecord::Configuration { term, membership }) => {
            vec![format!("term {term}, configuration: {}", members(&membership))]
        }
        Ok(LogRecord::Payload { term, payload }) => match describe_batch(&payload) {
            Ok(lines) => std::iter::once(format!("term {term}")).chain(lines).collect(),
            Err(error) => vec![format!("term {term}, {error}")],
        },
        Ok(LogRecord::Other) => Vec::new(),
        Err(error) => vec![format!("cannot be read: {error}")],
    };
    lines.into_iter().map(|line| format!("      {line}")).collect()
}

fn members(membership: &Membership) -> String {
    let list = |members: &[keeper_consensus::Member]| {
        let one = |member: &keeper_consensus::Member| format!("{} ({})", member.id, member.peer_address);
        members.iter().map(one).collect::<Vec<String>>().join(", ")
    };
    let learners = match &membership.learners[..] {
        [] => String::new(),
        learners => format!("; learners {}", list(learners)),
    };
    format!("voters {}{learners}", list(&membership.voters))
}

async fn verify_log(folder: &Folder, output: Format) -> Result<()> {
    let disk = folder.open()?;
    let Some(Verified { segments, bytes, entries, torn }) = keeper_log::verify(&disk).await? else {
        return Err(folder.none("log"));
    };
    if output == Format::Json {
        let torn = torn.map(|cut| json!({ "file": cut.file, "offset": cut.offset }));
        let entries = entries.map(|(first, last)| json!({ "first": first, "last": last }));
        let found = json!({ "segments": segments, "bytes": bytes, "entries": entries, "torn": torn });
        return Ok(print_json(&found)?);
    }
    let entries = entries.map_or("no entries".into(), |(first, last)| format!("entries {first} to {last}"));
    print(&format!("log is whole: {segments} segments, {bytes} bytes, {entries}\n"))?;
    if let Some(cut) = torn {
        let (file, offset) = (cut.file, cut.offset);
        print(&format!(
            "{file}: the last batch, at byte {offset}, is torn. It was never acknowledged; a start removes it\n"
        ))?;
    }
    Ok(())
}

#[derive(Subcommand)]
pub enum SnapshotCommand {
    /// Print what each snapshot covers; with --nodes also every node's path, size and version.
    Dump {
        #[command(flatten)]
        folder: Folder,
        /// Only this one.
        #[arg(long)]
        file: Option<String>,
        /// List the nodes of the newest, or of --file.
        #[arg(long)]
        nodes: bool,
        #[arg(short, long, value_enum, default_value_t = Format::Text)]
        output: Format,
    },
    /// Read each snapshot to its end: checksums, structure and digest. Exit code 1: one is damaged.
    Verify {
        #[command(flatten)]
        folder: Folder,
        /// Only this one.
        #[arg(long)]
        file: Option<String>,
        #[arg(short, long, value_enum, default_value_t = Format::Text)]
        output: Format,
    },
}

impl SnapshotCommand {
    pub async fn run(self) -> Result<(), Failure> {
        match self {
            SnapshotCommand::Dump { folder, file, nodes, output } => {
                Ok(dump_snapshots(&folder, file, nodes, output).await?)
            }
            SnapshotCommand::Verify { folder, file, output } => {
                Ok(verify_snapshots(&folder, file, output).await?)
            }
        }
    }
}

async fn names(folder: &Folder, disk: &SharedDisk, file: Option<String>) -> Result<Vec<String>> {
    let all = SnapshotStore::names(disk).await?;
    match file {
        Some(file) if all.contains(&file) => Ok(vec![file]),
        Some(file) => bail!("there is no snapshot {file}; there are: {}", all.join(", ")),
        None if all.is_empty() => Err(folder.none("snapshot")),
        None => Ok(all),
    }
}

async fn dump_snapshots(folder: &Folder, file: Option<String>, nodes: bool, output: Format) -> Result<()> {
    let disk = folder.open()?;
    let names = names(folder, &disk, file).await?;
    let mut found = Vec::new();
    for name in &names {
        let reader = SnapshotReader::open(&disk, name).await?;
        let membership = snapshot_membership(&reader.info().meta)?;
        if output == Format::Text {
            let SnapshotInfo { meta, bytes, chunks, .. } = reader.info();
            let (index, term, members) = (meta.index, meta.term, members(&membership));
            print(&format!(
                "{name}: up to index {index}, term {term}; {bytes} bytes in {chunks} chunks; {members}\n"
            ))?;
        }
        found.push(head_json(reader.info(), &membership));
    }
    if nodes && let Some(name) = names.last() {
        let rows = node_rows(&load(&disk, name).await?);
        match output {
            Format::Text => print(&rows.iter().map(|row| node_text(row) + "\n").collect::<String>())?,
            Format::Json => found.extend(rows),
        }
    }
    if output == Format::Json {
        print_json(&Value::Array(found))?;
    }
    Ok(())
}

fn head_json(info: &SnapshotInfo, membership: &Membership) -> Value {
    let ids = |members: &[keeper_consensus::Member]| {
        members
            .iter()
            .map(|member| json!({ "id": member.id.0, "peer": member.peer_address }))
            .collect::<Vec<_>>()
    };
    json!({
        "file": info.file, "index": info.meta.index, "term": info.meta.term, "bytes": info.bytes,
        "chunks": info.chunks, "voters": ids(&membership.voters), "learners": ids(&membership.learners),
    })
}

/// Reads a snapshot to its end; every checksum and the tree's digest are checked.
async fn load(disk: &SharedDisk, name: &str) -> Result<Tree> {
    let mut reader = SnapshotReader::open(disk, name).await?;
    let mut chunks: Vec<Bytes> = Vec::new();
    while let Some(chunk) = reader.next().await? {
        chunks.push(chunk);
    }
    Tree::decode_snapshot(chunks.iter().map(|chunk| &chunk[..])).with_context(|| name.to_owned())
}

async fn verify_snapshots(folder: &Folder, file: Option<String>, output: Format) -> Result<()> {
    let disk = folder.open()?;
    let (mut rows, mut damaged) = (Vec::new(), 0);
    for name in names(folder, &disk, file).await? {
        let (row, text) = match load(&disk, &name).await {
            Ok(tree) => {
                let (zxid, counts, digest) =
                    (tree.zxid().0, tree.counts(), format!("{:016x}", tree.digest()));
                let (znodes, sessions) = (counts.znodes, counts.sessions);
                let row = json!({
                    "file": name, "whole": true, "zxid": zxid, "znodes": znodes, "sessions": sessions, "digest": digest,
                });
                (
                    row,
                    format!(
                        "{name} is whole: zxid {zxid:#x}, {znodes} znodes, {sessions} sessions, digest {digest}"
                    ),
                )
            }
            Err(error) => {
                damaged += 1;
                (
                    json!({ "file": name, "whole": false, "error": format!("{error:#}") }),
                    format!("{name}: {error:#}"),
                )
            }
        };
        if output == Format::Text {
            print(&(text + "\n"))?;
        }
        rows.push(row);
    }
    if output == Format::Json {
        print_json(&Value::Array(rows))?;
    }
    if damaged > 0 {
        bail!("{damaged} of the snapshots cannot be read");
    }
    Ok(())
}

/// Every node, parents before children.
fn node_rows(tree: &Tree) -> Vec<Value> {
    let everything = [AclId { scheme: "super".into(), id: String::new() }];
    let (mut rows, mut stack) = (Vec::new(), vec!["/".to_owned()]);
    while let Some(path) = stack.pop()
        && rows.len() < NODES_SHOWN_MAX
    {
        let Some(stat) = tree.stat(&path) else { continue };
        rows.push(json!({
            "path": path, "bytes": stat.data_length, "version": stat.version, "czxid": stat.czxid, "mzxid": stat.mzxid,
            "ephemeralOwner": stat.ephemeral_owner, "children": stat.num_children,
        }));
        let prefix = if path == "/" { "" } else { &path };
        let mut children: Vec<String> = tree
            .children(&path, &everything)
            .map_or(Vec::new(), |(names, _)| names.map(|name| format!("{prefix}/{name}")).collect());
        children.sort_unstable_by(|a, b| b.cmp(a));
        stack.append(&mut children);
    }
    rows
}

fn node_text(row: &Value) -> String {
    let number = |name: &str| row[name].as_i64().unwrap_or_default();
    format!(
        "{}  {} bytes, version {}, czxid {:#x}, mzxid {:#x}{}",
        row["path"].as_str().unwrap_or_default(),
        number("bytes"),
        number("version"),
        number("czxid"),
        number("mzxid"),
        match number("ephemeralOwner") {
            0 => String::new(),
            owner => format!(", ephemeral of {owner:#x}"),
        }
    )
}

//! `keeper get set create ls rm stat`.

use super::Failure;
use super::output::{Target, print, print_bytes, print_json, stat_json, stat_text};
use clap::{Args, ValueEnum};
use keeper_client::{ANY_VERSION, Client, ClientError, CreateMode, ErrorCode};
use serde_json::json;
use std::io::Read;

/// Nodes that one `rm --recursive` deletes at most.
const RECURSIVE_NODES_MAX: usize = 1_000_000;

#[derive(Args)]
pub struct Get {
    path: String,
    #[command(flatten)]
    target: Target,
}

impl Get {
    pub async fn run(self) -> Result<(), Failure> {
        let client = self.target.connect().await?;
        let reply = client.get(&self.path).await?;
        if self.target.is_json() {
            let data = reply.value.data.as_deref();
            print_json(&json!({
                "path": self.path, "zxid": reply.zxid,
                "data": data.map(|data| String::from_utf8_lossy(data)), "stat": stat_json(&reply.value.stat),
            }))?;
        } else {
            let mut bytes = reply.value.bytes().to_vec();
            bytes.push(b'\n');
            print_bytes(&bytes)?;
        }
        Ok(client.close().await?)
    }
}

#[derive(Args)]
pub struct Set {
    path: String,
    /// The data; `-` reads it from standard input.
    data: String,
    /// Only if the node has this version.
    #[arg(long, default_value_t = ANY_VERSION)]
    version: i32,
    #[command(flatten)]
    target: Target,
}

impl Set {
    pub async fn run(self) -> Result<(), Failure> {
        let client = self.target.connect().await?;
        let reply = client.set(&self.path, &data(&self.data)?, self.version).await?;
        if self.target.is_json() {
            print_json(&json!({ "path": self.path, "zxid": reply.zxid, "stat": stat_json(&reply.value) }))?;
        } else {
            print(&format!("version {}\n", reply.value.version))?;
        }
        Ok(client.close().await?)
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Mode {
    Persistent,
    PersistentSequential,
}

#[derive(Args)]
pub struct Create {
    path: String,
    /// The data; `-` reads it from standard input.
    #[arg(default_value = "")]
    data: String,
    #[arg(long, value_enum, default_value = "persistent")]
    mode: Mode,
    /// Create missing parents too.
    #[arg(short, long)]
    parents: bool,
    #[command(flatten)]
    target: Target,
}

impl Create {
    pub async fn run(self) -> Result<(), Failure> {
        let client = self.target.connect().await?;
        if self.parents {
            create_parents(&client, &self.path).await?;
        }
        let mode = match self.mode {
            Mode::Persistent => CreateMode::Persistent,
            Mode::PersistentSequential => CreateMode::PersistentSequential,
        };
        let reply = client.create(&self.path, &data(&self.data)?, mode).await?;
        if self.target.is_json() {
            print_json(&json!({ "path": reply.value.path, "zxid": reply.zxid }))?;
        } else {
            print(&format!("{}\n", reply.value.path))?;
        }
        Ok(client.close().await?)
    }
}

async fn create_parents(client: &Client, path: &str) -> Result<(), ClientError> {
    for (at, _) in path.match_indices('/').skip(1) {
        match client.create(&path[..at], b"", CreateMode::Persistent).await {
            Ok(_) | Err(ClientError::Server(ErrorCode::NodeExists)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[derive(Args)]
pub struct Ls {
    #[arg(default_value = "/")]
    path: String,
    #[command(flatten)]
    target: Target,
}

impl Ls {
    pub async fn run(self) -> Result<(), Failure> {
        let client = self.target.connect().await?;
        let reply = client.children2(&self.path).await?;
        let mut names = reply.value.names;
        names.sort();
        if self.target.is_json() {
            let stat = stat_json(&reply.value.stat);
            print_json(&json!({ "path": self.path, "zxid": reply.zxid, "children": names, "stat": stat }))?;
        } else {
            print(&names.iter().map(|name| format!("{name}\n")).collect::<String>())?;
        }
        Ok(client.close().await?)
    }
}

#[derive(Args)]
pub struct Rm {
    path: String,
    /// Only if the node has this version.
    #[arg(long, default_value_t = ANY_VERSION)]
    version: i32,
    /// Delete everything below it first. Not atomic: what was deleted stays deleted when it fails half-way.
    #[arg(short, long)]
    recursive: bool,
    #[command(flatten)]
    target: Target,
}

impl Rm {
    pub async fn run(self) -> Result<(), Failure> {
        let client = self.target.connect().await?;
        let mut deleted = 0_usize;
        if self.recursive {
            for path in below(&client, &self.path).await?.into_iter().rev() {
                match client.delete(&path, ANY_VERSION).await {
                    Ok(_) => deleted += 1,
                    Err(ClientError::Server(ErrorCode::NoNode)) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        let reply = client.delete(&self.path, self.version).await?;
        deleted += 1;
        if self.target.is_json() {
            print_json(&json!({ "path": self.path, "zxid": reply.zxid, "deleted": deleted }))?;
        } else if self.recursive {
            print(&format!("{deleted} nodes deleted\n"))?;
        }
        Ok(client.close().await?)
    }
}

/// All nodes below `root`, parents before their children.
async fn below(client: &Client, root: &str) -> Result<Vec<String>, Failure> {
    let mut found: Vec<String> = Vec::new();
    let mut next = vec![root.to_owned()];
    while let Some(path) = next.pop() {
        for name in client.children(&path).await?.value {
            let child = if path == "/" { format!("/{name}") } else { format!("{path}/{name}") };
            if found.len() >= RECURSIVE_NODES_MAX {
                let text = format!("more than {RECURSIVE_NODES_MAX} nodes below {root}; delete it in parts");
                return Err(ClientError::Invalid(text).into());
            }
            found.push(child.clone());
            next.push(child);
        }
    }
    // A child's path begins with its parent's, so it sorts after it.
    found.sort();
    Ok(found)
}

#[derive(Args)]
pub struct StatCommand {
    path: String,
    #[command(flatten)]
    target: Target,
}

impl StatCommand {
    pub async fn run(self) -> Result<(), Failure> {
        let client = self.target.connect().await?;
        let reply = client.exists(&self.path).await?;
        let stat = reply.value.ok_or(ClientError::Server(ErrorCode::NoNode))?;
        if self.target.is_json() {
            print_json(&json!({ "path": self.path, "zxid": reply.zxid, "stat": stat_json(&stat) }))?;
        } else {
            print(&stat_text(&stat))?;
        }
        Ok(client.close().await?)
    }
}

fn data(argument: &str) -> std::io::Result<Vec<u8>> {
    if argument != "-" {
        return Ok(argument.as_bytes().to_vec());
    }
    let mut bytes = Vec::new();
    // One byte more than any server takes, so that too much is refused and not cut.
    let limit = keeper_server::limits::FRAME_BYTES_MAX_LIMIT as u64 + 1;
    std::io::stdin().lock().take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

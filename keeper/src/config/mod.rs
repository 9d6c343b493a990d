//! The configuration of `keeper serve`: a TOML file, environment variables over it, flags over both.
//! A wrong key or value names itself, where it stands, and what is allowed.

mod overlay;

use keeper_server::four_letter::WORDS;
use keeper_server::limits::{CONNECTIONS_MAX_DEFAULT, FRAME_BYTES_MAX_DEFAULT, FRAME_BYTES_MAX_LIMIT};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Prefix of environment variables: `KEEPER__LISTEN__CLIENT` sets `listen.client`.
pub const ENVIRONMENT_PREFIX: &str = "KEEPER__";

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub server: Server,
    #[serde(default)]
    pub listen: Listen,
    #[serde(default)]
    pub cluster: Cluster,
    #[serde(default)]
    pub session: Session,
    #[serde(default)]
    pub limits: Limits,
    #[serde(default)]
    pub four_letter_words: FourLetterWords,
    #[serde(default)]
    pub log: Log,
    #[serde(default)]
    pub auth: Auth,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Shown in status; stable over restarts.
    pub name: String,
    /// Log, snapshots and identity live here.
    pub data_dir: PathBuf,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Listen {
    pub client: SocketAddr,
    pub peer: SocketAddr,
    pub admin: SocketAddr,
    pub http: SocketAddr,
}

impl Default for Listen {
    fn default() -> Listen {
        let any = |port| SocketAddr::from(([0, 0, 0, 0], port));
        Listen { client: any(2181), peer: any(9234), admin: any(9235), http: any(8080) }
    }
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cluster {
    /// 32 hexadecimal digits. When set, another cluster's volume or peer is refused.
    pub id: Option<String>,
    /// File with the secret that members prove to each other; required.
    pub secret_file: Option<PathBuf>,
    /// File with the token of admin calls; required.
    pub admin_token_file: Option<PathBuf>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Session {
    pub timeout_ms_min: i32,
    pub timeout_ms_max: i32,
}

impl Default for Session {
    fn default() -> Session {
        Session { timeout_ms_min: 4_000, timeout_ms_max: 40_000 }
    }
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    pub frame_bytes_max: usize,
    pub connections_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { frame_bytes_max: FRAME_BYTES_MAX_DEFAULT, connections_max: CONNECTIONS_MAX_DEFAULT }
    }
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct FourLetterWords {
    pub allow: Vec<String>,
}

impl Default for FourLetterWords {
    fn default() -> FourLetterWords {
        FourLetterWords { allow: WORDS.iter().map(|word| (*word).to_owned()).collect() }
    }
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// Log bytes after which a snapshot is made.
    pub snapshot_log_bytes: u64,
    /// Size of one preallocated segment.
    pub segment_bytes: u64,
}

impl Default for Log {
    fn default() -> Log {
        Log { snapshot_log_bytes: 64 << 20, segment_bytes: 64 << 20 }
    }
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Auth {
    /// `user:base64(sha1(user:password))` of the super user.
    pub super_digest: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {file}: {cause}")]
    Read { file: String, cause: std::io::Error },
    #[error("{file}: {cause}")]
    Syntax { file: String, cause: toml::de::Error },
    #[error("{place}: {why}")]
    Value { place: String, why: String },
}

impl Config {
    /// All defaults; without the secrets that a member needs.
    pub fn of(name: String, data_dir: PathBuf) -> Result<Config, ConfigError> {
        let server = toml::Value::try_from(Server { name, data_dir });
        let table =
            server.map(|server| toml::Value::Table(toml::Table::from_iter([("server".into(), server)])));
        let wrong = |why: String| ConfigError::Value { place: "server".into(), why };
        table.map_err(|error| wrong(error.to_string()))?.try_into().map_err(|error| wrong(error.to_string()))
    }

    /// Lays environment variables and `key=value` flags over values that came from elsewhere, and checks them.
    /// `name` stands in errors where a file's name would.
    pub fn overlaid(
        &self,
        name: &str,
        environment: impl Iterator<Item = (String, String)>,
        flags: &[String],
    ) -> Result<Config, ConfigError> {
        let text = toml::to_string(self)
            .map_err(|error| ConfigError::Value { place: name.into(), why: error.to_string() })?;
        overlay::build(name, &text, environment, flags)
    }

    /// Reads the file and lays environment variables and `key=value` flags over it.
    pub fn load(
        file: &Path,
        environment: impl Iterator<Item = (String, String)>,
        flags: &[String],
    ) -> Result<Config, ConfigError> {
        let name = file.display().to_string();
        let text =
            std::fs::read_to_string(file).map_err(|cause| ConfigError::Read { file: name.clone(), cause })?;
        overlay::build(&name, &text, environment, flags)
    }

    /// Relations between values that their types do not express.
    pub fn check(&self) -> Result<(), ConfigError> {
        let wrong = |place: &str, why: String| Err(ConfigError::Value { place: place.into(), why });
        if self.server.name.is_empty() {
            return wrong("server.name", "is empty; give this member a name".into());
        }
        if let Some(id) = &self.cluster.id
            && let Err(why) = id.parse::<keeper_types::ClusterId>()
        {
            return wrong("cluster.id", why);
        }
        let session = &self.session;
        if session.timeout_ms_min <= 0 || session.timeout_ms_max < session.timeout_ms_min {
            return wrong(
                "session",
                format!(
                    "timeout_ms_min = {} and timeout_ms_max = {}; they have to be positive and in order",
                    session.timeout_ms_min, session.timeout_ms_max
                ),
            );
        }
        if !(1024..=FRAME_BYTES_MAX_LIMIT).contains(&self.limits.frame_bytes_max) {
            return wrong(
                "limits.frame_bytes_max",
                format!("{} is outside 1024..={FRAME_BYTES_MAX_LIMIT}", self.limits.frame_bytes_max),
            );
        }
        for word in &self.four_letter_words.allow {
            if !WORDS.contains(&word.as_str()) {
                return wrong("four_letter_words.allow", format!("`{word}` is none of {}", WORDS.join(" ")));
            }
        }
        if self.log.segment_bytes < 1 << 20 {
            return wrong("log.segment_bytes", format!("{} is less than 1048576", self.log.segment_bytes));
        }
        Ok(())
    }

    /// `key=value` lines as the word `conf` shows them, in ZooKeeper's names where there are such.
    pub fn lines(&self) -> Vec<(String, String)> {
        let line = |key: &str, value: String| (key.to_owned(), value);
        vec![
            line("clientPort", self.listen.client.port().to_string()),
            line("dataDir", self.server.data_dir.display().to_string()),
            line("maxClientCnxns", self.limits.connections_max.to_string()),
            line("minSessionTimeout", self.session.timeout_ms_min.to_string()),
            line("maxSessionTimeout", self.session.timeout_ms_max.to_string()),
            line("jute.maxbuffer", self.limits.frame_bytes_max.to_string()),
            line("serverName", self.server.name.clone()),
            line("peerPort", self.listen.peer.port().to_string()),
            line("adminPort", self.listen.admin.port().to_string()),
            line("httpPort", self.listen.http.port().to_string()),
            line("snapshotLogBytes", self.log.snapshot_log_bytes.to_string()),
            line("segmentBytes", self.log.segment_bytes.to_string()),
            line("4lw.commands.whitelist", self.four_letter_words.allow.join(",")),
        ]
    }
}

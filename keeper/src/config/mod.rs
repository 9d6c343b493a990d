//! The configuration of `keeper serve`: a TOML file, environment variables over it, flags over both.
//! A wrong key or value names itself, where it stands, and what is allowed.

pub mod keys;
mod overlay;

use keeper_server::auth::Secret;
use keeper_server::four_letter::{ALL_WORDS, WORDS, default_words, find};
use keeper_server::limits::{
    CONNECTIONS_MAX_DEFAULT, CONTAINER_PERIOD_DEFAULT, FRAME_BYTES_MAX_DEFAULT, FRAME_BYTES_MAX_LIMIT,
    TTL_PERIOD_DEFAULT,
};
use keeper_tls::{ClientAuth, TlsConfig};
use keeper_types::Feature;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Prefix of environment variables: `KEEPER__LISTEN__CLIENT` sets `listen.client`.
pub const ENVIRONMENT_PREFIX: &str = "KEEPER__";

/// Schemes whose identities a client has to prove.
const PROVABLE_SCHEMES: [&str; 3] = ["digest", "sasl", "x509"];

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
    #[serde(default)]
    pub quota: Quota,
    #[serde(default)]
    pub features: Features,
    #[serde(default)]
    pub reconfig: Reconfig,
    #[serde(default)]
    pub read_only: ReadOnly,
    #[serde(default)]
    pub cleanup: Cleanup,
    /// TLS of the client port, of the members among themselves, and of admin calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_tls: Option<TlsConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_tls: Option<TlsConfig>,
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
    /// Without TLS. Unset: port 2181, unless there is one with TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_tls: Option<SocketAddr>,
    /// Whether `client` takes clients inside TLS too: their first byte tells them apart.
    pub client_takes_tls: bool,
    pub peer: SocketAddr,
    pub admin: SocketAddr,
    pub http: SocketAddr,
    /// `/metrics` alone once more, where a scraper of ZooKeepers looks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<SocketAddr>,
}

impl Default for Listen {
    fn default() -> Listen {
        let any = |port| SocketAddr::from(([0, 0, 0, 0], port));
        Listen {
            client: None,
            client_tls: None,
            client_takes_tls: false,
            peer: any(9234),
            admin: any(9235),
            http: any(8080),
            metrics: None,
        }
    }
}

impl Listen {
    /// The client port without TLS, if there is one. There is always one of both.
    pub fn plain_client(&self) -> Option<SocketAddr> {
        let default = || self.client_tls.is_none().then(|| SocketAddr::from(([0, 0, 0, 0], 2181)));
        self.client.or_else(default)
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
    /// Connections from one address (ZooKeeper `maxClientCnxns`); 0: no limit of its own.
    pub connections_per_address_max: usize,
    /// Resident bytes from which on writes that grow the tree are refused. 0: four fifths of what the process may use.
    pub memory_soft_bytes: u64,
}

impl Limits {
    /// `None`: it is not known what the process may use.
    pub fn memory_soft_bytes(&self) -> Option<u64> {
        match self.memory_soft_bytes {
            0 => keeper_rt::memory_limit().map(|bytes| bytes / 5 * 4),
            bytes => Some(bytes),
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            frame_bytes_max: FRAME_BYTES_MAX_DEFAULT,
            connections_max: CONNECTIONS_MAX_DEFAULT,
            connections_per_address_max: 0,
            memory_soft_bytes: 0,
        }
    }
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct FourLetterWords {
    /// `*` alone stands for every word.
    pub allow: Vec<String>,
}

impl Default for FourLetterWords {
    fn default() -> FourLetterWords {
        FourLetterWords { allow: default_words().map(str::to_owned).collect() }
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

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Auth {
    /// `user:base64(sha1(user:password))` of the super user.
    pub super_digest: Option<String>,
    /// File or folder with those who may log in by SASL DIGEST-MD5.
    pub sasl_users_file: Option<PathBuf>,
    /// The user of SASL that is a super user.
    pub super_user: Option<String>,
    /// A client is served nothing before it has logged in by SASL.
    pub require_sasl: bool,
    /// As `require_sasl`, for any one of these schemes.
    pub require_schemes: Vec<String>,
    /// A login that fails leaves the client as it was, without that identity; where SASL is required it never does.
    pub allow_failed_sasl: bool,
    /// What handshakes of ClickHouse have to hold.
    #[serde(serialize_with = "hide")]
    pub clickhouse_password: Option<String>,
    /// No ACL is checked. For repairs only.
    pub skip_acl: bool,
    /// getACL hides hashes of digests from those who may not change the ACL.
    pub redact_acl: bool,
    /// Subject of the client certificate whose holder may do everything, as RFC 2253 text: `CN=admin,O=Example`.
    pub x509_super: Option<String>,
}

impl Default for Auth {
    fn default() -> Auth {
        Auth {
            super_digest: None,
            sasl_users_file: None,
            super_user: None,
            require_sasl: false,
            require_schemes: Vec::new(),
            allow_failed_sasl: false,
            clickhouse_password: None,
            skip_acl: false,
            redact_acl: true,
            x509_super: None,
        }
    }
}

impl Auth {
    fn check(&self) -> Result<(), ConfigError> {
        let wrong = |place: &str, why: String| Err(ConfigError::Value { place: place.into(), why });
        let by_sasl = self.require_sasl || self.require_schemes.iter().any(|scheme| scheme == "sasl");
        if by_sasl && self.sasl_users_file.is_none() {
            return wrong("auth.require_sasl", "nobody could log in: set auth.sasl_users_file too".into());
        }
        if let Some(user) = &self.super_user
            && self.sasl_users_file.is_none()
        {
            return wrong(
                "auth.super_user",
                format!("`{user}` could not log in: set auth.sasl_users_file too"),
            );
        }
        for scheme in &self.require_schemes {
            if !PROVABLE_SCHEMES.contains(&scheme.as_str()) {
                let known = PROVABLE_SCHEMES.join(" ");
                return wrong("auth.require_schemes", format!("`{scheme}` is none of {known}"));
            }
        }
        if let Some(password) = &self.clickhouse_password
            && Secret::for_clickhouse(password).is_none()
        {
            return wrong("auth.clickhouse_password", "has to have 1 to 16 bytes, no NUL at the end".into());
        }
        Ok(())
    }
}

/// `--check` shows that a secret is set, not what it is.
fn hide<S: serde::Serializer>(secret: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    secret.as_ref().map(|_| "(hidden)").serialize(serializer)
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quota {
    /// Writes beyond a hard limit under `/zookeeper/quota` are refused (ZooKeeper `enforceQuota`).
    pub enforce: bool,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Features {
    /// Features of ClickHouse's protocol that are not offered, by their names in the word `ftfl`.
    pub off: Vec<String>,
}

impl Features {
    /// What is left. An unknown name is left out: loading refuses it.
    pub fn offered(&self) -> keeper_types::Features {
        let off = self.off.iter().filter_map(|name| Feature::from_key(name));
        off.fold(keeper_types::Features::ALL, keeper_types::Features::without)
    }
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reconfig {
    /// Clients that may write `/zookeeper/config` change the membership (ZooKeeper `reconfigEnabled`).
    pub enabled: bool,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReadOnly {
    /// Without a quorum, clients that ask for it may read (ZooKeeper `readonlymode.enabled`).
    pub enabled: bool,
}

/// How often the leader looks for nodes whose time has come.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cleanup {
    pub ttl_period_ms: u64,
    /// Of empty containers (ZooKeeper `znode.container.checkIntervalMs`).
    pub container_period_ms: u64,
}

impl Default for Cleanup {
    fn default() -> Cleanup {
        Cleanup {
            ttl_period_ms: TTL_PERIOD_DEFAULT.as_millis() as u64,
            container_period_ms: CONTAINER_PERIOD_DEFAULT.as_millis() as u64,
        }
    }
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
        let mut overlaid = overlay::build(name, &text, environment, flags)?;
        // Passwords are in no text.
        let sections = [
            (&self.tls, &mut overlaid.tls),
            (&self.peer_tls, &mut overlaid.peer_tls),
            (&self.admin_tls, &mut overlaid.admin_tls),
        ];
        for (had, has) in sections {
            if let (Some(had), Some(has)) = (had, has) {
                has.certificate_password.clone_from(&had.certificate_password);
                has.ca_password.clone_from(&had.ca_password);
            }
        }
        Ok(overlaid)
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
            if word != ALL_WORDS && find(word).is_none() {
                let known: Vec<&str> = WORDS.iter().map(|word| word.name).collect();
                let known = known.join(" ");
                return wrong("four_letter_words.allow", format!("`{word}` is none of {known}, nor `*`"));
            }
        }
        if let Some(name) = self.features.off.iter().find(|name| Feature::from_key(name).is_none()) {
            let known: Vec<&str> = Feature::ALL.iter().map(|feature| feature.key()).collect();
            return wrong("features.off", format!("`{name}` is none of {}", known.join(" ")));
        }
        self.auth.check()?;
        let Cleanup { ttl_period_ms, container_period_ms } = self.cleanup;
        if ttl_period_ms == 0 || container_period_ms == 0 {
            return wrong("cleanup", "a period of 0 ms; the least is 1".into());
        }
        if self.log.segment_bytes < 1 << 20 {
            return wrong("log.segment_bytes", format!("{} is less than 1048576", self.log.segment_bytes));
        }
        self.check_tls()
    }

    /// What one TLS section means only together with others. The files themselves are read at the start.
    fn check_tls(&self) -> Result<(), ConfigError> {
        let wrong = |place: &str, why: &str| Err(ConfigError::Value { place: place.into(), why: why.into() });
        let takes_tls = self.listen.client_takes_tls;
        if takes_tls && self.listen.plain_client().is_none() {
            return wrong("listen.client_takes_tls", "is about the port of listen.client, and there is none");
        }
        match (&self.tls, self.listen.client_tls) {
            (None, Some(_)) => {
                return wrong("listen.client_tls", "needs a section [tls] with certificate_file");
            }
            (None, None) if takes_tls => {
                return wrong("listen.client_takes_tls", "needs a section [tls] with certificate_file");
            }
            (Some(_), None) if !takes_tls => {
                return wrong(
                    "tls",
                    "is set, but no port uses it: set listen.client_tls, or remove the section",
                );
            }
            (None, None) | (Some(_), None | Some(_)) => {}
        }
        if self.listen.client.is_some_and(|plain| plain.port() != 0 && Some(plain) == self.listen.client_tls)
        {
            return wrong(
                "listen.client_tls",
                "is the address of listen.client: one port speaks with TLS or without",
            );
        }
        for (place, section) in
            [("tls", &self.tls), ("peer_tls", &self.peer_tls), ("admin_tls", &self.admin_tls)]
        {
            let Some(section) = section else { continue };
            let at = |key: &str| format!("{place}.{key}");
            if section.certificate_file.is_none() {
                return wrong(
                    &at("certificate_file"),
                    "is missing: name the file with this port's certificate",
                );
            }
            if section.ca_file.is_none() && (place != "tls" || section.client_auth() != ClientAuth::None) {
                return wrong(
                    &at("ca_file"),
                    "is missing: name the file with the authorities of the other side",
                );
            }
            if place != "tls" && section.client_auth.is_some_and(|asked| asked != ClientAuth::Required) {
                return wrong(&at("client_auth"), "can only be \"required\" here; it need not be set");
            }
            let checks = section.ca_file.is_some() && section.client_auth() != ClientAuth::None;
            if !checks && section.crl_file.is_some() {
                return wrong(
                    &at("crl_file"),
                    "has a meaning where certificates of the other side are checked: set ca_file",
                );
            }
            if !checks && section.verify_client_addresses {
                return wrong(
                    &at("verify_client_addresses"),
                    "has a meaning where clients' certificates are checked: set ca_file",
                );
            }
            if place == "tls" && !section.verify_names {
                return wrong(
                    &at("verify_names"),
                    "has a meaning among members alone: clients are not dialled",
                );
            }
        }
        let asks = self.tls.as_ref().is_some_and(|tls| tls.client_auth() != ClientAuth::None);
        if self.auth.x509_super.is_some() && !asks {
            return wrong(
                "auth.x509_super",
                "needs a section [tls] that asks clients for certificates (ca_file)",
            );
        }
        Ok(())
    }

    /// `key=value` lines as the word `conf` shows them, in ZooKeeper's names where there are such.
    pub fn lines(&self) -> Vec<(String, String)> {
        let line = |key: &str, value: String| (key.to_owned(), value);
        let ports =
            [("clientPort", self.listen.plain_client()), ("secureClientPort", self.listen.client_tls)];
        let ports =
            ports.into_iter().filter_map(|(key, address)| Some(line(key, address?.port().to_string())));
        let rest = [
            line("dataDir", self.server.data_dir.display().to_string()),
            line("maxClientCnxns", self.limits.connections_per_address_max.to_string()),
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
        ];
        ports.chain(rest).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::keys::KEYS;
    use super::*;
    use keeper_tls::{CipherSuite, Protocol};
    use std::collections::BTreeSet;

    #[test]
    fn the_table_holds_every_key_and_no_other() {
        // Everything set, so that everything is written.
        let mut config: Config = toml::from_str(
            "[server]\nname = \"a\"\ndata_dir = \"/d\"\n\
             [cluster]\nid = \"x\"\nsecret_file = \"x\"\nadmin_token_file = \"x\"\n\
             [listen]\nclient = \"127.0.0.1:1\"\nclient_tls = \"127.0.0.1:2\"\nmetrics = \"127.0.0.1:3\"\n\
             [auth]\nsuper_digest = \"x\"\nsasl_users_file = \"x\"\nsuper_user = \"x\"\n\
             clickhouse_password = \"x\"\nx509_super = \"x\"\n",
        )
        .expect("valid");
        let file = || Some(PathBuf::from("x"));
        let tls = TlsConfig {
            certificate_file: file(),
            key_file: file(),
            ca_file: file(),
            crl_file: file(),
            client_auth: Some(ClientAuth::Required),
            protocols: Protocol::ALL.into(),
            cipher_suites: CipherSuite::all(),
            certificate_password_file: file(),
            ca_password_file: file(),
            ..TlsConfig::default()
        };
        (config.tls, config.peer_tls, config.admin_tls) = (Some(tls.clone()), Some(tls.clone()), Some(tls));
        let written = toml::Table::try_from(&config).expect("a table");
        let mut keys = BTreeSet::new();
        for (section, values) in &written {
            for name in values.as_table().expect("a section").keys() {
                keys.insert(format!("{section}.{name}"));
            }
        }
        let known: BTreeSet<String> = KEYS.iter().map(|key| key.name.to_owned()).collect();
        assert_eq!(known, keys);
    }
}

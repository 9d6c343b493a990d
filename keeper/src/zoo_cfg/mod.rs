//! ZooKeeper's own configuration for this server: a zoo.cfg and `-D` flags become a [`Config`] and, for members of a
//! server list, the founding of their cluster ([`founding`]). docs/zoo-cfg.md says what each key does.

pub mod founding;
mod guest;
mod keys;
mod properties;
mod reader;
mod sasl;
mod servers;
mod tls;

use crate::config::{Config, ConfigError};
use founding::Founding;
use keeper_server::sasl::Users;
use keeper_tls::TlsConfig;
use properties::Settings;
use reader::Reader;
use sasl::Sasl;
pub use servers::ServerLine;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use tls::Tls;

/// Variables with `-D` flags, the later over the earlier, as ZooKeeper's scripts put them together.
pub const FLAG_VARIABLES: [&str; 2] = ["SERVER_JVMFLAGS", "JVMFLAGS"];
/// Folder inside dataDir for all that is ours.
const OWN_FOLDER: &str = "castellan";

#[derive(Debug, thiserror::Error)]
#[error("{place}: {why}")]
pub struct ZooCfgError {
    place: String,
    why: String,
}

impl ZooCfgError {
    pub fn new(place: &str, why: String) -> ZooCfgError {
        ZooCfgError { place: place.to_owned(), why }
    }
}

/// Everything that a zoo.cfg and its flags say and this server knows of, in types.
#[derive(Clone, Debug, Default)]
#[allow(dead_code, reason = "some are read for their values to be checked, and change nothing here")]
pub struct ZooCfg {
    pub data_dir: PathBuf,
    /// From dataDir/myid; of a server without a list 1.
    pub id: u64,
    /// Sorted by id; empty for a server that stands alone.
    pub servers: Vec<ServerLine>,
    pub tick_ms: u64,
    pub session_timeout_ms_min: i32,
    pub session_timeout_ms_max: i32,
    pub client: Option<SocketAddr>,
    pub secure_client: Option<SocketAddr>,
    /// admin.serverAddress and admin.serverPort, when the latter is set.
    pub http: Option<SocketAddr>,
    /// Where ZooKeeper's provider for Prometheus listens.
    pub metrics: Option<SocketAddr>,
    /// client.portUnification.
    pub client_takes_tls: bool,
    pub quorum_listen_on_all_ips: bool,
    /// Words that are both wished for and known.
    pub words: Vec<String>,
    pub frame_bytes_max: Option<usize>,
    /// Connections of all clients together; `None`: unlimited in ZooKeeper, the default here.
    pub connections_max: Option<usize>,
    /// Connections from one address; 0: unlimited.
    pub connections_per_address_max: u32,
    pub snapshot_log_bytes: Option<u64>,
    pub super_digest: Option<String>,
    /// X509AuthenticationProvider.superUser: the subject of a certificate.
    pub x509_super: Option<String>,
    /// `ssl.*`, where a port is for it.
    pub tls: Option<Tls>,
    /// `ssl.quorum.*`, where sslQuorum is true and there are other members.
    pub members_tls: Option<Tls>,
    pub sasl: Sasl,
    pub read_only_mode: bool,
    pub extended_types: bool,
    pub emulate_353_ttl: bool,
    pub container_check_ms: Option<u64>,
    pub enforce_quota: bool,
    pub reconfig: bool,
    pub skip_acl: bool,
    pub local_sessions: bool,
    pub local_sessions_upgrading: bool,
    /// A file with the secret of the members, in place of the one that the server list gives.
    pub secret_file: Option<PathBuf>,
    /// Users of ZooKeeper's quorum authentication, in place of that: whoever knows their passwords is a member.
    pub quorum_users: Option<Users>,
    /// Lines for `warn`: unknown keys, wishes that are not granted, doubtful values.
    pub warnings: Vec<String>,
    /// Lines for `info`: keys that have no effect here, with the reason.
    pub remarks: Vec<String>,
}

impl ZooCfg {
    /// Reads the file, what it names (dynamicConfigFile, myid, the JAAS file), and the flags.
    pub fn load(file: &Path, environment: impl Fn(&str) -> Option<String>) -> Result<ZooCfg, ZooCfgError> {
        let mut settings = Settings::new();
        let mut words = Vec::new();
        for variable in FLAG_VARIABLES {
            let flags = environment(variable).unwrap_or_default();
            words.extend(properties::read_flags(variable, &flags, &mut settings));
        }
        let name = file.display().to_string();
        let mut warnings = properties::read_file(&name, &read(file, &name)?, &mut settings)?;
        if let Some(dynamic) = settings.remove("dynamicConfigFile") {
            let dynamic_name = dynamic.value.clone();
            let text = read(Path::new(&dynamic_name), &dynamic.place)?;
            warnings.extend(properties::read_file(&dynamic_name, &text, &mut settings)?);
        }
        let mut reader = Reader { file: &name, settings, warnings, remarks: Vec::new() };
        if !words.is_empty() {
            reader.remarks.push(format!("flags for a Java machine have no effect here: {}", words.join(" ")));
        }
        reader.zoo_cfg()
    }

    /// Our configuration. Host names are looked up here.
    pub fn config(&self) -> Result<Config, ZooCfgError> {
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        let own = self.own_line();
        let at_own = |port: u16| match own {
            Some(_) if self.quorum_listen_on_all_ips => Ok(SocketAddr::from(([0, 0, 0, 0], port))),
            Some(line) => resolve(&line.host, port, &line.place),
            None => Ok(loopback),
        };
        let folder = self.data_dir.join(OWN_FOLDER);
        let wrong = |error: ConfigError| ZooCfgError::new("dataDir", error.to_string());
        let mut config = Config::of(format!("zoo-{}", self.id), folder).map_err(wrong)?;
        config.listen.client = self.client;
        config.listen.client_tls = self.secure_client;
        config.tls = self.tls.as_ref().map(Tls::config);
        // ZooKeeper's election port, which carries admin calls here, is inside TLS too.
        config.peer_tls = self.members_tls.as_ref().map(Tls::config);
        config.admin_tls = self.members_tls.as_ref().map(Tls::config);
        config.listen.peer = at_own(own.map_or(0, |line| line.peer_port))?;
        config.listen.admin = at_own(own.map_or(0, |line| line.election_port))?;
        config.listen.http = self.http.unwrap_or(loopback);
        config.listen.metrics = self.metrics;
        config.listen.client_takes_tls = self.client_takes_tls;
        config.cluster.secret_file = Some(self.secret_file());
        config.cluster.admin_token_file = Some(self.secret_file());
        config.session.timeout_ms_min = self.session_timeout_ms_min;
        config.session.timeout_ms_max = self.session_timeout_ms_max;
        config.four_letter_words.allow.clone_from(&self.words);
        config.auth.super_digest.clone_from(&self.super_digest);
        config.auth.sasl_users_file =
            self.sasl.users_file.clone().or_else(|| self.locks_out().then(|| self.nobody_file()));
        config.auth.require_sasl = self.sasl.required;
        config.auth.allow_failed_sasl = self.sasl.allow_failed;
        // Without users of SASL there is nobody of that name.
        config.auth.super_user =
            self.sasl.super_user.clone().filter(|_| config.auth.sasl_users_file.is_some());
        // Without certificates of clients nobody has such a subject.
        let asks = |tls: &TlsConfig| tls.client_auth() != keeper_tls::ClientAuth::None;
        config.auth.x509_super = self.x509_super.clone().filter(|_| config.tls.as_ref().is_some_and(asks));
        config.auth.require_schemes.clone_from(&self.sasl.enforced_schemes);
        config.auth.skip_acl = self.skip_acl;
        config.quota.enforce = self.enforce_quota;
        config.reconfig.enabled = self.reconfig;
        config.read_only.enabled = self.read_only_mode;
        if let Some(ms) = self.container_check_ms {
            config.cleanup.container_period_ms = ms;
        }
        if let Some(bytes) = self.frame_bytes_max {
            config.limits.frame_bytes_max = bytes;
        }
        if let Some(connections) = self.connections_max {
            config.limits.connections_max = connections;
        }
        config.limits.connections_per_address_max = self.connections_per_address_max as usize;
        if let Some(bytes) = self.snapshot_log_bytes {
            config.log.snapshot_log_bytes = bytes;
        }
        Ok(config)
    }

    /// What makes this member found its cluster or wait for the one that does.
    pub fn founding(&self) -> Founding {
        let folder = self.data_dir.join(OWN_FOLDER);
        Founding::new(self.id, self.servers.clone(), folder, self.secret_file())
    }

    /// A login by SASL is demanded, and nobody has one. ZooKeeper starts all the same and refuses every client.
    fn locks_out(&self) -> bool {
        let demanded = self.sasl.required || self.sasl.enforced_schemes.iter().any(|scheme| scheme == "sasl");
        demanded && self.sasl.users_file.is_none()
    }

    fn nobody_file(&self) -> PathBuf {
        self.data_dir.join(OWN_FOLDER).join("nobody")
    }

    /// Makes the folder and, unless castellan.secretFile names one, the file with the members' secret. Refuses a
    /// folder with ZooKeeper's own data, which would seem to be lost.
    pub fn prepare(&self) -> Result<(), ZooCfgError> {
        let folder = self.data_dir.join(OWN_FOLDER);
        let place = self.data_dir.display().to_string();
        if !folder.exists() && holds_zookeeper(&self.data_dir) {
            let why = "holds data of a ZooKeeper (version-2), which is not taken over: its tree would seem to be empty; \
                       name another dataDir, or move version-2 away";
            return Err(ZooCfgError::new(&place, why.into()));
        }
        let failed =
            |error: std::io::Error| ZooCfgError::new(&place, format!("cannot be made or written: {error}"));
        std::fs::create_dir_all(&folder).map_err(failed)?;
        if self.secret_file.is_none() {
            let users = self.quorum_users.as_ref();
            founding::write_secret(&self.secret_file(), &self.servers, users).map_err(failed)?;
        }
        if self.locks_out() {
            founding::write_nobody(&self.nobody_file()).map_err(failed)?;
        }
        Ok(())
    }

    /// Warnings and remarks into the log.
    pub fn log(&self) {
        self.remarks.iter().for_each(|line| tracing::info!("zoo.cfg: {line}"));
        self.warnings.iter().for_each(|line| tracing::warn!("zoo.cfg: {line}"));
        if self.locks_out() {
            tracing::warn!(
                "zoo.cfg: every client is refused: a login by SASL is demanded, and no JAAS file has users (-Djava.security.auth.login.config)"
            );
        }
    }

    fn own_line(&self) -> Option<&ServerLine> {
        self.servers.iter().find(|line| line.id == self.id)
    }

    fn secret_file(&self) -> PathBuf {
        self.secret_file.clone().unwrap_or_else(|| self.data_dir.join(OWN_FOLDER).join("secret"))
    }
}

/// `folder/version-2` with a log or a snapshot in it.
fn holds_zookeeper(folder: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder.join("version-2")) else { return false };
    let ours = |name: String| name.starts_with("log.") || name.starts_with("snapshot.");
    entries.flatten().any(|entry| ours(entry.file_name().to_string_lossy().into_owned()))
}

fn read(file: &Path, place: &str) -> Result<String, ZooCfgError> {
    let bytes = std::fs::read(file)
        .map_err(|error| ZooCfgError::new(place, format!("cannot read {}: {error}", file.display())))?;
    String::from_utf8(bytes).map_err(|_| ZooCfgError::new(place, format!("{} is not UTF-8", file.display())))
}

/// The first IPv4 address of `host`, else its first one: what the other members' resolvers prefer too.
fn resolve(host: &str, port: u16, place: &str) -> Result<SocketAddr, ZooCfgError> {
    let found = (host, port).to_socket_addrs();
    let found: Vec<SocketAddr> = found
        .map_err(|error| ZooCfgError::new(place, format!("`{host}` is no address of a host: {error}")))?
        .collect();
    let v4 = found.iter().find(|address| address.is_ipv4());
    v4.or(found.first()).copied().ok_or_else(|| ZooCfgError::new(place, format!("`{host}` has no address")))
}

impl From<ZooCfgError> for ConfigError {
    fn from(error: ZooCfgError) -> ConfigError {
        ConfigError::Value { place: error.place, why: error.why }
    }
}

#[cfg(test)]
mod claims;
#[cfg(test)]
mod tests;

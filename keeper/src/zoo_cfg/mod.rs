//! ZooKeeper's own configuration for this server: a zoo.cfg and `-D` flags become a [`Config`] and, for members of a
//! server list, the founding of their cluster ([`founding`]). docs/zoo-cfg.md says what each key does.

pub mod founding;
mod guest;
mod keys;
mod properties;
mod servers;
mod tls;

use crate::config::{Config, ConfigError};
use founding::Founding;
use keeper_server::four_letter::{ALL_WORDS, find};
use keeper_server::sasl::{Users, UsersError};
use properties::{Setting, Settings};
use servers::SERVERS_MAX;
pub use servers::ServerLine;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use tls::{Family, Tls};

/// Variables with `-D` flags, the later over the earlier, as ZooKeeper's scripts put them together.
pub const FLAG_VARIABLES: [&str; 2] = ["SERVER_JVMFLAGS", "JVMFLAGS"];
/// ZooKeeper's default, in milliseconds.
const TICK_MS_DEFAULT: u64 = 3_000;
/// The section of a JAAS file that is a server's.
const JAAS_SECTION: &str = "Server";
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
#[allow(dead_code, reason = "fields of keys in keys::NOT_YET_SERVED wait for what they configure")]
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
    pub tls: Tls,
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
    /// Lines for `warn`: unknown keys, keys that are not served, doubtful values.
    pub warnings: Vec<String>,
    /// Lines for `info`: keys that have no effect here, with the reason.
    pub remarks: Vec<String>,
}

#[derive(Clone, Debug, Default)]
#[allow(dead_code, reason = "see ZooCfg")]
pub struct Sasl {
    /// `authProvider.N` names ZooKeeper's SASL provider.
    pub enabled: bool,
    /// The JAAS file, with the users of DIGEST-MD5.
    pub users_file: Option<PathBuf>,
    /// sessionRequireClientSASLAuth: nothing else is served before it.
    pub required: bool,
    /// `enforce.auth.enabled` with `enforce.auth.schemes`: a session must have one of them.
    pub enforced_schemes: Vec<String>,
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
        config.tls = self.secure_client.is_some().then(|| self.tls.config());
        config.listen.peer = at_own(own.map_or(0, |line| line.peer_port))?;
        config.listen.admin = at_own(own.map_or(0, |line| line.election_port))?;
        config.listen.http = self.http.unwrap_or(loopback);
        config.cluster.secret_file = Some(self.secret_file());
        config.cluster.admin_token_file = Some(self.secret_file());
        config.session.timeout_ms_min = self.session_timeout_ms_min;
        config.session.timeout_ms_max = self.session_timeout_ms_max;
        config.four_letter_words.allow.clone_from(&self.words);
        config.auth.super_digest.clone_from(&self.super_digest);
        config.auth.sasl_users_file =
            self.sasl.users_file.clone().or_else(|| self.locks_out().then(|| self.nobody_file()));
        config.auth.require_sasl = self.sasl.required;
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
            founding::write_secret(&self.secret_file(), &self.servers).map_err(failed)?;
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

/// Takes settings out one by one; what is left over is unknown.
struct Reader<'a> {
    file: &'a str,
    settings: Settings,
    warnings: Vec<String>,
    remarks: Vec<String>,
}

impl Reader<'_> {
    fn zoo_cfg(mut self) -> Result<ZooCfg, ZooCfgError> {
        // First, while all settings are there to look at.
        self.warn_of_unserved();
        let data_dir = self.path("dataDir").ok_or_else(|| self.missing("dataDir", "a folder"))?;
        let servers = self.servers()?;
        let id = self.id(&data_dir, &servers)?;
        let tick_ms = self.number("tickTime", 1, 3_600_000)?.unwrap_or(TICK_MS_DEFAULT);
        let (session_timeout_ms_min, session_timeout_ms_max) = self.session_timeouts(tick_ms)?;
        let own = servers.iter().find(|line| line.id == id).cloned();
        let client = self.client(own.as_ref())?;
        let secure_client = self.address("secureClientPort", "secureClientPortAddress")?;
        if client.is_none() && secure_client.is_none() {
            return Err(self.missing("clientPort", "a port (1 to 65535)"));
        }
        let mut cfg = ZooCfg {
            data_dir,
            id,
            servers,
            tick_ms,
            session_timeout_ms_min,
            session_timeout_ms_max,
            client,
            secure_client,
            http: self.http()?,
            quorum_listen_on_all_ips: self.flag("quorumListenOnAllIPs")?,
            words: self.words(),
            frame_bytes_max: self.frame_bytes_max()?,
            connections_max: self
                .number("maxCnxns", 0, 1 << 20)?
                .filter(|max| *max > 0)
                .map(|max| max as usize),
            connections_per_address_max: self.number("maxClientCnxns", 0, 1 << 20)?.unwrap_or(60) as u32,
            snapshot_log_bytes: self.snapshot_log_bytes()?,
            super_digest: self.text("DigestAuthenticationProvider.superDigest"),
            tls: self.tls(Family::Clients)?,
            sasl: self.sasl()?,
            read_only_mode: self.flag("readonlymode.enabled")?,
            extended_types: self.flag("extendedTypesEnabled")?,
            emulate_353_ttl: self.flag("emulate353TTLNodes")?,
            container_check_ms: self.number("znode.container.checkIntervalMs", 0, i64::MAX as u64)?,
            enforce_quota: self.flag("enforceQuota")?,
            reconfig: self.flag("reconfigEnabled")?,
            skip_acl: self.flag("skipACL")?,
            local_sessions: self.flag("localSessionsEnabled")?,
            local_sessions_upgrading: self.flag("localSessionsUpgradingEnabled")?,
            secret_file: self.path("castellan.secretFile"),
            ..ZooCfg::default()
        };
        self.judge_the_rest();
        cfg.warnings = self.warnings;
        cfg.remarks = self.remarks;
        Ok(cfg)
    }

    fn missing(&self, key: &str, allowed: &str) -> ZooCfgError {
        ZooCfgError::new(self.file, format!("`{key}` is missing: set it to {allowed}"))
    }

    fn wrong(key: &str, setting: &Setting, allowed: &str) -> ZooCfgError {
        ZooCfgError::new(&setting.place, format!("`{key}={}` is not {allowed}", setting.value))
    }

    fn take(&mut self, key: &str) -> Option<Setting> {
        self.settings.remove(key)
    }

    /// A value that is not empty.
    fn text(&mut self, key: &str) -> Option<String> {
        self.take(key).map(|setting| setting.value).filter(|value| !value.is_empty())
    }

    fn path(&mut self, key: &str) -> Option<PathBuf> {
        self.text(key).map(PathBuf::from)
    }

    /// ZooKeeper takes `true` and, for some keys, `yes` or `1`.
    fn flag(&mut self, key: &str) -> Result<bool, ZooCfgError> {
        let Some(setting) = self.take(key) else { return Ok(false) };
        match setting.value.to_ascii_lowercase().as_str() {
            "true" | "yes" | "1" | "on" => Ok(true),
            "false" | "no" | "0" | "off" | "" => Ok(false),
            _ => Err(Self::wrong(key, &setting, "true or false")),
        }
    }

    /// Decimal, or hexadecimal with 0x, as Java's `Integer.decode`.
    fn number(&mut self, key: &str, min: u64, max: u64) -> Result<Option<u64>, ZooCfgError> {
        let Some(setting) = self.take(key) else { return Ok(None) };
        let lower = setting.value.to_ascii_lowercase();
        let parsed = match lower.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => lower.parse(),
        };
        match parsed {
            Ok(number) if (min..=max).contains(&number) => Ok(Some(number)),
            _ => Err(Self::wrong(key, &setting, &format!("a number from {min} to {max}"))),
        }
    }

    fn servers(&mut self) -> Result<Vec<ServerLine>, ZooCfgError> {
        let keys: Vec<String> =
            self.settings.keys().filter(|key| key.starts_with("server.")).cloned().collect();
        if keys.len() > SERVERS_MAX {
            return Err(ZooCfgError::new(
                self.file,
                format!("names {} servers, at most {SERVERS_MAX}", keys.len()),
            ));
        }
        let mut lines: Vec<ServerLine> = Vec::new();
        for key in keys {
            if let Some(setting) = self.take(&key) {
                lines.push(ServerLine::parse(&key, &setting)?);
            }
        }
        lines.sort_by_key(|line| line.id);
        for (at, line) in lines.iter().enumerate() {
            if let Some(same) = lines[..at].iter().find(|other| {
                other.id == line.id || (other.host == line.host && other.peer_port == line.peer_port)
            }) {
                return Err(ZooCfgError::new(
                    &line.place,
                    format!("`{line}` is the server of {} again", same.place),
                ));
            }
        }
        if !lines.is_empty() && lines.iter().all(|line| line.observer) {
            return Err(ZooCfgError::new(
                &lines[0].place,
                "all servers are observers; one participant is needed".into(),
            ));
        }
        Ok(lines)
    }

    /// What dataDir/myid says; it may be missing where nothing depends on it.
    fn id(&self, data_dir: &Path, servers: &[ServerLine]) -> Result<u64, ZooCfgError> {
        let file = data_dir.join("myid");
        let name = file.display().to_string();
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(_) if servers.len() <= 1 => return Ok(servers.first().map_or(1, |line| line.id)),
            Err(error) => {
                return Err(ZooCfgError::new(
                    &name,
                    format!("cannot be read: {error}; it holds this server's id"),
                ));
            }
        };
        let id = match text.trim().parse::<u64>() {
            Ok(id) if (1..=255).contains(&id) => id,
            _ => {
                return Err(ZooCfgError::new(&name, format!("`{}` is no number from 1 to 255", text.trim())));
            }
        };
        if !servers.is_empty() && !servers.iter().any(|line| line.id == id) {
            return Err(ZooCfgError::new(
                &name,
                format!("says {id}, and {} has no line server.{id}", self.file),
            ));
        }
        Ok(id)
    }

    fn session_timeouts(&mut self, tick_ms: u64) -> Result<(i32, i32), ZooCfgError> {
        let at = ["minSessionTimeout", "maxSessionTimeout"]
            .map(|key| self.settings.get(key).map_or(self.file.to_owned(), |setting| setting.place.clone()));
        let mut value = |key: &str, ticks: u64| {
            // ZooKeeper writes -1 for its default.
            self.settings.retain(|name, setting| name != key || setting.value != "-1");
            let number = self.number(key, 1, i32::MAX as u64)?;
            Ok::<_, ZooCfgError>(number.unwrap_or_else(|| (tick_ms * ticks).min(i32::MAX as u64)) as i32)
        };
        let (min, max) = (value("minSessionTimeout", 2)?, value("maxSessionTimeout", 20)?);
        if min > max {
            let why =
                format!("minSessionTimeout is {min} and maxSessionTimeout {max}; they have to be in order");
            return Err(ZooCfgError::new(&at[0], why));
        }
        Ok((min, max))
    }

    /// A port key with the address key beside it; all addresses when that is not set.
    fn address(&mut self, port_key: &str, address_key: &str) -> Result<Option<SocketAddr>, ZooCfgError> {
        let place = self.settings.get(port_key).map(|setting| setting.place.clone());
        let address = self.take(address_key);
        let (Some(port), Some(place)) = (self.number(port_key, 1, 65_535)?, place) else { return Ok(None) };
        let host = address.map_or_else(|| "0.0.0.0".to_owned(), |setting| setting.value);
        resolve(host.trim_matches(['[', ']']), port as u16, &place).map(Some)
    }

    /// From clientPort or from behind the `;` of the own server line; both must agree.
    fn client(&mut self, own: Option<&ServerLine>) -> Result<Option<SocketAddr>, ZooCfgError> {
        let keyed = self.address("clientPort", "clientPortAddress")?;
        let Some(line) = own else { return Ok(keyed) };
        let Some((address, port)) = &line.client else { return Ok(keyed) };
        if let Some(keyed) = keyed.filter(|keyed| keyed.port() != *port) {
            let why =
                format!("its client port is {port}, and clientPort is {}; set one of them", keyed.port());
            return Err(ZooCfgError::new(&line.place, why));
        }
        resolve(address.as_deref().unwrap_or("0.0.0.0"), *port, &line.place).map(Some)
    }

    fn http(&mut self) -> Result<Option<SocketAddr>, ZooCfgError> {
        let off = self.settings.get("admin.enableServer").is_some_and(|setting| setting.value == "false");
        let address = self.address("admin.serverPort", "admin.serverAddress")?;
        Ok(address.filter(|_| !off))
    }

    /// ZooKeeper's default is `srvr` alone; `*` is every word that this server has.
    fn words(&mut self) -> Vec<String> {
        let Some(setting) = self.take("4lw.commands.whitelist") else { return vec!["srvr".into()] };
        let wished: Vec<&str> =
            setting.value.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
        if wished.contains(&"*") {
            return vec![ALL_WORDS.to_owned()];
        }
        let (known, unknown): (Vec<&str>, Vec<&str>) =
            wished.into_iter().partition(|word| find(word).is_some());
        if !unknown.is_empty() {
            self.warnings.push(format!(
                "{}: words that are not served: {}",
                setting.place,
                unknown.join(" ")
            ));
        }
        known.into_iter().map(str::to_owned).collect()
    }

    fn frame_bytes_max(&mut self) -> Result<Option<usize>, ZooCfgError> {
        let max = keeper_server::limits::FRAME_BYTES_MAX_LIMIT as u64;
        Ok(self.number("jute.maxbuffer", 1024, max)?.map(|bytes| bytes as usize))
    }

    fn snapshot_log_bytes(&mut self) -> Result<Option<u64>, ZooCfgError> {
        // 0 and less switch the limit off in ZooKeeper; here there is always one.
        self.settings
            .retain(|key, setting| key != "snapSizeLimitInKb" || !setting.value.starts_with(['-', '0']));
        Ok(self.number("snapSizeLimitInKb", 1, 1 << 32)?.map(|kib| kib << 10))
    }

    fn sasl(&mut self) -> Result<Sasl, ZooCfgError> {
        let providers: Vec<String> = self
            .settings
            .keys()
            .filter(|key| *key == "authProvider" || key.starts_with("authProvider."))
            .cloned()
            .collect();
        let mut enabled = false;
        for key in providers {
            if let Some(setting) = self.take(&key) {
                enabled |= setting.value.ends_with("SASLAuthenticationProvider");
            }
        }
        let users_file = self.jaas_file()?;
        let enforced = self.flag("enforce.auth.enabled")?;
        let schemes =
            self.text("enforce.auth.schemes").or(self.text("enforce.auth.scheme")).unwrap_or_default();
        let schemes: Vec<String> = schemes
            .split(',')
            .map(str::trim)
            .filter(|scheme| !scheme.is_empty())
            .map(str::to_owned)
            .collect();
        if enforced && schemes.is_empty() {
            return Err(self.missing(
                "enforce.auth.schemes",
                "a list such as sasl,digest, since enforce.auth.enabled is true",
            ));
        }
        let required = self.flag("sessionRequireClientSASLAuth")?;
        Ok(Sasl {
            enabled,
            users_file,
            required,
            enforced_schemes: if enforced { schemes } else { Vec::new() },
        })
    }

    /// The JAAS file, if it has users of ours: without any, ZooKeeper too serves everybody without SASL.
    fn jaas_file(&mut self) -> Result<Option<PathBuf>, ZooCfgError> {
        let Some(setting) = self.take("java.security.auth.login.config") else { return Ok(None) };
        let file = PathBuf::from(&setting.value);
        match Users::parse_jaas(&read(&file, &setting.place)?, JAAS_SECTION) {
            Ok(users) if !users.is_empty() => Ok(Some(file)),
            Ok(_) | Err(UsersError::NoSection { .. }) => {
                let (place, file) = (&setting.place, file.display());
                self.warnings.push(format!(
                    "{place}: {file} has no `user_NAME` in a section `{JAAS_SECTION}`: SASL is not offered"
                ));
                Ok(None)
            }
            Err(error) => Err(ZooCfgError::new(&setting.value, error.to_string())),
        }
    }

    fn warn_of_unserved(&mut self) {
        for keys::Unserved { key, harmless, instead } in keys::NOT_YET_SERVED {
            let family = format!("{key}.");
            let asked = self.settings.iter().filter(|(name, setting)| {
                (*name == key || (*key == "authProvider" && name.starts_with(&family)))
                    && (harmless.is_empty() || !setting.value.eq_ignore_ascii_case(harmless))
            });
            let lines: Vec<String> = asked
                .map(|(name, setting)| format!("{}: `{name}` is not served: {instead}", setting.place))
                .collect();
            self.warnings.extend(lines);
        }
    }

    /// Keys that nothing took: not served, without effect here, or unknown.
    fn judge_the_rest(&mut self) {
        for (key, setting) in std::mem::take(&mut self.settings) {
            let exact = keys::WITHOUT_EFFECT.iter().find(|(known, _)| *known == key);
            let family = || keys::WITHOUT_EFFECT_PREFIXES.iter().find(|(known, _)| key.starts_with(known));
            if keys::NOT_YET_SERVED.iter().any(|unserved| unserved.key == key) {
                continue;
            }
            if key == "forceSync" && setting.value == "no" {
                self.warnings.push(format!(
                    "{}: `forceSync=no` is not obeyed: every write is on disk before it is acknowledged",
                    setting.place
                ));
            } else if let Some((_, why)) = exact.or_else(family) {
                self.remarks.push(format!("{}: `{key}` has no effect here: {why}", setting.place));
            } else if setting.place.starts_with("-D") && !setting.place.starts_with("-Dzookeeper.") {
                self.remarks.push(format!("{}: a property of Java, not of this server", setting.place));
            } else {
                self.warnings.push(format!("{}: `{key}` is unknown and ignored", setting.place));
            }
        }
    }
}

#[cfg(test)]
mod tests;

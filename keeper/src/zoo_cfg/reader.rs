//! Takes settings out one by one, each into its type; what is left over in the end is unknown.

use super::properties::{Setting, Settings};
use super::servers::{SERVERS_MAX, ServerLine};
use super::tls::Family;
use super::{ZooCfg, ZooCfgError, keys, resolve};
use keeper_server::four_letter::{ALL_WORDS, find};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// ZooKeeper's default, in milliseconds.
const TICK_MS_DEFAULT: u64 = 3_000;
/// Of ZooKeeper's metrics, and the port where they are unless told otherwise.
const PROMETHEUS_PROVIDER: &str = "PrometheusMetricsProvider";
const METRICS_PORT_DEFAULT: u16 = 7_000;

pub(super) struct Reader<'a> {
    pub(super) file: &'a str,
    pub(super) settings: Settings,
    pub(super) warnings: Vec<String>,
    pub(super) remarks: Vec<String>,
}

impl Reader<'_> {
    pub(super) fn zoo_cfg(mut self) -> Result<ZooCfg, ZooCfgError> {
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
        let alone = servers.is_empty();
        let secret_file = self.path("castellan.secretFile");
        let quorum_users = self.quorum_users(alone || secret_file.is_some())?;
        // It is about the port without TLS; where there is none it says nothing, as in ZooKeeper.
        let client_takes_tls = self.flag("client.portUnification")? && client.is_some();
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
            metrics: self.metrics()?,
            client_takes_tls,
            quorum_listen_on_all_ips: self.flag("quorumListenOnAllIPs")?,
            words: self.words(),
            frame_bytes_max: self.frame_bytes_max()?,
            connections_max: self
                .number("maxCnxns", 0, 1 << 20)?
                .filter(|max| *max > 0)
                .map(|max| max as usize),
            connections_per_address_max: self.number("maxClientCnxns", 0, 1 << 20)?.unwrap_or(60) as u32,
            snapshot_log_bytes: self.snapshot_log_bytes()?,
            x509_super: self.text("X509AuthenticationProvider.superUser"),
            super_digest: self.text("DigestAuthenticationProvider.superDigest"),
            tls: Some(self.tls(Family::Clients)?).filter(|_| secure_client.is_some() || client_takes_tls),
            members_tls: self.members_tls(alone)?,
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
            secret_file,
            quorum_users,
            ..ZooCfg::default()
        };
        self.judge_the_rest();
        cfg.warnings = self.warnings;
        cfg.remarks = self.remarks;
        Ok(cfg)
    }

    pub(super) fn missing(&self, key: &str, allowed: &str) -> ZooCfgError {
        ZooCfgError::new(self.file, format!("`{key}` is missing: set it to {allowed}"))
    }

    pub(super) fn wrong(key: &str, setting: &Setting, allowed: &str) -> ZooCfgError {
        ZooCfgError::new(&setting.place, format!("`{key}={}` is not {allowed}", setting.value))
    }

    pub(super) fn take(&mut self, key: &str) -> Option<Setting> {
        self.settings.remove(key)
    }

    /// A value that is not empty.
    pub(super) fn text(&mut self, key: &str) -> Option<String> {
        self.take(key).map(|setting| setting.value).filter(|value| !value.is_empty())
    }

    pub(super) fn path(&mut self, key: &str) -> Option<PathBuf> {
        self.text(key).map(PathBuf::from)
    }

    pub(super) fn flag(&mut self, key: &str) -> Result<bool, ZooCfgError> {
        self.flag_or(key, false)
    }

    /// ZooKeeper takes `true` and, for some keys, `yes` or `1`.
    pub(super) fn flag_or(&mut self, key: &str, unset: bool) -> Result<bool, ZooCfgError> {
        let Some(setting) = self.take(key) else { return Ok(unset) };
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

    /// Where ZooKeeper's provider for Prometheus is named, or a port is named for it, and no other provider.
    fn metrics(&mut self) -> Result<Option<SocketAddr>, ZooCfgError> {
        let provider = self.take("metricsProvider.className");
        let named = self.settings.contains_key("metricsProvider.httpPort");
        let place = provider.as_ref().map_or(self.file.to_owned(), |setting| setting.place.clone());
        let address = self.address("metricsProvider.httpPort", "metricsProvider.httpHost")?;
        match provider {
            None => Ok(address),
            Some(setting) if !setting.value.ends_with(PROMETHEUS_PROVIDER) => {
                self.remarks.push(format!(
                    "{place}: `{}` is no provider here: /metrics is at admin.serverPort",
                    setting.value
                ));
                Ok(None)
            }
            Some(_) if named => Ok(address),
            Some(_) => resolve("0.0.0.0", METRICS_PORT_DEFAULT, &place).map(Some),
        }
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

    /// Keys that nothing took: without effect here, or unknown.
    fn judge_the_rest(&mut self) {
        for (key, setting) in std::mem::take(&mut self.settings) {
            let exact = keys::WITHOUT_EFFECT.iter().find(|(known, _)| *known == key);
            let family = || keys::WITHOUT_EFFECT_PREFIXES.iter().find(|(known, _)| key.starts_with(known));
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

//! Logins by SASL: of clients, and of members among themselves.

use super::reader::Reader;
use super::{ZooCfgError, read};
use keeper_server::sasl::{Users, UsersError};
use std::path::{Path, PathBuf};

/// The property that names a JAAS file; the sections in it for clients and for members.
const JAAS_KEY: &str = "java.security.auth.login.config";
const JAAS_SECTION: &str = "Server";
const QUORUM_JAAS_SECTION: &str = "QuorumServer";

#[derive(Clone, Debug, Default)]
#[allow(dead_code, reason = "`enabled` is read for its value to be checked, and changes nothing here")]
pub struct Sasl {
    /// `authProvider.N` names ZooKeeper's SASL provider.
    pub enabled: bool,
    /// The JAAS file, with the users of DIGEST-MD5.
    pub users_file: Option<PathBuf>,
    /// allowSaslFailedClients.
    pub allow_failed: bool,
    /// The user who may do everything: superUser.
    pub super_user: Option<String>,
    /// sessionRequireClientSASLAuth: nothing else is served before it.
    pub required: bool,
    /// `enforce.auth.enabled` with `enforce.auth.schemes`: a session must have one of them.
    pub enforced_schemes: Vec<String>,
}

impl Reader<'_> {
    pub(super) fn sasl(&mut self) -> Result<Sasl, ZooCfgError> {
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
            allow_failed: self.flag("allowSaslFailedClients")?,
            super_user: self.text("superUser"),
            required,
            enforced_schemes: if enforced { schemes } else { Vec::new() },
        })
    }

    /// `quorum.auth.enableSasl`: members prove more to each other than that they know a server line. What else proves
    /// it (`met`), or nobody to prove it to, makes the users unnecessary.
    pub(super) fn quorum_users(&mut self, met: bool) -> Result<Option<Users>, ZooCfgError> {
        let section = self.text("quorum.auth.server.loginContext");
        let section = section.as_deref().unwrap_or(QUORUM_JAAS_SECTION);
        let Some(place) = self.asked("quorum.auth.enableSasl")?.filter(|_| !met) else { return Ok(None) };
        let users = match self.settings.get(JAAS_KEY) {
            None => None,
            Some(setting) => {
                let text = read(Path::new(&setting.value), &setting.place)?;
                Users::parse_jaas(&text, section).ok().filter(|users| !users.is_empty())
            }
        };
        users.map(Some).ok_or_else(|| {
            let why = format!(
                "`quorum.auth.enableSasl=true` needs a JAAS file (-D{JAAS_KEY}) with `user_NAME` in a section `{section}`, \
                 or the same castellan.secretFile for all members; Kerberos is not served"
            );
            ZooCfgError::new(&place, why)
        })
    }

    /// The JAAS file, if it has users of ours: without any, ZooKeeper too serves everybody without SASL.
    fn jaas_file(&mut self) -> Result<Option<PathBuf>, ZooCfgError> {
        let Some(setting) = self.take(JAAS_KEY) else { return Ok(None) };
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
}

//! `ssl.*` of a zoo.cfg, TLS of the client port, and `ssl.quorum.*`, TLS of members among themselves.

use super::ZooCfgError;
use super::reader::Reader;
use keeper_tls::{CipherSuite, ClientAuth, Password, Protocol, TlsConfig, UnknownName};
use std::path::PathBuf;
use std::str::FromStr;

/// Which of ZooKeeper's families of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Clients,
    Members,
}

impl Family {
    fn key(self, name: &str) -> String {
        match self {
            Family::Clients => format!("ssl.{name}"),
            Family::Members => format!("ssl.quorum.{name}"),
        }
    }

    /// Ours: ZooKeeper has lists fetched from where certificates say.
    fn crl_file_key(self) -> &'static str {
        match self {
            Family::Clients => "castellan.ssl.crlFile",
            Family::Members => "castellan.ssl.quorum.crlFile",
        }
    }
}

/// A store's password, or the file that holds it, which wins over it, as in ZooKeeper.
#[derive(Clone, Debug, Default)]
pub struct Secret {
    pub text: Option<Password>,
    pub file: Option<PathBuf>,
}

/// What one family says.
#[derive(Clone, Debug)]
pub struct Tls {
    pub key_store: Option<PathBuf>,
    pub key_store_password: Secret,
    pub trust_store: Option<PathBuf>,
    pub trust_store_password: Secret,
    /// ZooKeeper's default is to need a certificate.
    pub client_auth: Option<ClientAuth>,
    pub crl_file: Option<PathBuf>,
    /// Empty: all that there are.
    pub protocols: Vec<Protocol>,
    pub cipher_suites: Vec<CipherSuite>,
    /// Of members that are dialled.
    pub verify_names: bool,
    pub verify_client_addresses: bool,
}

impl Tls {
    pub(super) fn config(&self) -> TlsConfig {
        TlsConfig {
            certificate_file: self.key_store.clone(),
            certificate_password: self.key_store_password.text.clone(),
            certificate_password_file: self.key_store_password.file.clone(),
            ca_file: self.trust_store.clone(),
            ca_password: self.trust_store_password.text.clone(),
            ca_password_file: self.trust_store_password.file.clone(),
            crl_file: self.crl_file.clone(),
            protocols: self.protocols.clone(),
            cipher_suites: self.cipher_suites.clone(),
            verify_names: self.verify_names,
            verify_client_addresses: self.verify_client_addresses,
            client_auth: Some(self.client_auth.unwrap_or(ClientAuth::Required)),
            ..TlsConfig::default()
        }
    }
}

impl Reader<'_> {
    pub(super) fn tls(&mut self, family: Family) -> Result<Tls, ZooCfgError> {
        // Kinds of stores are told by their content.
        for kind in ["keyStore.type", "trustStore.type"] {
            self.take(&family.key(kind));
        }
        let verify = self.flag_or(&family.key("hostnameVerification"), true)?;
        Ok(Tls {
            key_store: self.path(&family.key("keyStore.location")),
            key_store_password: self.password(family, "keyStore"),
            trust_store: self.path(&family.key("trustStore.location")),
            trust_store_password: self.password(family, "trustStore"),
            client_auth: self.client_auth(family)?,
            crl_file: self.crl_file(family)?,
            protocols: self.protocols(family)?,
            cipher_suites: self.names(&family.key("ciphersuites"))?,
            // Clients are not dialled: what their family says of names is about clients alone.
            verify_names: verify || family == Family::Clients,
            verify_client_addresses: self.verify_client_addresses(family)? && verify,
        })
    }

    fn password(&mut self, family: Family, store: &str) -> Secret {
        let key = |name: &str| family.key(&format!("{store}.{name}"));
        Secret { text: self.text(&key("password")).map(Password::new), file: self.path(&key("passwordPath")) }
    }

    fn client_auth(&mut self, family: Family) -> Result<Option<ClientAuth>, ZooCfgError> {
        let key = family.key("clientAuth");
        let Some(setting) = self.take(&key) else { return Ok(None) };
        match setting.value.to_ascii_lowercase().as_str() {
            "none" => Ok(Some(ClientAuth::None)),
            "want" => Ok(Some(ClientAuth::Optional)),
            "need" => Ok(Some(ClientAuth::Required)),
            "" => Ok(None),
            _ => Err(Self::wrong(&key, &setting, "none, want or need")),
        }
    }

    /// Java fetches revocation lists, and asks authorities online. Here lists come from a file: whoever wants revoked
    /// certificates refused must not get a server that takes them.
    fn crl_file(&mut self, family: Family) -> Result<Option<PathBuf>, ZooCfgError> {
        let own = family.crl_file_key();
        let file = self.path(own);
        if let Some(place) = self.asked(&family.key("ocsp"))? {
            let why = format!(
                "`{}=true` is not served: authorities are not asked online. Name a PEM file with their revocation lists \
                 in {own} instead, or give out short-lived certificates, and set it to false",
                family.key("ocsp")
            );
            return Err(ZooCfgError::new(&place, why));
        }
        if let Some(place) = self.asked(&family.key("crl"))?
            && file.is_none()
        {
            let why = format!(
                "`{}=true`: revocation lists are not fetched here. Name a PEM file with them in {own}; new content is \
                 taken over without a restart",
                family.key("crl")
            );
            return Err(ZooCfgError::new(&place, why));
        }
        Ok(file)
    }

    /// `enabledProtocols` wins over `protocol`, which stands for itself and what is older.
    fn protocols(&mut self, family: Family) -> Result<Vec<Protocol>, ZooCfgError> {
        let newest: Vec<Protocol> = self.names(&family.key("protocol"))?;
        let enabled = self.names(&family.key("enabledProtocols"))?;
        let up_to = |newest: &Protocol| if *newest == Protocol::Tls12 { vec![*newest] } else { Vec::new() };
        Ok(if enabled.is_empty() { newest.last().map(up_to).unwrap_or_default() } else { enabled })
    }

    /// A list with commas.
    fn names<T: FromStr<Err = UnknownName>>(&mut self, key: &str) -> Result<Vec<T>, ZooCfgError> {
        let Some(setting) = self.take(key) else { return Ok(Vec::new()) };
        let names = setting.value.split(',').map(str::trim).filter(|name| !name.is_empty());
        let wrong = |error: UnknownName| ZooCfgError::new(&setting.place, format!("`{key}`: {error}"));
        names.map(|name| name.parse().map_err(wrong)).collect()
    }

    /// Nothing unless asked for: in ZooKeeper so for clients, and for members too where it is in its FIPS mode, which it
    /// is by default.
    fn verify_client_addresses(&mut self, family: Family) -> Result<bool, ZooCfgError> {
        let verify = self.flag(&family.key("clientHostnameVerification"))?;
        let reverse = family.key("allowReverseDnsLookup");
        if let Some(place) = self.asked(&reverse)?
            && verify
        {
            let why = format!(
                "`{reverse}=true` is not served: names are not looked up for addresses. Put clients' addresses into their \
                 certificates (SAN:IP) and set it to false"
            );
            return Err(ZooCfgError::new(&place, why));
        }
        Ok(verify)
    }

    /// TLS of members, for `sslQuorum=true`. Of a server that stands alone it has no peers to be for, as in ZooKeeper.
    pub(super) fn members_tls(&mut self, alone: bool) -> Result<Option<Tls>, ZooCfgError> {
        let asked = self.asked("sslQuorum")?;
        let unified = self.asked("portUnification")?;
        let client_auth = self.settings.get("ssl.quorum.clientAuth").cloned();
        let tls = self.tls(Family::Members)?;
        if alone {
            return Ok(None);
        }
        let Some(place) = asked else {
            if let Some(unified) = unified {
                self.warnings.push(format!(
                    "{unified}: `portUnification` is not served: members of this file take plain text alone until all \
                     of them have sslQuorum=true"
                ));
            }
            if tls.key_store.is_some() {
                self.warnings.push(format!(
                    "{}: members talk in plain text: ssl.quorum.* has no effect without sslQuorum=true",
                    self.file
                ));
            }
            return Ok(None);
        };
        if let Some(unified) = unified {
            let why = "`portUnification=true` is not served together with sslQuorum=true: members would take plain text \
                       too. To change over, stop all members, set sslQuorum=true alone in every file, and start them";
            return Err(ZooCfgError::new(&unified, why.into()));
        }
        for (file, key) in [
            (&tls.key_store, "ssl.quorum.keyStore.location"),
            (&tls.trust_store, "ssl.quorum.trustStore.location"),
        ] {
            if file.is_none() {
                return Err(ZooCfgError::new(&place, format!("`sslQuorum=true` needs `{key}`: a file")));
            }
        }
        if let Some(setting) = client_auth
            && tls.client_auth.is_some_and(|asked| asked != ClientAuth::Required)
        {
            self.warnings.push(format!(
                "{}: `ssl.quorum.clientAuth={}` is not obeyed: members always prove a certificate",
                setting.place, setting.value
            ));
        }
        Ok(Some(Tls { client_auth: None, ..tls }))
    }

    /// Where a flag stands that is set.
    pub(super) fn asked(&mut self, key: &str) -> Result<Option<String>, ZooCfgError> {
        let place = self.settings.get(key).map(|setting| setting.place.clone());
        let on = self.flag(key)?;
        Ok(place.filter(|_| on))
    }
}

#[cfg(test)]
mod tests;

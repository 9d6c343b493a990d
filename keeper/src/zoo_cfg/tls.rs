//! `ssl.*` of a zoo.cfg: TLS of the client port.

use super::{Reader, ZooCfgError, read};
use keeper_tls::{ClientAuth, Password, TlsConfig};
use std::path::{Path, PathBuf};

/// Which of ZooKeeper's families of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Clients,
}

impl Family {
    fn key(self, name: &str) -> String {
        match self {
            Family::Clients => format!("ssl.{name}"),
        }
    }

    /// Ours: ZooKeeper has lists fetched from where certificates say.
    fn crl_file_key(self) -> &'static str {
        match self {
            Family::Clients => "castellan.ssl.crlFile",
        }
    }
}

/// What one family says.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    pub key_store: Option<PathBuf>,
    pub key_store_password: Option<String>,
    pub trust_store: Option<PathBuf>,
    pub trust_store_password: Option<String>,
    /// ZooKeeper's default is to need a certificate.
    pub client_auth: Option<ClientAuth>,
    pub crl_file: Option<PathBuf>,
}

impl Tls {
    pub(super) fn config(&self) -> TlsConfig {
        let password = |text: &Option<String>| text.as_ref().map(Password::new);
        TlsConfig {
            certificate_file: self.key_store.clone(),
            certificate_password: password(&self.key_store_password),
            ca_file: self.trust_store.clone(),
            ca_password: password(&self.trust_store_password),
            crl_file: self.crl_file.clone(),
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
        Ok(Tls {
            key_store: self.path(&family.key("keyStore.location")),
            key_store_password: self.password(family, "keyStore")?,
            trust_store: self.path(&family.key("trustStore.location")),
            trust_store_password: self.password(family, "trustStore")?,
            client_auth: self.client_auth(family)?,
            crl_file: self.crl_file(family)?,
        })
    }

    /// The file wins over the value, as in ZooKeeper.
    fn password(&mut self, family: Family, store: &str) -> Result<Option<String>, ZooCfgError> {
        let value = self.text(&family.key(&format!("{store}.password")));
        let Some(setting) = self.take(&family.key(&format!("{store}.passwordPath"))) else {
            return Ok(value);
        };
        read(Path::new(&setting.value), &setting.place).map(|text| Some(text.trim_end().to_owned()))
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

    /// Where a flag stands that is set.
    pub(super) fn asked(&mut self, key: &str) -> Result<Option<String>, ZooCfgError> {
        let place = self.settings.get(key).map(|setting| setting.place.clone());
        let on = self.flag(key)?;
        Ok(place.filter(|_| on))
    }
}

#[cfg(test)]
mod tests;

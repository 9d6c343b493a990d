//! `--tls-…`: TLS of the commands that dial.

use super::Failure;
use anyhow::Context;
use clap::Args;
use keeper_client::{ClientFiles, ClientTls};
use std::path::PathBuf;

#[derive(Args)]
pub struct TlsFlags {
    /// PEM file with the authorities of the server's certificate; switches TLS on.
    #[arg(long, env = "KEEPER_TLS_CA", value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// PEM file with our own certificate and its chain.
    #[arg(long, env = "KEEPER_TLS_CERT", value_name = "FILE", requires = "tls_ca")]
    tls_cert: Option<PathBuf>,
    /// PEM file with its key; not needed where --tls-cert holds it too.
    #[arg(long, env = "KEEPER_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Name that the server's certificate has to carry, where it is not the one in the address.
    #[arg(long, env = "KEEPER_TLS_SERVER_NAME", value_name = "NAME", requires = "tls_ca")]
    tls_server_name: Option<String>,
}

impl TlsFlags {
    /// `None` where no TLS is asked for.
    pub fn open(&self) -> Result<Option<ClientTls>, Failure> {
        let Some(ca_file) = self.tls_ca.clone() else { return Ok(None) };
        let files = ClientFiles {
            ca_file,
            certificate_file: self.tls_cert.clone(),
            key_file: self.tls_key.clone(),
            server_name: self.tls_server_name.clone(),
        };
        Ok(Some(ClientTls::open(&files).context("the TLS files cannot be used")?))
    }
}

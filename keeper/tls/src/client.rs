//! The dialling side of commands: who is believed, who we are, and under which name.

use crate::material::{self, TlsError};
use crate::stream::TlsStream;
use crate::suites::provider;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

/// The protocol of gRPC, as ALPN names it (RFC 9113, 3.2).
pub(crate) const HTTP_2: &[u8] = b"h2";

/// What a command is told.
#[derive(Clone, Debug)]
pub struct ClientFiles {
    /// Authorities of the servers' certificates, PEM.
    pub ca_file: PathBuf,
    /// Our own certificate with its chain, PEM; for servers that ask for one.
    pub certificate_file: Option<PathBuf>,
    /// Its key; unset when the certificate's file holds it.
    pub key_file: Option<PathBuf>,
    /// The name that a server's certificate has to carry, where it is not the one that is dialled.
    pub server_name: Option<String>,
}

/// Dials with TLS. Clones share the configuration.
#[derive(Clone, Debug)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    name: Option<ServerName<'static>>,
}

impl ClientTls {
    pub(crate) fn of(config: Arc<ClientConfig>) -> ClientTls {
        ClientTls { config, name: None }
    }

    /// Reads the files. `name` is checked too.
    pub fn open(files: &ClientFiles) -> Result<ClientTls, TlsError> {
        let provider = provider();
        let certificate = files.certificate_file.as_deref();
        let (roots, own) =
            material::client_files(&files.ca_file, certificate, files.key_file.as_deref(), &provider)?;
        let wrong = |file: &str, why: String| TlsError { file: file.to_owned(), why };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong("TLS", error.to_string()))?
            .with_root_certificates(roots);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some(own) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own))),
        };
        let name = files.server_name.as_deref().map(|name| {
            ServerName::try_from(name.to_owned())
                .map_err(|_| wrong("server name", format!("`{name}` is no host name and no address")))
        });
        Ok(ClientTls { config: Arc::new(config), name: name.transpose()? })
    }

    /// The handshake over `stream`, which leads to `address` (`host:port`). The caller limits the time.
    pub async fn connect<S>(
        &self,
        stream: S,
        address: &str,
    ) -> io::Result<TlsStream<tokio_rustls::client::TlsStream<S>>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        Ok(TlsStream::new(self.shake_hands(self.config.clone(), stream, address).await?))
    }

    /// The same for gRPC, whose connections say so in the handshake.
    pub async fn connect_http2<S>(
        &self,
        stream: S,
        address: &str,
    ) -> io::Result<tokio_rustls::client::TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut config = (*self.config).clone();
        config.alpn_protocols = vec![HTTP_2.to_vec()];
        self.shake_hands(Arc::new(config), stream, address).await
    }

    async fn shake_hands<S>(
        &self,
        config: Arc<ClientConfig>,
        stream: S,
        address: &str,
    ) -> io::Result<tokio_rustls::client::TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let name = self.name.clone().map_or_else(|| server_name(address), Ok)?;
        TlsConnector::from(config)
            .connect(name, stream)
            .await
            .map_err(|error| io::Error::new(error.kind(), format!("TLS: {error}")))
    }
}

/// The host of `host:port`, as the name that the other side's certificate has to carry.
pub(crate) fn server_name(address: &str) -> io::Result<ServerName<'static>> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(host.to_owned()).map_err(|_| {
        let why = format!("`{host}` is no name that a certificate could carry");
        io::Error::new(io::ErrorKind::InvalidInput, why)
    })
}

//! Four-letter words: four bytes there, text back, and the server closes.

use crate::connector::{Connector, TcpConnector};
use crate::error::ClientError;
use crate::limits::FOUR_LETTER_BYTES_MAX;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const TIMEOUT: Duration = Duration::from_secs(5);

/// Asks the server at `host` (`host:port`) a word such as `ruok` or `srvr`.
pub async fn four_letter(host: &str, word: &str) -> Result<String, ClientError> {
    four_letter_with(&TcpConnector, host, word).await
}

/// [`four_letter`] over a stream that `connector` makes.
pub async fn four_letter_with<C: Connector>(
    connector: &C,
    host: &str,
    word: &str,
) -> Result<String, ClientError> {
    if word.len() != 4 {
        return Err(ClientError::Invalid(format!("`{word}` has not four letters")));
    }
    let ask = async {
        let mut stream = connector.connect(host).await?;
        stream.write_all(word.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(FOUR_LETTER_BYTES_MAX).read_to_end(&mut answer).await?;
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&answer).into_owned())
    };
    match keeper_rt::timeout(TIMEOUT, ask).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(ClientError::Unreachable { host: host.to_owned(), cause: error.to_string() }),
        Err(_) => Err(ClientError::Timeout {
            what: format!("{word} at {host}"),
            after: TIMEOUT,
            cause: "no answer".to_owned(),
        }),
    }
}

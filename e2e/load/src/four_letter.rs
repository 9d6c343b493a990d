//! Four-letter words: what a member says of itself without a session. Bounded in time and size.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const TIMEOUT: Duration = Duration::from_secs(2);
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// The whole answer to `word`.
pub async fn ask(address: SocketAddr, word: &str) -> Result<String> {
    let talk = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(word.as_bytes()).await?;
        let mut answer = String::new();
        stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = tokio::time::timeout(TIMEOUT, talk).await;
    let answer = answer
        .with_context(|| format!("{address} did not answer `{word}` within {} s", TIMEOUT.as_secs()))?;
    answer.with_context(|| format!("{address} cannot be asked `{word}`"))
}

/// What `srvr` says in its line `Mode:`; `None` while the member serves nobody.
pub async fn mode(address: SocketAddr) -> Option<String> {
    let answer = ask(address, "srvr").await.ok()?;
    answer.lines().find_map(|line| line.strip_prefix("Mode: ")).map(|mode| mode.trim().to_string())
}

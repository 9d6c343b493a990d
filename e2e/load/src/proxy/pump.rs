//! The two directions of one connection through a proxy: each has a reader that stamps what it reads with the time at
//! which it is due, and a writer that passes it on then.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::Instant;

use super::{Behaviour, Link};
use crate::random::Random;

/// Bytes read at a time.
const CHUNK_BYTES_MAX: usize = 16 << 10;
/// Bytes of one direction that were read and are not passed on yet.
const WAITING_BYTES_MAX: usize = 4 << 20;
/// Chunks of one direction, which may be small.
const WAITING_CHUNKS_MAX: usize = 16 << 10;

const _: () = assert!(CHUNK_BYTES_MAX <= WAITING_BYTES_MAX && WAITING_BYTES_MAX <= u32::MAX as usize);

/// Bytes and when they are due; no bytes are the end.
struct Chunk {
    due: Instant,
    bytes: Vec<u8>,
}

/// Ends both sides with a reset when the stream is dropped.
pub fn reset(stream: &TcpStream) {
    // It may be closed already; then there is nothing to reset.
    let _ = stream.set_zero_linger();
}

/// Runs until both directions have ended, or one of them broke or was reset: that ends both sides with a reset.
pub async fn both(dialler: TcpStream, target: TcpStream, link: &Link, number: u64) {
    // Small frames go at once, as between the two without us.
    if dialler.set_nodelay(true).and_then(|()| target.set_nodelay(true)).is_err() {
        return;
    }
    let (mut dialler_read, mut dialler_write) = dialler.into_split();
    let (mut target_read, mut target_write) = target.into_split();
    let ended = {
        let to_target = link.to_target.subscribe();
        let to_target = pump(&mut dialler_read, &mut target_write, to_target, 2 * number);
        let to_dialler = link.to_dialler.subscribe();
        let to_dialler = pump(&mut target_read, &mut dialler_write, to_dialler, 2 * number + 1);
        tokio::try_join!(to_target, to_dialler)
    };
    if ended.is_err() {
        reset(dialler_read.as_ref());
        reset(target_read.as_ref());
        // Dropped, they would say an orderly end first.
        dialler_write.forget();
        target_write.forget();
    }
}

/// One direction, until its end was passed on.
async fn pump(
    source: &mut OwnedReadHalf,
    sink: &mut OwnedWriteHalf,
    behaviour: watch::Receiver<Behaviour>,
    seed: u64,
) -> io::Result<()> {
    let (queue, chunks) = mpsc::channel(WAITING_CHUNKS_MAX);
    let room = Semaphore::new(WAITING_BYTES_MAX);
    let mut watched = behaviour.clone();
    let reader = read(source, queue, behaviour.clone(), &room, Random::from_seed(seed));
    let writer = write(sink, chunks, behaviour, &room);
    tokio::select! {
        // First, so that a reset comes before what the other two could still do.
        biased;
        _ = watched.wait_for(|behaviour| *behaviour == Behaviour::Reset) => {
            Err(io::ErrorKind::ConnectionReset.into())
        }
        ended = async { tokio::try_join!(reader, writer) } => ended.map(drop),
    }
}

/// Waits while the direction stalls; what it does then.
async fn moving(behaviour: &mut watch::Receiver<Behaviour>) -> io::Result<Behaviour> {
    let moving = behaviour.wait_for(|behaviour| *behaviour != Behaviour::Stall).await;
    moving.map(|behaviour| *behaviour).map_err(io::Error::other)
}

async fn read(
    source: &mut OwnedReadHalf,
    queue: mpsc::Sender<Chunk>,
    mut behaviour: watch::Receiver<Behaviour>,
    room: &Semaphore,
    mut random: Random,
) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK_BYTES_MAX];
    let mut due = Instant::now();
    loop {
        moving(&mut behaviour).await?;
        let bytes = tokio::select! {
            // To stall must reach a reader that waits.
            _ = behaviour.changed() => continue,
            bytes = source.read(&mut buffer) => bytes?,
        };
        let now = Instant::now();
        let delay = match *behaviour.borrow() {
            Behaviour::Delay { base, jitter } => delayed(base, jitter, &mut random),
            Behaviour::Pass | Behaviour::Stall | Behaviour::Reset => Duration::ZERO,
        };
        due = due.max(now + delay);
        let taken = room.acquire_many(bytes as u32).await.map_err(io::Error::other)?;
        // The writer gives the room back.
        taken.forget();
        let chunk = Chunk { due, bytes: buffer[..bytes].to_vec() };
        queue.send(chunk).await.map_err(io::Error::other)?;
        if bytes == 0 {
            return Ok(());
        }
    }
}

/// `base`, up to `jitter` more or less.
fn delayed(base: Duration, jitter: Duration, random: &mut Random) -> Duration {
    let spread_us = 2 * jitter.as_micros() as usize + 1;
    (base + Duration::from_micros(random.below(spread_us) as u64)).saturating_sub(jitter)
}

async fn write(
    sink: &mut OwnedWriteHalf,
    mut chunks: mpsc::Receiver<Chunk>,
    mut behaviour: watch::Receiver<Behaviour>,
    room: &Semaphore,
) -> io::Result<()> {
    while let Some(Chunk { due, bytes }) = chunks.recv().await {
        tokio::time::sleep_until(due).await;
        moving(&mut behaviour).await?;
        if bytes.is_empty() {
            return sink.shutdown().await;
        }
        sink.write_all(&bytes).await?;
        room.add_permits(bytes.len());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_stay_within_the_jitter() {
        let (base, jitter) = (Duration::from_millis(20), Duration::from_millis(15));
        let mut random = Random::from_seed(7);
        let all: Vec<Duration> = (0..1000).map(|_| delayed(base, jitter, &mut random)).collect();
        assert!(all.iter().all(|delay| (base - jitter..=base + jitter).contains(delay)));
        assert!(all.iter().any(|delay| *delay < base - jitter / 2));
        assert!(all.iter().any(|delay| *delay > base + jitter / 2));
    }
}

//! What the network of one machine allows: the time of one round trip over a loopback connection.
//!
//! A request cannot be answered faster than this, whatever the server does.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use hdrhistogram::Histogram;

/// About as long as a create of 100 bytes and its reply.
const REQUEST_BYTES: usize = 200;
const REPLY_BYTES: usize = 60;
const MICROSECONDS_MAX: u64 = 60_000_000;

/// The median round trip in microseconds between two threads that block on a connection, for `measure`.
pub fn round_trip_us(measure: Duration) -> Result<u64> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen on loopback")?;
    let address = listener.local_addr()?;
    let server = std::thread::spawn(move || answer(&listener.accept()?.0));
    let measured = ask(&TcpStream::connect(address)?, measure);
    // The connection is closed by now, which ends the other side.
    server.join().map_err(|_| anyhow!("the answering thread panicked"))??;
    measured
}

fn answer(mut stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut request = [0; REQUEST_BYTES];
    while stream.read_exact(&mut request).is_ok() {
        stream.write_all(&[0; REPLY_BYTES])?;
    }
    Ok(())
}

fn ask(mut stream: &TcpStream, measure: Duration) -> Result<u64> {
    stream.set_nodelay(true)?;
    let mut histogram: Histogram<u64> = Histogram::new_with_bounds(1, MICROSECONDS_MAX, 3)?;
    let mut reply = [0; REPLY_BYTES];
    let end = Instant::now() + measure;
    while Instant::now() < end {
        let begin = Instant::now();
        stream.write_all(&[0; REQUEST_BYTES])?;
        stream.read_exact(&mut reply)?;
        histogram.saturating_record(begin.elapsed().as_micros().max(1) as u64);
    }
    Ok(histogram.value_at_quantile(0.5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_takes_some_time_and_both_ends_close() {
        let us = round_trip_us(Duration::from_millis(50)).unwrap();
        assert!((1..1_000_000).contains(&us), "{us}");
    }
}

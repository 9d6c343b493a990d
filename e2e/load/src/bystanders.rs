//! Clients of members that live on while another one dies: they read and write all the time, lightly, and count what
//! fails.
//!
//! A request has failed when it was answered with an error, or when its connection ended before it was answered: what
//! a client library calls a lost connection. What is merely slow has not failed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use crate::bench::session::Session;
use crate::bench::wire;

/// Threads that run until they are told to stop, one a client.
pub struct Bystanders {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<Tally>>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub requests: u64,
    /// Of these.
    pub failed: u64,
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.requests += other.requests;
        self.failed += other.failed;
    }
}

const CLIENTS_PER_MEMBER: usize = 4;
/// Between two requests of a client.
const PAUSE: Duration = Duration::from_millis(5);
/// Between attempts of a client whose connection was refused.
const RECONNECT_PAUSE: Duration = Duration::from_millis(5);
/// A request that is answered by nobody for so long has failed, and so has a return.
const TIMEOUT: Duration = Duration::from_secs(60);

impl Bystanders {
    /// Opens the sessions, so that on return all are under way.
    pub fn start(hosts: &[SocketAddr]) -> Result<Bystanders> {
        let mut bystanders = Bystanders { stop: Arc::default(), threads: Vec::new() };
        for host in hosts {
            for client in 0..CLIENTS_PER_MEMBER {
                let mut session = Session::connect(*host, None, TIMEOUT)?;
                let node = format!("/castellan-bystander-{}-{client}", host.port());
                session.ensure_node(&node)?;
                let client = Client { host: *host, node, session, tally: Tally::default() };
                let stop = bystanders.stop.clone();
                bystanders.threads.push(std::thread::spawn(move || client.run(&stop)));
            }
        }
        Ok(bystanders)
    }

    /// Waits for the last answers.
    pub fn stop(mut self) -> Result<Tally> {
        self.stop.store(true, Ordering::Relaxed);
        let mut sum = Tally::default();
        for thread in self.threads.drain(..) {
            sum.add(thread.join().map_err(|_| anyhow!("a client panicked"))??);
        }
        Ok(sum)
    }
}

impl Drop for Bystanders {
    fn drop(&mut self) {
        // Where the run has failed nobody waits for them.
        self.stop.store(true, Ordering::Relaxed);
    }
}

struct Client {
    host: SocketAddr,
    node: String,
    session: Session,
    tally: Tally,
}

impl Client {
    fn run(mut self, stop: &AtomicBool) -> Result<Tally> {
        while !stop.load(Ordering::Relaxed) {
            let node = self.node.as_bytes();
            let writes = self.tally.requests.is_multiple_of(2);
            let answer = self.session.call(|out, xid| match writes {
                true => wire::set(out, xid, node, b"bystander"),
                false => wire::get(out, xid, node),
            });
            self.tally.requests += 1;
            match answer {
                Ok(0) => {}
                Ok(_error) => self.tally.failed += 1,
                Err(_closed) => {
                    self.tally.failed += 1;
                    self.come_back(stop)?;
                }
            }
            std::thread::sleep(PAUSE);
        }
        Ok(self.tally)
    }

    /// With the same session; a session that has expired meanwhile is an error.
    fn come_back(&mut self, stop: &AtomicBool) -> Result<()> {
        let begin = Instant::now();
        let password = self.session.password.clone();
        while !stop.load(Ordering::Relaxed) {
            let left = TIMEOUT.saturating_sub(begin.elapsed()).max(RECONNECT_PAUSE);
            match Session::connect(self.host, Some((self.session.id, &password)), left) {
                Ok(session) => {
                    self.session = session;
                    return Ok(());
                }
                Err(error) if TIMEOUT <= begin.elapsed() => {
                    return Err(error.context("a client cannot come back"));
                }
                Err(_refused) => std::thread::sleep(RECONNECT_PAUSE),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn frame(stream: &mut TcpStream) -> Option<Vec<u8>> {
        let mut len = [0; 4];
        stream.read_exact(&mut len).ok()?;
        let mut frame = vec![0; u32::from_be_bytes(len) as usize];
        stream.read_exact(&mut frame).ok()?;
        Some(frame)
    }

    fn send(stream: &mut TcpStream, payload: &[u8]) {
        let mut out = (payload.len() as u32).to_be_bytes().to_vec();
        out.extend_from_slice(payload);
        // The client may be gone.
        let _ = stream.write_all(&out);
    }

    fn handshake(stream: &mut TcpStream) -> Option<()> {
        frame(stream)?;
        let mut response = vec![0, 0, 0, 0, 0, 0, 117, 48];
        response.extend_from_slice(&7i64.to_be_bytes());
        response.extend_from_slice(&16i32.to_be_bytes());
        response.extend_from_slice(&[1; 16]);
        send(stream, &response);
        Some(())
    }

    /// Answers `answers` requests well, one with an error, and then closes the connection upon the next.
    fn serve(mut stream: TcpStream, answers: usize) -> Option<()> {
        handshake(&mut stream)?;
        for error in (0..answers).map(|_| 0i32).chain([-4]) {
            let request = frame(&mut stream)?;
            let mut reply = request[..4].to_vec();
            reply.extend_from_slice(&1i64.to_be_bytes());
            reply.extend_from_slice(&error.to_be_bytes());
            send(&mut stream, &reply);
        }
        frame(&mut stream).map(drop)
    }

    #[test]
    fn errors_and_lost_connections_are_failures_and_the_client_comes_back() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap();
        let (accepted, connections) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                // The test may be over.
                let _ = accepted.send(());
                std::thread::spawn(move || serve(stream.unwrap(), 4));
            }
        });
        let bystanders = Bystanders::start(&[host]).unwrap();
        let over = 4;
        for _ in 0..CLIENTS_PER_MEMBER + over {
            connections.recv_timeout(Duration::from_secs(30)).unwrap();
        }
        let tally = bystanders.stop().unwrap();
        // Of each connection that is over one request was answered with an error and one never.
        assert!(tally.failed >= 2 * over as u64, "{tally:?}");
        assert!(tally.requests >= 2 * tally.failed, "{tally:?}");
    }
}

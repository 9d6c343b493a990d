//! A recorded story as text: each step, then what every client heard of it.
//!
//! ```text
//! open CLIENT SESSION TIMEOUT READ-ONLY SEEN     a handshake
//! send CLIENT OPERATION,… BYTES                  in hex, frames with their lengths
//! < CLIENT BYTES                                 one packet from the server
//! < CLIENT end                                   the server closed the connection
//! ```
//! Lines that begin with `#` are for people.

use crate::story::{Asked, Opening, Step, Story};
use keeper_types::OpCode;
use std::fmt::Write as _;

/// What one client heard: a packet, or `None` for the end of its connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    pub client: char,
    pub packet: Option<Vec<u8>>,
}

pub struct Scene {
    pub step: Step,
    pub heard: Vec<Heard>,
}

pub fn write(story: &Story, scenes: &[Scene]) -> String {
    let mut text = format!("# {}\n# Recorded from Apache ZooKeeper 3.9.5.\n", story.about);
    for Scene { step, heard } in scenes {
        let _ = writeln!(text, "\n# {}", describe(step));
        let _ = match step {
            Step::Open(Opening { client, session, timeout_ms, read_only, seen_zxid }) => {
                let session = match session {
                    Asked::New => "new".to_owned(),
                    Asked::Of(other) => format!("of-{other}"),
                    Asked::WrongPasswordOf(other) => format!("wrong-{other}"),
                    Asked::Unknown => "unknown".to_owned(),
                };
                let read_only = read_only.map_or("-".to_owned(), |yes| yes.to_string());
                writeln!(text, "open {client} {session} {timeout_ms} {read_only} {seen_zxid}")
            }
            Step::Send { client, ops, bytes } => {
                let ops: Vec<String> = ops.iter().map(i32::to_string).collect();
                let ops = if ops.is_empty() { "-".to_owned() } else { ops.join(",") };
                writeln!(text, "send {client} {ops} {}", hex(bytes))
            }
        };
        for Heard { client, packet } in heard {
            let packet = packet.as_ref().map_or("end".to_owned(), |bytes| hex(bytes));
            let _ = writeln!(text, "< {client} {packet}");
        }
    }
    text
}

pub fn read(text: &str) -> Vec<Scene> {
    let mut scenes: Vec<Scene> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let fields: Vec<&str> = line.split(' ').collect();
        let step = match fields[..] {
            ["open", client, session, timeout_ms, read_only, seen_zxid] => Step::Open(Opening {
                client: letter(client),
                session: match session.split_once('-') {
                    Some(("of", other)) => Asked::Of(letter(other)),
                    Some(("wrong", other)) => Asked::WrongPasswordOf(letter(other)),
                    _ if session == "unknown" => Asked::Unknown,
                    _ => Asked::New,
                },
                timeout_ms: timeout_ms.parse().expect(line),
                read_only: read_only.parse().ok(),
                seen_zxid: seen_zxid.parse().expect(line),
            }),
            ["send", client, ops, bytes] => {
                let ops = ops.split(',').filter(|op| *op != "-").map(|op| op.parse().expect(line));
                Step::Send { client: letter(client), ops: ops.collect(), bytes: unhex(bytes) }
            }
            ["<", client, packet] => {
                let packet = (packet != "end").then(|| unhex(packet));
                scenes.last_mut().expect(line).heard.push(Heard { client: letter(client), packet });
                continue;
            }
            _ => panic!("{line}"),
        };
        scenes.push(Scene { step, heard: Vec::new() });
    }
    scenes
}

/// For people: the requests as values.
pub fn describe(step: &Step) -> String {
    let Step::Send { client, bytes, .. } = step else { return format!("{step:?}") };
    let mut rest = &bytes[..];
    let mut requests = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        let Some(frame) = after.get(..length) else { break };
        rest = &after[length..];
        let Ok((header, body)) = keeper_wire::decode_header(frame) else { continue };
        let decoded = OpCode::from_i32(header.op).map(|op| keeper_wire::decode_request(op, body));
        requests.push(match decoded {
            Some(Ok(request)) => format!("{request:?}"),
            _ => format!("operation {}", header.op),
        });
    }
    if requests.is_empty() {
        format!("{client}: bytes")
    } else {
        format!("{client}: {}", requests.join("; "))
    }
}

fn letter(text: &str) -> char {
    text.chars().next().expect("a letter")
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2), "{text}");
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect(text)).collect()
}

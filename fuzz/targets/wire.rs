//! What must hold for any bytes a client may send. A fuzzer calls these with bytes of its own; the test
//! `keeper/wire/tests/corpus.rs` calls them with those of `fuzz/corpus`.

use bytes::BytesMut;
use keeper_types::{DialectOptions, OpCode};
use keeper_wire::dialect::{Dialect, DialectError, block};
use keeper_wire::{First, FrameDecoder, FrameError};

/// Small, so that a fuzzer meets it.
const FRAME_BYTES_MAX: usize = 256;

/// A handshake that is read is written again as one that reads the same.
pub fn handshake(data: &[u8]) {
    if let Ok(request) = keeper_wire::decode_connect(data) {
        let mut out = BytesMut::new();
        keeper_wire::encode_connect_request(&request, &mut out);
        assert_eq!(keeper_wire::decode_connect(&out[4..]).as_ref(), Ok(&request));
    }
    if let Ok(response) = keeper_wire::decode_connect_response(data) {
        let mut out = BytesMut::new();
        keeper_wire::encode_connect_response(&response, &mut out);
        assert_eq!(keeper_wire::decode_connect_response(&out[4..]).as_ref(), Ok(&response));
    }
}

/// The first byte chooses the operation, the rest is its body. A request that is read is written again as one that
/// reads the same.
pub fn request(data: &[u8]) {
    let _ = keeper_wire::decode_header(data);
    let Some((choice, body)) = data.split_first() else { return };
    let op = OpCode::ALL[usize::from(*choice) % OpCode::ALL.len()];
    let Ok(request) = keeper_wire::decode_request(op, body) else { return };
    assert_eq!(request.op(), op);
    let mut out = BytesMut::new();
    keeper_wire::encode_request(7, &request, &mut out).expect("a request that fitted a frame fits one again");
    let (header, again) = keeper_wire::decode_header(&out[4..]).expect("a header");
    assert_eq!((header.xid, header.op), (7, op.as_i32()));
    assert_eq!(keeper_wire::decode_request(op, again).as_ref(), Ok(&request));
}

/// The opening of a connection is the same however its bytes arrive.
pub fn first(data: &[u8]) {
    let (pieces, stream) = split(data);
    let decoder = FrameDecoder::new(FRAME_BYTES_MAX);
    let whole = decoder.first(&mut BytesMut::from(stream));
    let mut buffer = BytesMut::new();
    let mut found = Ok(None);
    for piece in pieces.pieces(stream) {
        buffer.extend_from_slice(piece);
        found = decoder.first(&mut buffer);
        if found != Ok(None) {
            break;
        }
    }
    assert_eq!(found, whole);
    match found {
        Ok(Some(First::FourLetterWord(word))) => {
            assert!(stream.starts_with(&word) && word.iter().all(u8::is_ascii_lowercase));
        }
        Ok(Some(First::Handshake(frame))) => assert_eq!(frame, stream[4..4 + frame.len()]),
        Ok(None) | Err(_) => {}
    }
}

/// Frames are the same however their bytes arrive.
pub fn frames(data: &[u8]) {
    let (pieces, stream) = split(data);
    let decoder = FrameDecoder::new(FRAME_BYTES_MAX);
    let whole = all_frames(decoder, [stream].into_iter());
    assert_eq!(all_frames(decoder, pieces.pieces(stream)), whole);
}

fn all_frames<'a>(
    decoder: FrameDecoder,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> (Vec<bytes::Bytes>, Option<FrameError>, usize) {
    let mut buffer = BytesMut::new();
    let mut frames = Vec::new();
    let mut rest = 0;
    let mut failed = None;
    for piece in pieces {
        if failed.is_some() {
            rest += piece.len();
            continue;
        }
        buffer.extend_from_slice(piece);
        loop {
            match decoder.next(&mut buffer) {
                Ok(Some(frame)) => {
                    assert!(frame.len() <= FRAME_BYTES_MAX);
                    frames.push(frame);
                }
                Ok(None) => break,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
    }
    (frames, failed, rest + buffer.len())
}

/// The first byte chooses the dialect and how the stream comes: as it is, in blocks, or as the data of one block whose
/// checksum is right. Requests are the same however their bytes arrive, and what is made of them has room for its header.
pub fn dialect(data: &[u8]) {
    let Some((choice, data)) = data.split_first() else { return };
    let [compressed, long_xids, tracing] = [1, 2, 4].map(|bit| choice & bit > 0);
    let (pieces, bytes) = split(data);
    let mut stream = BytesMut::new();
    match (compressed, choice >> 3 & 3, bytes.split_first()) {
        (true, 1, _) => block::put(bytes, &mut stream),
        (true, 2, Some((len, data))) => block::seal(0x82, usize::from(*len) * 4, data, &mut stream),
        _ => stream.extend_from_slice(bytes),
    }
    let options = DialectOptions { compressed, long_xids, tracing };
    let whole = all_requests(options, [&stream[..]].into_iter());
    assert_eq!(all_requests(options, pieces.pieces(&stream)), whole);
}

fn all_requests<'a>(
    options: DialectOptions,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> (Vec<bytes::Bytes>, Option<DialectError>) {
    let decoder = FrameDecoder::new(FRAME_BYTES_MAX);
    let (mut dialect, mut buffer, mut frames) = (Dialect::new(options), BytesMut::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match dialect.next(&decoder, &mut buffer) {
                Ok(Some(frame)) => {
                    assert!(frame.len() <= FRAME_BYTES_MAX);
                    assert!(!(options.long_xids || options.tracing) || frame.len() >= 4);
                    let mut out = BytesMut::new();
                    // An answer to it, with nothing but the id.
                    dialect.put(
                        &[&4i32.to_be_bytes()[..], frame.get(..4).unwrap_or(&[0; 4])].concat(),
                        &mut out,
                    );
                    assert!(!out.is_empty());
                    frames.push(frame);
                }
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
    }
    (frames, None)
}

/// Up to seven lengths of pieces, in turn; 0 counts as one byte.
struct Pieces<'a>(&'a [u8]);

/// The first byte says how many lengths follow it; the stream comes after them.
fn split(data: &[u8]) -> (Pieces<'_>, &[u8]) {
    let Some((count, rest)) = data.split_first() else { return (Pieces(&[]), &[]) };
    let (lengths, stream) = rest.split_at(rest.len().min(usize::from(count % 8)));
    (Pieces(lengths), stream)
}

impl<'a> Pieces<'a> {
    fn pieces<'s>(&self, stream: &'s [u8]) -> impl Iterator<Item = &'s [u8]> + use<'s, 'a> {
        let lengths = match self.0 {
            [] => &[255][..],
            lengths => lengths,
        };
        let mut rest = stream;
        lengths.iter().cycle().map_while(move |length| {
            if rest.is_empty() {
                return None;
            }
            let (piece, after) = rest.split_at(rest.len().min(usize::from(*length).max(1)));
            rest = after;
            Some(piece)
        })
    }
}

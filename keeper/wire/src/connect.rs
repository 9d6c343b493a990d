//! The handshake: the first frame of each side, with no header around it.

use crate::dialect::version;
use crate::frame::{LENGTH_BYTES, write_frame};
use crate::jute::{Decoded, Reader, put_bool, put_buffer};
use crate::limits::PASSWORD_BYTES_MAX;
use bytes::{BufMut, BytesMut};
use keeper_types::{ConnectRequest, ConnectResponse, DialectOptions};

pub fn decode_connect(bytes: &[u8]) -> Decoded<ConnectRequest> {
    let mut reader = Reader::new(bytes);
    let protocol_version = reader.i32("protocol version")?;
    let request = ConnectRequest {
        protocol_version,
        dialect: dialect(protocol_version, &mut reader)?,
        last_zxid_seen: reader.i64("last zxid seen")?,
        timeout_ms: reader.i32("session timeout")?,
        session_id: reader.i64("session id")?,
        password: password(&mut reader)?,
        read_only: read_only(&mut reader)?,
    };
    reader.end("connect request")?;
    Ok(request)
}

pub fn encode_connect_request(request: &ConnectRequest, out: &mut BytesMut) {
    let start = out.len();
    let written = write_frame(out, |out| {
        out.put_i32(request.protocol_version);
        let dialect = request.dialect.unwrap_or_default();
        if request.protocol_version == version::TRACING {
            put_bool(out, dialect.long_xids);
        }
        if matches!(request.protocol_version, version::LONG_XIDS | version::TRACING) {
            put_bool(out, dialect.compressed);
        }
        out.put_i64(request.last_zxid_seen);
        out.put_i32(request.timeout_ms);
        out.put_i64(request.session_id);
        put_buffer(out, Some(&request.password));
        request.read_only.into_iter().for_each(|read_only| put_bool(out, read_only));
    });
    assert!(written.is_some(), "the password of a connect request has more than 2 GiB");
    let counted = out.len() - start - LENGTH_BYTES - version::uncounted_bytes(request.protocol_version);
    out[start..start + LENGTH_BYTES].copy_from_slice(&(counted as i32).to_be_bytes());
}

pub fn decode_connect_response(bytes: &[u8]) -> Decoded<ConnectResponse> {
    let mut reader = Reader::new(bytes);
    let response = ConnectResponse {
        protocol_version: reader.i32("protocol version")?,
        timeout_ms: reader.i32("session timeout")?,
        session_id: reader.i64("session id")?,
        password: password(&mut reader)?,
        read_only: read_only(&mut reader)?,
    };
    reader.end("connect response")?;
    Ok(response)
}

pub fn encode_connect_response(response: &ConnectResponse, out: &mut BytesMut) {
    let written = write_frame(out, |out| {
        out.put_i32(response.protocol_version);
        out.put_i32(response.timeout_ms);
        out.put_i64(response.session_id);
        put_buffer(out, Some(&response.password));
        response.read_only.into_iter().for_each(|read_only| put_bool(out, read_only));
    });
    assert!(written.is_some(), "the password of a connect response has more than 2 GiB");
}

fn password(reader: &mut Reader<'_>) -> Decoded<Vec<u8>> {
    Ok(reader.buffer_within("password", PASSWORD_BYTES_MAX)?.unwrap_or_default().to_vec())
}

/// The bytes that follow a version of ClickHouse's.
fn dialect(protocol_version: i32, reader: &mut Reader<'_>) -> Decoded<Option<DialectOptions>> {
    Ok(match protocol_version {
        version::COMPRESSION => Some(DialectOptions { compressed: true, long_xids: false, tracing: false }),
        version::LONG_XIDS => {
            Some(DialectOptions { compressed: reader.bool("compression")?, long_xids: true, tracing: false })
        }
        version::TRACING => {
            let long_xids = reader.bool("long transaction ids")?;
            Some(DialectOptions { compressed: reader.bool("compression")?, long_xids, tracing: true })
        }
        _ => None,
    })
}

/// Clients before 3.4 end without this byte.
fn read_only(reader: &mut Reader<'_>) -> Decoded<Option<bool>> {
    if reader.is_empty() { Ok(None) } else { reader.bool("read-only").map(Some) }
}

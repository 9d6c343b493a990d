//! Stage Proposed: the leader's end of the dispatchers' connections. Stamps each batch with its clock and hands it
//! to consensus, in the order it came. One frame is one message:
//!
//! | first byte | direction | rest |
//! |---|---|---|
//! | 1 batch | to the leader | the batch's bytes (docs/formats/entry.md) |
//! | 2 touch | to the leader | 8 bytes a session, little-endian |
//! | 4 reconfig | to the leader | see `reconfig`; the answer is 5, on a connection of its own |
//! | 3 refused | to the origin | nothing; the connection ends, all unapplied batches are to be sent again |

use crate::batch::{Batch, stamp};
use crate::reconfig;
use crate::shared::Shared;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use keeper_consensus::{Consensus, DispatchConn, Proposed};
use keeper_types::SessionId;
use std::sync::Arc;
use tokio::sync::mpsc;

const BATCH: u8 = 1;
const TOUCH: u8 = 2;
const REFUSED: u8 = 3;

pub fn batch_frame(batch: &Bytes) -> Bytes {
    let mut frame = BytesMut::with_capacity(batch.len() + 1);
    frame.put_u8(BATCH);
    frame.put_slice(batch);
    frame.freeze()
}

pub fn touch_frame(sessions: &[SessionId]) -> Bytes {
    let mut frame = BytesMut::with_capacity(sessions.len() * 8 + 1);
    frame.put_u8(TOUCH);
    sessions.iter().for_each(|session| frame.put_i64_le(session.0));
    frame.freeze()
}

/// Serves every dispatcher that connects, until the member stops.
pub async fn serve(shared: Arc<Shared>, consensus: Consensus, mut incoming: mpsc::Receiver<DispatchConn>) {
    while let Some(dispatch) = incoming.recv().await {
        keeper_rt::spawn("dispatch-serve", serve_origin(shared.clone(), consensus.clone(), dispatch));
    }
}

async fn serve_origin(shared: Arc<Shared>, consensus: Consensus, dispatch: DispatchConn) {
    let DispatchConn { from, mut conn } = dispatch;
    let mut proposed: FuturesOrdered<Proposed> = FuturesOrdered::new();
    loop {
        let frame = tokio::select! {
            biased;
            Some(outcome) = proposed.next(), if !proposed.is_empty() => {
                if outcome.is_err() {
                    break;
                }
                continue;
            }
            frame = conn.receiver.recv() => frame,
        };
        let Some(frame) = frame else { return };
        match frame.first() {
            Some(&BATCH) => {
                let batch = frame.slice(1..);
                let honest = Batch::decode(&batch).is_ok_and(|batch| batch.id.origin == from);
                if !honest {
                    tracing::warn!(%from, "a dispatcher sent a batch that is not its own; closing its connection");
                    return;
                }
                drop(frame);
                let Ok(batch) = stamp(batch, keeper_rt::wall_ms()) else { return };
                match consensus.propose(batch).await {
                    Ok(proposal) => proposed.push_back(proposal),
                    Err(_) => break,
                }
            }
            Some(&TOUCH) => {
                let ids = frame[1..].as_chunks::<8>().0.iter().map(|id| SessionId(i64::from_le_bytes(*id)));
                shared.expiry.touch(ids);
            }
            Some(&reconfig::RECONFIG) => {
                let answer = reconfig::answer(&consensus, &frame[1..]).await;
                if conn.sender.send(answer).await.is_err() {
                    return;
                }
            }
            _ => {
                tracing::warn!(%from, "a dispatcher sent an unknown message; closing its connection");
                return;
            }
        }
    }
    let _ = conn.sender.send(Bytes::from_static(&[REFUSED])).await;
}

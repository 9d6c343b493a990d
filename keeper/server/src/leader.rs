//! Stage Proposed: the leader's end of the dispatchers' connections. Stamps each batch with its clock and hands it
//! to consensus, in the order it came. One frame is one message:
//!
//! | first byte | direction | rest |
//! |---|---|---|
//! | 1 batch | to the leader | the batch's bytes (docs/formats/entry.md) |
//! | 2 touch | to the leader | 12 bytes a session, little-endian: its id, and the age of its sign of life in ms (4) |
//! | 3 refused | to the origin | nothing; the connection ends, all unapplied batches are to be sent again |
//! | 4 wish | to the leader | nothing; the sender would like to lead. On a connection of its own |
//! | 5 granted | to the origin | nothing; leadership is being handed over |
//! | 6 reconfig | to the leader | see `reconfig`; on a connection of its own |
//! | 7 reconfigured | to the origin | see `reconfig` |

use crate::batch::{Batch, stamp};
use crate::expiry::Touch;
use crate::reconfig;
use crate::shared::Shared;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use keeper_consensus::{Consensus, DispatchConn, Precondition, Proposed, Role};
use keeper_types::{ServerId, SessionId};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

const BATCH: u8 = 1;
const TOUCH: u8 = 2;
const REFUSED: u8 = 3;
const WISH: u8 = 4;
const GRANTED: u8 = 5;
const TOUCH_BYTES: usize = 12;

pub fn batch_frame(batch: &Bytes) -> Bytes {
    let mut frame = BytesMut::with_capacity(batch.len() + 1);
    frame.put_u8(BATCH);
    frame.put_slice(batch);
    frame.freeze()
}

pub fn touch_frame(touches: &[Touch]) -> Bytes {
    let mut frame = BytesMut::with_capacity(touches.len() * TOUCH_BYTES + 1);
    frame.put_u8(TOUCH);
    for touch in touches {
        frame.put_i64_le(touch.session.0);
        frame.put_u32_le(u32::try_from(touch.age.as_millis()).unwrap_or(u32::MAX));
    }
    frame.freeze()
}

fn touches(body: &[u8]) -> impl Iterator<Item = Touch> {
    body.as_chunks::<TOUCH_BYTES>().0.iter().map(|touch| {
        let mut touch = &touch[..];
        let session = SessionId(touch.get_i64_le());
        Touch { session, age: Duration::from_millis(touch.get_u32_le().into()) }
    })
}

/// Asks `leader` to hand leadership to this member. True when it has begun to. Dropping it changes nothing.
pub async fn ask_for_leadership(consensus: &Consensus, leader: ServerId) -> bool {
    let mut conn = match consensus.dial_dispatch(leader).await {
        Ok(conn) => conn,
        Err(error) => {
            tracing::warn!(%leader, ?error, "cannot ask for leadership");
            return false;
        }
    };
    if conn.sender.send(Bytes::from_static(&[WISH])).await.is_err() {
        return false;
    }
    // Nothing comes from a leader that does not know the message: it closes the connection.
    conn.receiver.recv().await.is_some_and(|frame| frame.first() == Some(&GRANTED))
}

/// Hands leadership to a member that asked for it, beside everything else.
fn hand_over(consensus: &Consensus, to: ServerId) {
    let consensus = consensus.clone();
    keeper_rt::spawn("hand-over", async move {
        match consensus.transfer_leadership(to, Precondition::default()).await {
            Ok(_) => tracing::info!(%to, "leadership handed over on its wish"),
            Err(error) => tracing::warn!(%to, %error, "leadership not handed over on its wish"),
        }
    });
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
                let bytes = batch.len() as u64;
                match consensus.propose(batch).await {
                    Ok(proposal) => {
                        shared.stats.proposal_bytes.add(bytes, 1);
                        proposed.push_back(proposal);
                    }
                    Err(_) => break,
                }
            }
            Some(&TOUCH) => {
                shared.expiry.touch(touches(&frame[1..]));
            }
            Some(&reconfig::RECONFIG) => {
                let answer = reconfig::answer(&shared, &consensus, &frame[1..]).await;
                if conn.sender.send(answer).await.is_err() {
                    return;
                }
            }
            Some(&WISH) if consensus.status().role == Role::Leader => {
                hand_over(&consensus, from);
                let _ = conn.sender.send(Bytes::from_static(&[GRANTED])).await;
            }
            Some(&WISH) => break,
            _ => {
                tracing::warn!(%from, "a dispatcher sent an unknown message; closing its connection");
                return;
            }
        }
    }
    let _ = conn.sender.send(Bytes::from_static(&[REFUSED])).await;
}

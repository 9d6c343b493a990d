//! A pause for tasks that run on threads of their own, where no timers are: a small task on the opener's runtime
//! sleeps for them. Used on a full disk only.

use std::time::Duration;
use tokio::sync::mpsc;

pub struct Timer {
    asks: mpsc::Sender<Duration>,
    ticks: mpsc::Receiver<()>,
    is_running: bool,
}

impl Timer {
    pub fn spawn() -> Timer {
        let (asks, mut asked) = mpsc::channel::<Duration>(1);
        let (tick, ticks) = mpsc::channel(1);
        // It ends when the `Timer` is dropped, which closes both channels.
        drop(keeper_rt::spawn("log-timer", async move {
            while let Some(pause) = asked.recv().await {
                keeper_rt::sleep(pause).await;
                if tick.send(()).await.is_err() {
                    return;
                }
            }
        }));
        Timer { asks, ticks, is_running: false }
    }

    /// Starts a pause, unless one is running.
    pub fn start(&mut self, pause: Duration) {
        if !self.is_running {
            self.is_running = self.asks.try_send(pause).is_ok();
        }
    }

    /// Completes when the running pause is over; never, if none is. May be dropped and called again.
    pub async fn tick(&mut self) {
        if !self.is_running || self.ticks.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
        self.is_running = false;
    }
}

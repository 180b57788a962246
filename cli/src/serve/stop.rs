//! The word to stop: SIGTERM or SIGINT.

use anyhow::Context;
use anyhow::Result;
use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;
use tokio::sync::watch;

/// Tells everybody who waits that the server is to stop.
#[derive(Debug, Clone)]
pub(crate) struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Stops at the first signal; a second one ends the process at once.
    pub(crate) fn on_signals() -> Result<Self> {
        let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
        let (tell, told) = watch::channel(false);
        tokio::spawn(async move {
            for round in 0..2 {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                if round == 0 {
                    tell.send(true).ok();
                }
            }
            // What a shell shows for a process that SIGINT ended.
            std::process::exit(130);
        });
        Ok(Self(told))
    }

    /// Ends when the server is to stop.
    pub(crate) async fn wait(mut self) {
        // An error says that nobody is left to tell: stop as well.
        self.0.wait_for(|stop| *stop).await.ok();
    }
}

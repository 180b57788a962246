//! The orderly end: who asks for it, and who waits for the request.

use tokio::sync::watch;

/// What is to happen to the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// Start again through the firmware.
    Reboot,
    /// Switch off.
    PowerOff,
    /// Nothing: it runs on without us, for somebody who logs in.
    Stay,
    /// It runs on, off the network, and nobody is served any more.
    Lockdown,
}

/// Carries the wish for an end from any part of the agent to its main loop,
/// which acts a moment later, so that the answer to the command still leaves.
/// As PID 1 the machine follows; any other process of ours only ends itself,
/// the machine it runs on is not ours.
#[derive(Debug, Clone)]
pub struct Shutdown(watch::Sender<Option<Goal>>);

impl Default for Shutdown {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl Shutdown {
    /// Asks for the end. The first wish wins.
    pub fn request(&self, goal: Goal) {
        self.0.send_if_modified(|current| {
            let first = current.is_none();
            if first {
                *current = Some(goal);
            }
            first
        });
    }

    /// What was asked for so far.
    pub fn requested(&self) -> Option<Goal> {
        *self.0.borrow()
    }

    /// Waits for the request.
    pub async fn wait(&self) -> Goal {
        let mut receiver = self.0.subscribe();
        loop {
            if let Some(goal) = *receiver.borrow_and_update() {
                return goal;
            }
            // The sender is `self`, which outlives this call.
            receiver.changed().await.ok();
        }
    }
}

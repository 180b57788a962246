//! Ending a benchmark early: Ctrl-C must neither wait for the programs that
//! are being measured nor leave them running.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use anyhow::Result;
use anyhow::bail;
use nix::sys::signal::Signal;
use nix::sys::signal::killpg;
use nix::unistd::Pid;

/// Shared by the benchmark's threads and whoever may end it.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    stopped: bool,
    /// Leaders of the process groups that run now.
    running: BTreeSet<Pid>,
}

impl Stop {
    /// Kills what runs and lets nothing start any more.
    pub fn stop(&self) {
        let mut state = self.lock();
        state.stopped = true;
        for leader in &state.running {
            killpg(*leader, Signal::SIGKILL).ok();
        }
    }

    /// An error once stopped.
    pub fn check(&self) -> Result<()> {
        if self.lock().stopped {
            bail!("interrupted");
        }
        Ok(())
    }

    /// Stops when dropped.
    pub fn guard(&self) -> Guard {
        Guard(self.clone())
    }

    /// Notes a process group that just started.
    pub(super) fn started(&self, leader: Pid) {
        let mut state = self.lock();
        state.running.insert(leader);
        if state.stopped {
            killpg(leader, Signal::SIGKILL).ok();
        }
    }

    /// Forgets a group whose leader has ended and is not reaped yet.
    pub(super) fn ended(&self, leader: Pid) {
        let mut state = self.lock();
        state.running.remove(&leader);
        // The rest of a pipeline.
        if state.stopped {
            killpg(leader, Signal::SIGKILL).ok();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See [`Stop::guard`].
#[derive(Debug)]
pub struct Guard(Stop);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.stop();
    }
}

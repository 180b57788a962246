//! Starts commands one at a time and keeps their results.

mod entry;

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;

use tokio::sync::watch;
use tracing::error;
use tracing::info;
use uuid::Uuid;
use wrought_wire::command::CommandResult;

use crate::command::Agent;
use crate::command::Args;
use crate::command::CommandFailure;
use crate::command::Context;
use crate::command::Mode;
use crate::command::Outcome;
use crate::command::Registry;
use entry::Entry;

/// Results that are kept; the oldest are dropped beyond it.
const KEPT: usize = 512;
/// Pause between two progress lines in the log.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// Why a command was not started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// Not of the form `extension.command`.
    #[error("Invalid command: Command name must be of the form <extension>.<name>")]
    Name,
    /// No such extension.
    #[error("Not found: Extension with id {0} not found.")]
    Extension(String),
    /// No such command in the extension.
    #[error("Invalid command: Unknown command: {0}")]
    Command(String),
    /// The parameters cannot be right.
    #[error("Invalid command parameters: {0}")]
    Args(String),
    /// Another command runs.
    #[error("Agent is busy: executing command {0}")]
    Busy(String),
    /// The sender's lock on the node is older than one seen already.
    #[error(
        "Stale lock epoch: the command carries epoch {found}, epoch {seen} was seen already; another conductor has taken the node over"
    )]
    Epoch {
        /// Epoch of the request.
        found: u64,
        /// Highest epoch seen.
        seen: u64,
    },
}

impl Rejected {
    /// The HTTP status that goes with it.
    pub fn status(&self) -> u16 {
        match self {
            Self::Name | Self::Command(_) | Self::Args(_) => 400,
            Self::Extension(_) => 404,
            Self::Busy(_) | Self::Epoch { .. } => 409,
        }
    }
}

#[derive(Debug, Default)]
struct Inner {
    entries: Vec<Entry>,
    epoch: u64,
}

/// Runs commands; one per agent.
#[derive(Debug)]
pub struct Runner {
    registry: Registry,
    agent: Arc<Agent>,
    inner: Mutex<Inner>,
    finished: watch::Sender<u64>,
}

impl Runner {
    /// A runner for these commands.
    pub fn new(agent: Arc<Agent>, registry: Registry) -> Self {
        let finished = watch::Sender::new(0);
        Self {
            registry,
            agent,
            inner: Mutex::default(),
            finished,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts asynchronous commands that have ended; each of them calls for a
    /// heartbeat.
    pub fn finished(&self) -> watch::Receiver<u64> {
        self.finished.subscribe()
    }

    /// Notes the lock epoch of a request and refuses one that is behind.
    pub fn note_epoch(&self, found: u64) -> Result<(), Rejected> {
        let mut inner = self.lock();
        if found < inner.epoch {
            return Err(Rejected::Epoch {
                found,
                seen: inner.epoch,
            });
        }
        inner.epoch = found;
        Ok(())
    }

    /// Starts a command. A synchronous one is run to its end; an asynchronous
    /// one too if `wait` is set, else the answer says that it runs.
    pub async fn execute(
        self: &Arc<Self>,
        name: &str,
        args: Args,
        wait: bool,
    ) -> Result<CommandResult, Rejected> {
        let (extension, bare) = name.split_once('.').ok_or(Rejected::Name)?;
        if !self.registry.has_extension(extension) {
            return Err(Rejected::Extension(extension.to_owned()));
        }
        let command = self
            .registry
            .get(name)
            .ok_or_else(|| Rejected::Command(bare.to_owned()))?
            .clone();
        command.check(&args).map_err(Rejected::Args)?;

        let entry = self.admit(name, command.mode, step_name(&args))?;
        info!("command {name} starts");
        let context = Context {
            agent: Arc::clone(&self.agent),
            progress: entry.progress.clone(),
            cancel: entry.cancel.clone(),
        };
        let work = tokio::spawn(command.start(context, args));
        let runner = Arc::clone(self);
        let running = entry.clone();
        // A task of its own: the caller may go away, the command goes on.
        tokio::spawn(async move {
            let outcome = follow(&running, work).await;
            runner.finish(&running, outcome);
        });
        if wait || command.mode == Mode::Sync {
            entry.wait().await;
        }
        Ok(entry.to_wire())
    }

    /// Takes the one place, if it is free.
    fn admit(&self, name: &str, mode: Mode, step: Option<Arc<str>>) -> Result<Entry, Rejected> {
        let mut inner = self.lock();
        if let Some(last) = inner.entries.last() {
            if last.is_running() {
                return Err(Rejected::Busy(last.bare_name().to_owned()));
            }
            last.release_large_result();
        }
        if inner.entries.len() >= KEPT {
            inner.entries.remove(0);
        }
        let entry = Entry::new(name, mode, step);
        inner.entries.push(entry.clone());
        Ok(entry)
    }

    fn finish(&self, entry: &Entry, outcome: Outcome) {
        let seconds = entry.started.elapsed().as_secs_f64();
        match &outcome {
            Ok(_) => info!("command {} succeeded after {seconds:.1} s", entry.full_name),
            Err(failure) => {
                error!(
                    "command {} failed after {seconds:.1} s: {failure}",
                    entry.full_name
                );
            }
        }
        entry.finish(outcome);
        if entry.mode == Mode::Async {
            self.finished.send_modify(|count| *count += 1);
        }
    }

    /// All results, oldest first.
    pub fn list(&self) -> Vec<CommandResult> {
        self.lock().entries.iter().map(Entry::to_wire).collect()
    }

    /// One result; with `wait`, only once the command has ended.
    pub async fn result(&self, id: Uuid, wait: bool) -> Option<CommandResult> {
        let entry = self
            .lock()
            .entries
            .iter()
            .find(|entry| entry.id == id)
            .cloned()?;
        if wait {
            entry.wait().await;
        }
        Some(entry.to_wire())
    }

    /// One result, once the command has ended or `limit` has passed.
    pub async fn result_within(&self, id: Uuid, limit: Duration) -> Option<CommandResult> {
        match tokio::time::timeout(limit, self.result(id, true)).await {
            Ok(result) => result,
            Err(_) => self.result(id, false).await,
        }
    }

    /// Waits until the latest command has ended, at most for `limit`.
    pub async fn wait_latest(&self, limit: Duration) {
        let latest = self.lock().entries.last().cloned();
        if let Some(entry) = latest {
            tokio::time::timeout(limit, entry.wait()).await.ok();
        }
    }

    /// What runs now: a step's name, or else the command's.
    pub fn current(&self) -> Option<String> {
        let inner = self.lock();
        let last = inner.entries.last().filter(|last| last.is_running())?;
        Some(last.step.as_ref().unwrap_or(&last.full_name).to_string())
    }

    /// Asks the running command to stop.
    pub fn cancel(&self) {
        if let Some(last) = self.lock().entries.last() {
            last.cancel.cancel();
        }
    }
}

/// The step in a command's parameters, `interface.step`.
fn step_name(args: &Args) -> Option<Arc<str>> {
    let step = args.get("step")?;
    let name = step.get("step")?.as_str()?;
    let interface = step.get("interface").and_then(|i| i.as_str());
    Some(format!("{}.{name}", interface.unwrap_or("deploy")).into())
}

/// Waits for the command and writes its progress to the log meanwhile.
async fn follow(entry: &Entry, mut work: tokio::task::JoinHandle<Outcome>) -> Outcome {
    loop {
        match tokio::time::timeout(PROGRESS_EVERY, &mut work).await {
            Ok(joined) => {
                return joined.unwrap_or_else(|error| {
                    let text = format!("the command ended without a result: {error}");
                    Err(CommandFailure::execution(text))
                });
            }
            Err(_) => info!("command {} {}", entry.full_name, entry.describe_progress()),
        }
    }
}

#[cfg(test)]
mod tests;

//! One command and where it stands.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Instant;

use serde_json::Value;
use serde_json::json;
use tokio::sync::watch;
use uuid::Uuid;
use wrought_wire::command::CommandResult;
use wrought_wire::command::CommandStatus;

use crate::command::CancelToken;
use crate::command::Mode;
use crate::command::Outcome;
use crate::command::ProgressSink;

/// A result larger than this (as JSON text) is dropped when the next command
/// starts, so that a long life does not gather megabytes of old logs.
const LARGE_RESULT: usize = 64 * 1024;

/// A started command; clones share its state.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) id: Uuid,
    pub(super) full_name: Arc<str>,
    /// The step that it runs, `interface.step`, if it runs one.
    pub(super) step: Option<Arc<str>>,
    pub(super) mode: Mode,
    pub(super) started: Instant,
    pub(super) progress: ProgressSink,
    pub(super) cancel: CancelToken,
    outcome: Arc<Mutex<Option<Outcome>>>,
    done: Arc<watch::Sender<bool>>,
}

impl Entry {
    pub(super) fn new(full_name: &str, mode: Mode, step: Option<Arc<str>>) -> Self {
        Self {
            id: Uuid::new_v4(),
            full_name: full_name.into(),
            step,
            mode,
            started: Instant::now(),
            progress: ProgressSink::default(),
            cancel: CancelToken::default(),
            outcome: Arc::default(),
            done: Arc::new(watch::Sender::new(false)),
        }
    }

    pub(super) fn bare_name(&self) -> &str {
        self.full_name
            .split_once('.')
            .map_or(&self.full_name, |(_, bare)| bare)
    }

    pub(super) fn is_running(&self) -> bool {
        !*self.done.borrow()
    }

    pub(super) async fn wait(&self) {
        // The sender is held by `self`, so that this cannot fail.
        self.done.subscribe().wait_for(|done| *done).await.ok();
    }

    /// Stores the outcome, shaped for the wire, and wakes those who wait.
    pub(super) fn finish(&self, outcome: Outcome) {
        let outcome = outcome.map(|value| match (value, self.mode) {
            (Value::String(text), Mode::Async) => {
                json!({ "result": format!("{}: {text}", self.bare_name()) })
            }
            (Value::String(text), Mode::Sync) => json!({ "result": text }),
            (value, _) => value,
        });
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        self.done.send_replace(true);
    }

    pub(super) fn release_large_result(&self) {
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Ok(value)) = outcome.as_mut()
            && value.to_string().len() > LARGE_RESULT
        {
            *value = Value::Null;
        }
    }

    pub(super) fn to_wire(&self) -> CommandResult {
        let outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        // A synchronous command that failed goes by its full name, as in
        // ironic-python-agent.
        let full = self.mode == Mode::Sync && matches!(*outcome, Some(Err(_)));
        let name = if full {
            &*self.full_name
        } else {
            self.bare_name()
        };
        let (command_status, command_error, command_result) = match &*outcome {
            None => {
                let progress = self
                    .progress
                    .get()
                    .map(|progress| json!({ "progress": progress }));
                (CommandStatus::Running, None, progress)
            }
            Some(Ok(Value::Null)) => (CommandStatus::Succeeded, None, None),
            Some(Ok(value)) => (CommandStatus::Succeeded, None, Some(value.clone())),
            Some(Err(failure)) => (failure.status, Some(failure.error.clone()), None),
        };
        CommandResult {
            id: self.id,
            command_name: name.to_owned(),
            command_status,
            command_error,
            command_result,
        }
    }

    /// A line for the log.
    pub(super) fn describe_progress(&self) -> String {
        let seconds = self.started.elapsed().as_secs();
        let Some(progress) = self.progress.get() else {
            return format!("runs, {seconds} s");
        };
        let mib = |bytes: u64| bytes >> 20;
        let mut text = format!("{}: {} MiB in", progress.stage, mib(progress.bytes_in));
        if let Some(total) = progress.bytes_total {
            text.push_str(&format!(" of {}", mib(total)));
        }
        if let Some(percent) = progress.percent {
            text.push_str(&format!(" ({percent} %)"));
        }
        let (out, rate) = (mib(progress.bytes_out), mib(progress.rate));
        text.push_str(&format!(", {out} MiB out, {rate} MiB/s, {seconds} s"));
        text
    }
}

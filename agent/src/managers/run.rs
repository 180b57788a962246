//! A step of a manager: `MANAGER run`, one JSON object in, JSON lines out.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use serde_json::json;
use wrought_plugin::Bounds;
use wrought_plugin::CONTRACT;
use wrought_plugin::ended;
use wrought_plugin::plain;
use wrought_wire::progress::Progress;

use super::Manager;
use super::ManagerStep;
use crate::command::Context;
use crate::tools::Limits;
use crate::tools::Next;
use crate::tools::Trouble;
use crate::tools::run_lines;

/// Bytes of one line, and of all that a manager prints in a step.
const BOUNDS: Bounds = Bounds {
    line: 64 << 10,
    total: 4 << 20,
};

/// What a step is run with.
pub(crate) struct Work<'a> {
    /// `clean`, `deploy` or `service`.
    pub(crate) kind: &'a str,
    /// Its arguments.
    pub(crate) args: &'a Value,
    /// The node, as the command brought it.
    pub(crate) node: &'a Value,
    /// Its ports.
    pub(crate) ports: &'a Value,
}

/// A step that ended well.
#[derive(Debug, Default)]
pub(crate) struct Ran {
    /// What it gives back.
    pub(crate) result: Value,
    /// Whether the machine is to restart before the next step.
    pub(crate) reboot: bool,
}

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ManagerError {
    /// It was not seen through to its end.
    #[error("hardware manager {name}")]
    Trouble {
        /// The manager.
        name: String,
        /// What happened.
        source: Trouble,
    },
    /// It says that it failed, or ended in another way than the contract has.
    #[error("hardware manager {name}: {story}")]
    Failed {
        /// The manager.
        name: String,
        /// Its words, or what was wrong with them.
        story: String,
    },
}

/// A line of a manager.
#[derive(Debug, Deserialize)]
struct Line {
    /// Makes it the last one.
    status: Option<Status>,
    /// How far it is, in percent; or an object for people, which is logged.
    progress: Option<Value>,
    /// For people.
    message: Option<String>,
    #[serde(default)]
    reboot: bool,
    /// What the step gives back.
    #[serde(default)]
    result: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Done,
    Failed,
}

/// Runs a step to its end.
pub(crate) fn run(
    context: &Context,
    manager: &Manager,
    step: &ManagerStep,
    work: &Work<'_>,
) -> Result<Ran, ManagerError> {
    let input = json!({
        "contract": CONTRACT,
        "kind": work.kind,
        "step": {"interface": step.interface, "step": step.step},
        "args": work.args,
        "node": work.node,
        "ports": work.ports,
    });
    let mut input = input.to_string().into_bytes();
    input.push(b'\n');
    let limits = Limits {
        time: Duration::from_secs(step.timeout),
        output: BOUNDS,
    };
    let stage = format!("{}.{}", step.interface, step.step);
    context.progress.stage(&stage);
    let mut last: Option<Line> = None;
    let mut odd = String::new();
    let mut on_line = |line: &[u8]| match serde_json::from_slice::<Line>(line) {
        Ok(line) if line.status.is_some() => {
            last = Some(line);
            Next::End
        }
        Ok(line) => {
            if let Some(percent) = line.progress.as_ref().and_then(percent) {
                context.progress.set(Progress {
                    stage: stage.clone(),
                    percent: Some(percent),
                    ..Progress::default()
                });
            }
            if let Some(message) = line.message {
                let message = plain(message.as_bytes());
                tracing::info!("hardware manager {}: {message}", manager.name);
            }
            Next::More
        }
        // What its own programs print is no reason to fail.
        Err(_) => {
            odd = plain(line);
            Next::More
        }
    };
    let arguments = ["run".to_owned()];
    let end = run_lines(
        &manager.path,
        &arguments,
        Some(input),
        limits,
        &context.cancel,
        None,
        &mut on_line,
    );
    let end = end.map_err(|source| ManagerError::Trouble {
        name: manager.name.clone(),
        source,
    })?;
    let failed = |story: String| {
        Err(ManagerError::Failed {
            name: manager.name.clone(),
            story,
        })
    };
    let ended = format!("it {}", ended(end.status, &end.errors));
    let message = |line: &Line| {
        let message = line.message.as_deref();
        message.map(|message| plain(message.as_bytes()))
    };
    match last {
        Some(line) if !end.status.success() => failed(match message(&line) {
            Some(message) => format!("{message} ({ended})"),
            None => ended,
        }),
        Some(line) if line.status == Some(Status::Failed) => {
            failed(message(&line).unwrap_or_else(|| "it does not say why it failed".to_owned()))
        }
        Some(line) => Ok(Ran {
            reboot: line.reboot,
            result: match (line.result.is_null(), message(&line)) {
                (true, Some(message)) => message.into(),
                _ => line.result,
            },
        }),
        None => {
            let mut story = match end.status.success() {
                true => "it ended without a last line that has a status".to_owned(),
                false => ended,
            };
            if !odd.is_empty() {
                story.push_str(&format!("; it printed: {odd}"));
            }
            failed(story)
        }
    }
}

fn percent(progress: &Value) -> Option<u8> {
    let percent = progress.as_f64()?.clamp(0.0, 100.0);
    // Between 0 and 100.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped just before"
    )]
    let percent = percent as u8;
    Some(percent)
}

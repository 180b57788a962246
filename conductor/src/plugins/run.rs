//! A step of a plug-in: `PLUGIN run`, one JSON object in, JSON lines out.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use serde_json::json;
use tokio::time::Instant;
use wrought_plugin::Bounds;
use wrought_plugin::CONTRACT;
use wrought_plugin::plain;
use wrought_store::node::Node;
use wrought_wire::step::Step;

use crate::agent::view;
use crate::error::Error;
use crate::internal;
use crate::plugins::Plugin;
use crate::plugins::process::Running;
use crate::plugins::redact::redact;
use crate::steps::Awaited;
use crate::steps::Outcome;
use crate::steps::Then;
use crate::steps::Wait;
use crate::steps::name;
use crate::task::Task;

/// Bytes of one line, and of all that a plug-in prints.
const BOUNDS: Bounds = Bounds {
    line: 64 << 10,
    total: 4 << 20,
};
/// Bytes of a progress report or a state that are kept in the node.
const KEPT: usize = 16 << 10;
/// Progress is written no more often.
const EVERY: Duration = Duration::from_secs(1);
/// Seconds between two polls, at least and at most.
const POLLS: (u64, u64) = (1, 3600);

/// A line of a plug-in.
#[derive(Debug, Deserialize)]
struct Line {
    /// Makes it the last one.
    status: Option<Status>,
    /// How far it is: a percentage or an object.
    progress: Option<Value>,
    /// For people.
    message: Option<String>,
    /// Whether the machine is to restart before the next step.
    #[serde(default)]
    reboot: bool,
    /// Seconds until it is asked again.
    seconds: Option<u64>,
    /// What it is given then.
    state: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Done,
    Failed,
    Wait,
}

/// Runs the step, or asks it how far it is (`poll`).
pub(crate) async fn run(
    task: &mut Task,
    plugin: &Plugin,
    kind: &str,
    step: &Step,
    poll: bool,
) -> Result<Outcome, Error> {
    task.confirm().await?;
    let input = input(&task.node, plugin, kind, step, poll);
    let ended = talk(task, plugin, input).await?;
    let failed = |words: &str| {
        Error::Step(format!(
            "{kind} step {} of plug-in {} on node {} failed: {}",
            name(step),
            plugin.name,
            task.node.uuid,
            clean(&task.node, plugin, words)
        ))
    };
    let last = ended.map_err(|words| failed(&words))?;
    let message = last.message.as_deref().map(|text| plain(text.as_bytes()));
    match last.status {
        Some(Status::Done) if last.reboot => Ok(Outcome::Restart),
        Some(Status::Done) => Ok(Outcome::Done),
        Some(Status::Wait) => {
            let state = last.state.unwrap_or(Value::Null);
            if size(&state) > KEPT {
                return Err(failed(&format!("its state has more than {KEPT} bytes")));
            }
            let (least, most) = POLLS;
            let pause = Duration::from_secs(last.seconds.unwrap_or(10).clamp(least, most));
            let now = Timestamp::now();
            let at = now.checked_add(pause).unwrap_or(now);
            internal::set(&mut task.node, internal::STEP_STATE, state);
            let what = Awaited::Poll { at };
            let then = Then::Next;
            Ok(Outcome::Wait(Wait { what, then }))
        }
        Some(Status::Failed) => Err(failed(message.as_deref().unwrap_or("it does not say why"))),
        None => Err(failed("it ended without a last line that has a status")),
    }
}

/// A plug-in's words without the secrets that it was given.
fn clean(node: &Node, plugin: &Plugin, words: &str) -> String {
    match plugin.wants_driver_info {
        true => redact(words, &node.driver_info),
        false => words.to_owned(),
    }
}

/// What a plug-in is given. Secrets only where it has asked for them.
fn input(node: &Node, plugin: &Plugin, kind: &str, step: &Step, poll: bool) -> Vec<u8> {
    let mut shown = view::node(node);
    if let Some(map) = shown.as_object_mut() {
        map.remove("driver_info");
        map.remove("driver_internal_info");
        if plugin.wants_driver_info {
            map.insert("driver_info".to_owned(), json!(node.driver_info));
        }
    }
    let state: Option<Value> = internal::read(node, internal::STEP_STATE);
    let input = json!({
        "contract": CONTRACT,
        "kind": kind,
        "step": {"interface": step.interface, "step": step.step},
        "args": step.args,
        "attempt": internal::count(node, internal::ATTEMPT).max(1),
        "poll": poll,
        "state": if poll { state } else { None },
        "node": shown,
    });
    let mut line = input.to_string().into_bytes();
    line.push(b'\n');
    line
}

fn size(value: &Value) -> usize {
    value.to_string().len()
}

/// Talks with the process to its end. The inner error is the plug-in's, in its
/// words.
async fn talk(
    task: &mut Task,
    plugin: &Plugin,
    input: Vec<u8>,
) -> Result<Result<Line, String>, Error> {
    let svc = Arc::clone(&task.svc);
    let guard = svc.plugins.guard();
    let started = Running::start(&plugin.path, "run", Some(input), BOUNDS, guard).await;
    let mut running = match started {
        Ok(running) => running,
        Err(problem) => return Ok(Err(problem)),
    };
    let mut told: Option<Instant> = None;
    let mut odd = None;
    let last = loop {
        let line = match running.line().await {
            Ok(Some(line)) => line,
            Ok(None) => break None,
            Err(problem) => return Ok(Err(problem)),
        };
        match serde_json::from_slice::<Line>(&line) {
            Ok(line) if line.status.is_some() => break Some(line),
            Ok(line) => {
                let due = told.is_none_or(|told| told.elapsed() >= EVERY);
                if let Some(progress) = line.progress.filter(|_| due) {
                    let progress = clean(&task.node, plugin, &progress.to_string());
                    let progress = serde_json::from_str::<Value>(&progress);
                    if let Some(progress) = progress.ok().filter(|kept| size(kept) <= KEPT) {
                        told = Some(Instant::now());
                        internal::set(&mut task.node, internal::PROGRESS, progress);
                        task.save().await?;
                    }
                }
                if let Some(message) = line.message {
                    let message = clean(&task.node, plugin, &plain(message.as_bytes()));
                    tracing::info!(node = %task.node.uuid, plugin = plugin.name, message);
                }
            }
            // What its own programs print is no reason to fail.
            Err(_) => odd = Some(plain(&line)),
        }
    };
    let end = match running.end().await {
        Ok(end) => end,
        Err(problem) => return Ok(Err(problem)),
    };
    Ok(match (last, end.failure()) {
        (Some(last), None) => Ok(last),
        (Some(last), Some(failure)) => match last.message {
            Some(message) => Err(format!("{} ({failure})", plain(message.as_bytes()))),
            None => Err(format!("it {failure}")),
        },
        (None, failure) => {
            let mut words = match failure {
                Some(failure) => format!("it {failure}"),
                None => "it ended without a last line that has a status".to_owned(),
            };
            if let Some(odd) = odd.filter(|odd| !odd.is_empty()) {
                words.push_str(&format!("; it printed: {odd}"));
            }
            Err(words)
        }
    })
}

//! What a wait state waited for has come, or may have: goes on from there.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use wrought_store::journal::Phase;
use wrought_wire::command::CommandResult;
use wrought_wire::command::CommandStatus;

use crate::agent;
use crate::drivers;
use crate::error::Error;
use crate::internal;
use crate::machine::Event;
use crate::stamps;
use crate::steps::Awaited;
use crate::steps::Kind;
use crate::steps::Outcome;
use crate::steps::Place;
use crate::steps::Then;
use crate::steps::Wait;
use crate::steps::engine;
use crate::steps::engine::Ran;
use crate::steps::inband;
use crate::steps::inband::Fate;
use crate::steps::limits;
use crate::steps::limits::Limit;
use crate::steps::name;
use crate::steps::raid;
use crate::task::Task;

/// How often the hardware managers of an agent may change under a list.
const MISMATCHES: u64 = 3;

/// How a look at a wait state ended.
#[derive(Debug)]
pub(crate) enum Resumed {
    /// The list ran on.
    Ran(Ran),
    /// The step ended and an abort was asked for meanwhile; names the step.
    Aborted(String),
}

/// Looks whether the event has come and goes on if so. The node is in the wait
/// state.
pub(crate) async fn resume(task: &mut Task, kind: Kind) -> Result<Resumed, Error> {
    let Some(wait) = Wait::of(&task.node) else {
        return Err(Error::Step(format!(
            "the record of what state {} waits for is missing from driver_internal_info.{}",
            task.node.provision_state,
            internal::WAIT
        )));
    };
    let mut asked = false;
    match wait.what {
        Awaited::Agent if !task.node_has_agent() => return still(task, kind),
        Awaited::Agent => return arrived(task, kind, wait.then).await,
        Awaited::Idle => {
            let commands = ask(task, kind).await?;
            if commands
                .last()
                .is_some_and(|last| last.command_status == CommandStatus::Running)
            {
                return still(task, kind);
            }
            enter(task).await?;
            internal::clear(&mut task.node, &[internal::WAIT]);
            return engine::run(task, kind).await.map(Resumed::Ran);
        }
        Awaited::Time { until } if Timestamp::now() < until => {
            return Ok(Resumed::Ran(Ran::Waiting));
        }
        Awaited::Time { .. } => {}
        Awaited::Heartbeat { since } => {
            let svc = Arc::clone(&task.svc);
            if !stamps::called_since(&svc, &task.node, since).await? {
                return still(task, kind);
            }
        }
        Awaited::Poll { at } if Timestamp::now() < at => return still(task, kind),
        Awaited::Poll { .. } => return poll(task, kind).await,
        Awaited::Command { id } => match inband::fate(&ask(task, kind).await?, id) {
            Fate::Running(progress) => {
                if let Some(progress) = progress {
                    internal::set(&mut task.node, internal::PROGRESS, progress);
                    task.save().await?;
                }
                return still(task, kind);
            }
            Fate::Unknown => {
                return Err(inband::failed(task, "look for the running step")(lost(
                    task,
                )));
            }
            Fate::Failed(story) => return Err(step_failed(task, kind, &story)),
            Fate::VersionMismatch => return versions_changed(task, kind).await,
            Fate::Succeeded(result) => {
                // A hardware manager may find out only then.
                asked = result.get("reboot_requested") == Some(&Value::Bool(true));
                ended(task, kind, &result).await?;
            }
        },
    }
    let restart = asked || engine::current(task, kind).is_some_and(|step| step.reboot_requested);
    over(task, kind, restart).await
}

/// The step has ended: the next one runs, unless an abort was asked for
/// meanwhile. `restart`: whether the machine restarts before it.
async fn over(task: &mut Task, kind: Kind, restart: bool) -> Result<Resumed, Error> {
    let abort = kind.current(&task.node).get("abort_after");
    if abort.and_then(Value::as_bool) == Some(true) {
        let step = engine::current(task, kind)
            .map(|step| name(&step))
            .unwrap_or_default();
        engine::complete(task, kind, false);
        return Ok(Resumed::Aborted(step));
    }
    engine::complete(task, kind, restart);
    enter(task).await?;
    // The step asked for a restart: the next one meets a fresh ramdisk.
    if restart && let Some(ran) = engine::reboot(task, kind).await? {
        return Ok(Resumed::Ran(ran));
    }
    engine::run(task, kind).await.map(Resumed::Ran)
}

/// Nothing has happened yet, which is fine as long as the step has time.
fn still(task: &Task, kind: Kind) -> Result<Resumed, Error> {
    limits::check(&task.svc.config.conductor, &task.node, kind)?;
    Ok(Resumed::Ran(Ran::Waiting))
}

/// Asks a step how far it is. The node stays in its wait state meanwhile, so
/// that after a crash it is just asked again.
async fn poll(task: &mut Task, kind: Kind) -> Result<Resumed, Error> {
    let Some(step) = engine::current(task, kind) else {
        enter(task).await?;
        return engine::run(task, kind).await.map(Resumed::Ran);
    };
    let place = Place::of(&task.svc, &task.node, kind, &step)?;
    let limit = Limit::of(&task.svc.config.conductor, &step);
    let of = (task.node.uuid, kind.as_str(), &step);
    let outcome = Limit::hold(limit, of, place.poll(task, kind, &step)).await?;
    match outcome {
        Outcome::Done => over(task, kind, step.reboot_requested).await,
        Outcome::Restart => over(task, kind, true).await,
        Outcome::Wait(wait) => {
            internal::set(&mut task.node, internal::WAIT, &wait);
            task.save().await?;
            still(task, kind)
        }
        Outcome::Hold => Err(Error::Step(format!(
            "{} step {} asked for a hold while it was polled",
            kind.as_str(),
            name(&step)
        ))),
    }
}

async fn arrived(task: &mut Task, kind: Kind, then: Then) -> Result<Resumed, Error> {
    internal::clear(&mut task.node, &[&kind.reboot_flag()]);
    let ran = match then {
        Then::Begin => {
            enter(task).await?;
            engine::begin_list(task, kind).await?
        }
        Then::Next | Then::Repeat => {
            engine::check_list(task, kind).await?;
            if then == Then::Next {
                engine::complete(task, kind, false);
            }
            enter(task).await?;
            engine::run(task, kind).await?
        }
    };
    Ok(Resumed::Ran(ran))
}

/// Back to the working state.
async fn enter(task: &mut Task) -> Result<(), Error> {
    let target = task.node.target_provision_state;
    task.transition(Event::Resume, target).await.map(|_| ())
}

/// The agent's commands. An agent that does not answer has no more time than
/// one that does.
async fn ask(task: &Task, kind: Kind) -> Result<Vec<CommandResult>, Error> {
    let asked = match task.agent() {
        Ok(agent) => agent
            .commands()
            .await
            .map_err(inband::failed(task, "ask what it does")),
        Err(error) => Err(error),
    };
    if asked.is_err() {
        limits::check(&task.svc.config.conductor, &task.node, kind)?;
    }
    asked
}

async fn ended(task: &mut Task, kind: Kind, result: &Value) -> Result<(), Error> {
    let Some(step) = engine::current(task, kind) else {
        return Ok(());
    };
    // Our agent's figures lie beside the result, which is Ironic's text.
    let peak = result.get("peak_rss_bytes").and_then(Value::as_u64);
    let result = engine::result_of(kind, result);
    if let Some(peak) = peak.or_else(|| result.get("peak_rss_bytes").and_then(Value::as_u64)) {
        internal::set(&mut task.node, internal::AGENT_PEAK_RSS, peak);
    }
    raid::ended(&mut task.node, &step, &result);
    drivers::deploy(&task.node)?
        .ended(task, &step, &result)
        .await
}

/// The agent's hardware managers are not those that the list was made of: an
/// automated cleaning begins anew with a new list, any other goes on with the
/// step that was refused.
async fn versions_changed(task: &mut Task, kind: Kind) -> Result<Resumed, Error> {
    tracing::info!(node = %task.node.uuid, "hardware managers of the agent have changed");
    let seen = internal::count(&task.node, internal::MISMATCHES) + 1;
    if seen > MISMATCHES {
        let step = engine::current(task, kind).map(|step| name(&step));
        return Err(Error::Step(format!(
            "{} step {} on node {}: the agent's hardware managers had other versions than \
             those that the list of steps was made of, {seen} times",
            kind.as_str(),
            step.unwrap_or_default(),
            task.node.uuid
        )));
    }
    internal::set(&mut task.node, internal::MISMATCHES, seen);
    let text = "The hardware managers of the agent have changed; its steps are read anew";
    task.history("WARNING", kind.event_type(), text);
    engine::note(
        task,
        kind,
        Phase::Failed,
        Some("hardware manager versions changed".to_owned()),
    );
    enter(task).await?;
    let automated = kind == Kind::Clean && !crate::flows::clean::is_manual(&task.node);
    let ran = if automated {
        internal::clear(&mut task.node, &[&kind.list_key(), &kind.index_key()]);
        engine::begin_list(task, kind).await?
    } else {
        engine::check_list(task, kind).await?;
        engine::run(task, kind).await?
    };
    Ok(Resumed::Ran(ran))
}

fn step_failed(task: &Task, kind: Kind, story: &str) -> Error {
    let step = engine::current(task, kind)
        .map(|step| name(&step))
        .unwrap_or_default();
    Error::Step(format!(
        "Agent returned error for {} step {step} on node {}: {story}",
        kind.as_str(),
        task.node.uuid
    ))
}

fn lost(task: &Task) -> agent::Error {
    let url = internal::text(&task.node, internal::AGENT_URL)
        .unwrap_or_default()
        .to_owned();
    agent::Error::Forgot { url }
}

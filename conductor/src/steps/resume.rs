//! What a wait state waited for has come, or may have: goes on from there.

use serde_json::Value;
use wrought_store::journal::Phase;
use wrought_wire::command::CommandStatus;

use crate::agent;
use crate::drivers;
use crate::error::Error;
use crate::internal;
use crate::machine::Event;
use crate::steps::Awaited;
use crate::steps::Kind;
use crate::steps::Then;
use crate::steps::Wait;
use crate::steps::engine;
use crate::steps::engine::Ran;
use crate::steps::inband;
use crate::steps::inband::Fate;
use crate::steps::name;
use crate::steps::ramdisk;
use crate::task::Task;

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
    let waiting = Resumed::Ran(Ran::Waiting);
    let Some(wait) = Wait::of(&task.node) else {
        return Err(Error::Step(format!(
            "the record of what state {} waits for is missing from driver_internal_info.{}",
            task.node.provision_state,
            internal::WAIT
        )));
    };
    match wait.what {
        Awaited::Agent if !task.node_has_agent() => return Ok(waiting),
        Awaited::Agent => return arrived(task, kind, wait.then).await,
        Awaited::Idle => {
            let commands = ask(task).await?;
            if commands
                .last()
                .is_some_and(|last| last.command_status == CommandStatus::Running)
            {
                return Ok(waiting);
            }
            enter(task).await?;
            internal::clear(&mut task.node, &[internal::WAIT]);
            return engine::run(task, kind).await.map(Resumed::Ran);
        }
        Awaited::Command { id } => match inband::fate(&ask(task).await?, id) {
            Fate::Running(progress) => {
                if let Some(progress) = progress {
                    internal::set(&mut task.node, internal::PROGRESS, progress);
                    task.save().await?;
                }
                return Ok(waiting);
            }
            Fate::Unknown => {
                return Err(inband::failed(task, "look for the running step")(lost(
                    task,
                )));
            }
            Fate::Failed(story) => return Err(step_failed(task, kind, &story)),
            Fate::VersionMismatch => return versions_changed(task, kind).await,
            Fate::Succeeded(result) => ended(task, kind, &result).await?,
        },
    }
    if let Some(step) = kind
        .current(&task.node)
        .get("abort_after")
        .and_then(Value::as_bool)
        && step
    {
        let step = engine::current(task, kind)
            .map(|step| name(&step))
            .unwrap_or_default();
        engine::complete(task, kind);
        return Ok(Resumed::Aborted(step));
    }
    let reboot = engine::current(task, kind).is_some_and(|step| step.reboot_requested);
    engine::complete(task, kind);
    enter(task).await?;
    if reboot {
        // The step asked for a restart: the next one meets a fresh ramdisk.
        ramdisk::boot(task).await?;
        let wait = Wait::for_agent(Then::Repeat);
        return engine::suspend(task, kind, wait).await.map(Resumed::Ran);
    }
    engine::run(task, kind).await.map(Resumed::Ran)
}

async fn arrived(task: &mut Task, kind: Kind, then: Then) -> Result<Resumed, Error> {
    let ran = match then {
        Then::Begin => {
            enter(task).await?;
            engine::begin_list(task, kind).await?
        }
        Then::Next | Then::Repeat => {
            engine::check_list(task, kind).await?;
            if then == Then::Next {
                engine::complete(task, kind);
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

async fn ask(task: &Task) -> Result<Vec<wrought_wire::command::CommandResult>, Error> {
    task.agent()?
        .commands()
        .await
        .map_err(inband::failed(task, "ask what it does"))
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
    drivers::deploy(&task.node)?
        .ended(task, &step, &result)
        .await
}

/// The agent's hardware managers are not those that the list was made of: the
/// list is made anew, except for a manual cleaning, where it was given.
async fn versions_changed(task: &mut Task, kind: Kind) -> Result<Resumed, Error> {
    tracing::info!(node = %task.node.uuid, "hardware managers of the agent have changed");
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
        inband::fetch(task, kind).await?;
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

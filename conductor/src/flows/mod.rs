//! Flows: what is done on a node between two states in which it rests. One
//! file each; [`run`] is the only door.

use std::sync::Arc;
use std::time::Duration;

use wrought_wire::state::PowerTarget;

use crate::admission;
use crate::error::Error;
use crate::error::chain;
use crate::machine::Effect;
use crate::power;
use crate::service::Service;
use crate::steps::Kind;
use crate::task::Task;

pub(crate) mod abort;
pub(crate) mod adopt;
pub(crate) mod clean;
pub(crate) mod deploy;
pub(crate) mod failure;
pub(crate) mod inspect;
pub(crate) mod look;
pub(crate) mod rescue;
pub(crate) mod restart;
pub(crate) mod retry_boot;
pub(crate) mod service;
pub(crate) mod settle;
pub(crate) mod tear_down;
pub(crate) mod unrescue;
pub(crate) mod verify;

/// A piece of work on a locked node.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Work {
    /// What an edge of the state machine begins.
    Start(Effect),
    /// The event of a wait state may have come. `gone`: it is known that the
    /// agent that had the work is not there any more.
    Look {
        /// Whose steps.
        kind: Kind,
        /// Whether the agent is known to be gone.
        gone: bool,
    },
    /// The conductor was stopped in the middle of a flow.
    Restart,
    /// A power request.
    Power(PowerTarget, Option<Duration>),
    /// Nothing was heard in a wait state for too long.
    TimedOut(Kind),
    /// The ramdisk has sent what it found.
    Inspected,
    /// No ramdisk has sent anything for too long.
    InspectTimedOut,
    /// The rescue ramdisk may have called. `gone`: it did, and is known not to be
    /// there any more.
    Rescue {
        /// Whether the agent is known to be gone.
        gone: bool,
    },
    /// No rescue ramdisk has called for too long.
    RescueTimedOut,
    /// A failed operation left boot artefacts behind.
    PutAway,
    /// The conductor that the machine was to boot from is gone.
    BootAgain,
    /// Nothing came of a network boot.
    RetryBoot,
    /// The node was put into maintenance, where operations are not gone on
    /// with.
    InMaintenance,
}

/// Does the work, or stops touching the node as soon as its lease is lost.
/// Gives the lock back.
pub(crate) async fn run(mut task: Task, work: Work) {
    let node = task.node.uuid;
    let outcome = task.fence().guard(Box::pin(work_on(&mut task, work))).await;
    match outcome {
        Ok(()) => task.release().await,
        Err(error @ Error::Ending(_)) => {
            tracing::info!(node = %node, "{error}");
            task.release().await;
        }
        Err(error) if error.is_lease_lost() => {
            tracing::warn!(node = %node, work = ?work, "lease lost, work dropped");
        }
        Err(error) => {
            // The flows put all that concerns the node into the node; this is
            // the database itself, and the next start goes on from its record.
            tracing::error!(node = %node, work = ?work, err = %chain(&error), "work ended early");
            task.release().await;
        }
    }
}

async fn work_on(task: &mut Task, work: Work) -> Result<(), Error> {
    match work {
        Work::Start(Effect::Verify) => verify::run(task).await,
        Work::Start(Effect::Clean) => clean::start(task).await,
        Work::Start(Effect::Deploy) => deploy::start(task).await,
        Work::Start(Effect::TearDown) => tear_down::run(task).await,
        Work::Start(Effect::Inspect) => inspect::start(task).await,
        Work::Start(Effect::CleanUp) => abort::clean_up(task).await,
        Work::Start(Effect::Adopt) => adopt::run(task).await,
        Work::Start(Effect::Rescue) => rescue::start(task).await,
        Work::Start(Effect::Unrescue) => unrescue::run(task).await,
        Work::Start(Effect::Service) => service::start(task).await,
        Work::Look { kind, gone } => look::look(task, kind, gone).await,
        Work::Restart => restart::run(task).await,
        Work::Power(target, timeout) => power::change(task, target, timeout).await,
        Work::TimedOut(kind) => failure::timed_out(task, kind).await,
        Work::Inspected => crate::inspection::run(task).await,
        Work::InspectTimedOut => inspect::timed_out(task).await,
        Work::Rescue { gone } => rescue::look(task, gone).await,
        Work::RescueTimedOut => rescue::timed_out(task).await,
        Work::PutAway => abort::put_away(task).await,
        Work::BootAgain => crate::takeover::boot_again(task).await,
        Work::RetryBoot => retry_boot::run(task).await,
        Work::InMaintenance => failure::in_maintenance(task).await,
    }
}

/// Runs work in the background.
pub(crate) fn spawn(svc: &Arc<Service>, task: Task, work: Work, permit: Permit) {
    let (owner, node) = (Arc::clone(svc), task.node.uuid);
    svc.spawn(async move {
        run(task, work).await;
        drop(permit);
        owner.watch(node);
        admission::nudge(&owner);
    });
}

pub(crate) use crate::workers::Permit;

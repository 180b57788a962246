//! How operations fail: the state, the reason, and the machine at rest.

use jiff::SignedDuration;
use jiff::Timestamp;
use wrought_store::journal::Phase;
use wrought_store::node::Node;
use wrought_wire::state::ProvisionState;

use crate::drivers;
use crate::error::Error;
use crate::flows::rescue;
use crate::flows::service;
use crate::internal;
use crate::logs;
use crate::machine;
use crate::machine::Event;
use crate::steps;
use crate::steps::Awaited;
use crate::steps::Kind;
use crate::steps::Wait;
use crate::steps::engine;
use crate::steps::ramdisk;
use crate::task::Task;

/// Fault of a node whose cleaning failed half-way.
pub(crate) const CLEAN_FAILURE: &str = "clean failure";
/// Fault of a node whose service failed half-way.
pub(crate) const SERVICE_FAILURE: &str = "service failure";
/// Fault of a node whose rescue could not be put away after an abort.
pub(crate) const RESCUE_ABORT_FAILURE: &str = "rescue abort failure";

/// Puts a node into maintenance until an operator has looked at it.
pub(crate) fn hold_back(node: &mut Node, fault: &str, why: &str) {
    node.maintenance = true;
    node.fault = Some(fault.to_owned());
    if node.maintenance_reason.is_none() {
        node.maintenance_reason = Some(why.to_owned());
    }
}

/// Moves the node to the failed state of its operation and puts the machine
/// to rest.
pub(crate) async fn fail(task: &mut Task, kind: Kind, text: &str) -> Result<(), Error> {
    engine::note(task, kind, Phase::Failed, Some(text.to_owned()));
    let at_step = !kind.current(&task.node).is_empty();
    let kept = logs::collect(task, kind, logs::End::Failed).await;
    let text = match kept {
        Some(file) => format!("{text} (the ramdisk's logs: {file})"),
        None => text.to_owned(),
    };
    task.set_error(kind.event_type(), &text);
    let config = &task.svc.config.conductor;
    // A disk that may be half erased is no disk to be handed on, a firmware that
    // may be half written none to be started.
    let (fault, off) = match kind {
        Kind::Deploy => (None, config.power_off_after_deploy_failure),
        Kind::Clean => (Some(CLEAN_FAILURE), config.power_off_after_clean_failure),
        Kind::Service => (
            Some(SERVICE_FAILURE),
            config.power_off_after_service_failure,
        ),
    };
    if let Some(fault) = fault.filter(|_| at_step) {
        hold_back(&mut task.node, fault, &text);
    }
    steps::forget(&mut task.node, kind);
    let target = task.node.target_provision_state;
    task.transition(Event::Fail, target).await?;
    let off = off && drivers::deploy(&task.node).is_ok_and(|deploy| deploy.cleans_by_agent());
    ramdisk::try_put_away(task, off).await
}

/// The node was put into maintenance, and operations are not gone on with
/// there (`allow_provisioning_in_maintenance`).
pub(crate) async fn in_maintenance(task: &mut Task) -> Result<(), Error> {
    let state = task.node.provision_state;
    let under_way = machine::is_working(state) || machine::is_waiting(state);
    if !under_way || !task.node.maintenance {
        // It was taken out again, or all is over.
        return Ok(());
    }
    let text = |what: &str| format!("{what} aborted as node is in maintenance mode");
    match Kind::of(state) {
        Some(kind @ Kind::Deploy) => fail(task, kind, &text("Deployment")).await,
        Some(kind @ Kind::Clean) => fail(task, kind, &text("Cleaning")).await,
        Some(kind @ Kind::Service) => fail(task, kind, &text("Service")).await,
        None if matches!(state, ProvisionState::Rescuing | ProvisionState::RescueWait) => {
            rescue::fail(task, &text("Rescue")).await
        }
        None => Ok(()),
    }
}

/// The agent was silent for too long.
pub(crate) async fn timed_out(task: &mut Task, kind: Kind) -> Result<(), Error> {
    if task.node.provision_state != kind.waiting() || waits_on_purpose(task) {
        return Ok(());
    }
    let node = task.node.uuid;
    let step = engine::current(task, kind);
    let text = match kind {
        Kind::Deploy => format!("Timeout reached while waiting for callback for node {node}"),
        Kind::Clean | Kind::Service => format!(
            "Timeout reached while {0} the node. Please check if the ramdisk responsible for the \
             {0} is running on the node. Failed on step {1}.",
            kind.event_type(),
            // An empty object, where the ramdisk never called.
            step.map_or_else(|| "{}".to_owned(), |step| steps::name(&step))
        ),
    };
    fail(task, kind, &text).await
}

/// Whether the list itself waits for a moment that is still to come, or that
/// its watching loop is just taking note of: nobody expects anything from the
/// agent.
fn waits_on_purpose(task: &Task) -> bool {
    let wait = Wait::of(&task.node).map(|wait| wait.what);
    match wait {
        Some(Awaited::Time { until: at } | Awaited::Poll { at }) => {
            Timestamp::now().duration_since(at) < SignedDuration::from_secs(60)
        }
        _ => false,
    }
}

/// Whether an operation that ended left something to put away: artefacts after a
/// failure, the ramdisk itself after the abort of a service.
pub(crate) fn has_leftovers(node: &Node) -> bool {
    match node.provision_state {
        ProvisionState::Active | ProvisionState::Manageable => service::booted_ramdisk(node),
        state => {
            state.is_failure()
                && internal::read::<serde_json::Value>(node, internal::BOOT).is_some()
        }
    }
}

//! How operations fail: the state, the reason, and the machine at rest.

use jiff::SignedDuration;
use jiff::Timestamp;
use wrought_store::journal::Phase;

use crate::drivers;
use crate::error::Error;
use crate::internal;
use crate::logs;
use crate::machine::Effect;
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
    if kind == Kind::Clean && at_step {
        // A disk that may be half erased is no disk to be handed on.
        task.node.maintenance = true;
        task.node.fault = Some(CLEAN_FAILURE.to_owned());
        if task.node.maintenance_reason.is_none() {
            task.node.maintenance_reason = Some(text);
        }
    }
    steps::forget(&mut task.node, kind);
    let target = task.node.target_provision_state;
    task.transition(Event::Fail, target).await?;
    let off = kind == Kind::Deploy
        && task.svc.config.conductor.power_off_after_deploy_failure
        && drivers::deploy(&task.node).is_ok_and(|deploy| deploy.cleans_by_agent());
    ramdisk::try_put_away(task, off).await
}

/// The agent was silent for too long.
pub(crate) async fn timed_out(task: &mut Task, kind: Kind) -> Result<(), Error> {
    if task.node.provision_state != kind.waiting() || waits_on_purpose(task) {
        return Ok(());
    }
    let node = task.node.uuid;
    let step = engine::current(task, kind);
    let text = match (kind, step) {
        (Kind::Deploy, _) => {
            format!("Timeout reached while waiting for callback for node {node}")
        }
        (Kind::Clean, Some(step)) => format!(
            "Timeout reached while cleaning the node. Please check if the ramdisk responsible for \
             the cleaning is running on the node. Failed on step {}.",
            steps::name(&step)
        ),
        (Kind::Clean, None) => {
            "Timeout reached while cleaning the node. Please check if the ramdisk responsible for \
             the cleaning is running on the node. Failed on step {}."
                .to_owned()
        }
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

/// An edge was taken whose work is not built; the request should have been
/// refused before.
pub(crate) async fn no_effect(task: &mut Task, effect: Effect) -> Result<(), Error> {
    let text = format!("{effect:?} is not implemented by this conductor");
    task.set_error("provisioning", &text);
    task.transition(Event::Fail, None).await.map(|_| ())
}

/// Whether a failed node has artefacts left to put away.
pub(crate) fn has_leftovers(node: &wrought_store::Node) -> bool {
    node.provision_state.is_failure()
        && internal::read::<serde_json::Value>(node, internal::BOOT).is_some()
}

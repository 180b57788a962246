//! The agent is gone in the middle of things: the machine is started anew and
//! the step repeated, where that is safe.

use wrought_store::journal::Phase;

use crate::agent;
use crate::error::Error;
use crate::internal;
use crate::machine;
use crate::machine::Event;
use crate::steps;
use crate::steps::Kind;
use crate::steps::Then;
use crate::steps::Wait;
use crate::steps::engine;
use crate::steps::engine::Ran;
use crate::steps::list;
use crate::steps::name;
use crate::steps::ramdisk;
use crate::task::Task;

/// Whether an error means that the agent which had the work is gone.
pub(crate) fn agent_is_gone(error: &Error) -> bool {
    matches!(
        error,
        Error::Agent { source, .. }
            if source.is_connection()
                || source.is_stranger()
                || matches!(source, agent::Error::NoAgent | agent::Error::Forgot { .. })
    )
}

/// Starts the machine anew, then the present step is run again by the fresh
/// agent. Fails when the step must not run twice, or when it was tried often
/// enough.
pub(crate) async fn recover(task: &mut Task, kind: Kind, why: &str) -> Result<Ran, Error> {
    let step = engine::current(task, kind);
    let what = step
        .as_ref()
        .map_or_else(|| "the preparation".to_owned(), name);
    // One that was not begun yet may well be.
    let begun = !kind.current(&task.node).is_empty();
    if let Some(step) = &step
        && begun
        && !list::is_repeatable(step)
    {
        return Err(Error::Step(format!(
            "{} step {what} on node {} cannot be repeated, and whether it was done is not known: \
             its agent is gone ({why})",
            kind.as_str(),
            task.node.uuid
        )));
    }
    let tried = internal::count(&task.node, internal::RECOVERIES);
    if tried >= u64::from(task.svc.config.conductor.step_recoveries) {
        return Err(Error::Step(format!(
            "{} step {what} on node {} was lost {} times with its agent; last: {why}",
            kind.as_str(),
            task.node.uuid,
            tried + 1
        )));
    }
    tracing::warn!(node = %task.node.uuid, step = what, err = why, "agent lost, machine restarted");
    let text = format!("The agent was lost during {what} ({why}); the machine is started anew");
    task.history("WARNING", kind.event_type(), &text);
    engine::note(task, kind, Phase::Failed, Some(why.to_owned()));
    internal::set(&mut task.node, internal::RECOVERIES, tried + 1);
    internal::clear(
        &mut task.node,
        &[internal::WAIT, internal::PROGRESS, internal::STEP_BEGAN],
    );
    if machine::is_waiting(task.node.provision_state) {
        let target = task.node.target_provision_state;
        task.transition(Event::Resume, target).await?;
    } else {
        task.save().await?;
    }
    ramdisk::boot(task).await?;
    let begun = steps::index(&task.node, kind).is_some();
    let then = if begun { Then::Repeat } else { Then::Begin };
    engine::suspend(task, kind, Wait::for_agent(then)).await
}

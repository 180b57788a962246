//! Runs a list of steps: each is begun in the journal before anything is done
//! and ended in it, in the transaction that moves the node on.

use jiff::Timestamp;
use serde_json::Value;
use wrought_store::journal::Phase;
use wrought_wire::state::PowerTarget;
use wrought_wire::step::Step;

use crate::error::Error;
use crate::internal;
use crate::machine::Event;
use crate::power;
use crate::steps;
use crate::steps::Awaited;
use crate::steps::Kind;
use crate::steps::Outcome;
use crate::steps::Place;
use crate::steps::Reserved;
use crate::steps::Then;
use crate::steps::Wait;
use crate::steps::args;
use crate::steps::flags;
use crate::steps::inband;
use crate::steps::limits::Limit;
use crate::steps::list;
use crate::steps::name;
use crate::steps::ramdisk;
use crate::task::Row;
use crate::task::Task;

/// How far a run of the list came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ran {
    /// To its end.
    Finished,
    /// To a wait state.
    Waiting,
}

/// Runs the list from its place on. The node is in the working state.
pub(crate) async fn run(task: &mut Task, kind: Kind) -> Result<Ran, Error> {
    loop {
        let steps = steps::steps(&task.node, kind).unwrap_or_default();
        let index = steps::index(&task.node, kind).unwrap_or(0);
        let Some(step) = steps.get(index) else {
            return Ok(Ran::Finished);
        };
        task.may_go_on()?;
        let place = Place::of(&task.svc, &task.node, kind, step)?;
        if place.is_agent()
            && let Some(wait) = ramdisk::ready(task).await?
        {
            return suspend(task, kind, wait).await;
        }
        begin(task, kind, index, step, &place).await?;
        let limit = Limit::of(&task.svc.config.conductor, step);
        let of = (task.node.uuid, kind.as_str(), step);
        let outcome = Limit::hold(limit, of, place.run(task, kind, step)).await?;
        if let Some(ran) = take_up(task, kind, outcome).await? {
            return Ok(ran);
        }
    }
}

/// Goes on from how far a step came; none when the next one is to run.
async fn take_up(task: &mut Task, kind: Kind, outcome: Outcome) -> Result<Option<Ran>, Error> {
    let restart = match outcome {
        Outcome::Wait(wait) => return suspend(task, kind, wait).await.map(Some),
        Outcome::Hold => return hold(task, kind).await.map(Some),
        Outcome::Done => current(task, kind).is_some_and(|step| step.reboot_requested),
        Outcome::Restart => true,
    };
    complete(task, kind, restart);
    task.save().await?;
    if !restart {
        return Ok(None);
    }
    reboot(task, kind).await
}

/// Restarts the machine because the last step asked for that, which
/// [`complete`] has put down. The ramdisk, where the list runs in one, comes up
/// again before the next step; none when the next step may run at once.
pub(crate) async fn reboot(task: &mut Task, kind: Kind) -> Result<Option<Ran>, Error> {
    if ramdisk::is_on_offer(&task.node) {
        ramdisk::boot(task).await?;
        let wait = Wait::for_agent(Then::Repeat);
        return suspend(task, kind, wait).await.map(Some);
    }
    power::set(task, PowerTarget::Reboot, None).await?;
    internal::clear(&mut task.node, &[&kind.reboot_flag()]);
    task.save().await?;
    Ok(None)
}

/// After a crash in the working state: finds out what became of the step that
/// was begun, then goes on.
pub(crate) async fn restart(task: &mut Task, kind: Kind) -> Result<Ran, Error> {
    if steps::index(&task.node, kind).is_none() && task.node_has_agent() {
        // The list was about to be made.
        return begin_list(task, kind).await;
    }
    if flags::is_up(&task.node, &kind.reboot_flag()) {
        // It may have happened or not; once more does no harm.
        return match reboot(task, kind).await? {
            Some(ran) => Ok(ran),
            None => run(task, kind).await,
        };
    }
    let begun = !kind.current(&task.node).is_empty();
    let (Some(step), true) = (current(task, kind), begun) else {
        return run(task, kind).await;
    };
    let in_band = Place::of(&task.svc, &task.node, kind, &step)?.is_agent();
    if in_band && let Some(Outcome::Wait(wait)) = inband::adopt(task, kind).await? {
        tracing::info!(node = %task.node.uuid, step = name(&step), "step found in the agent");
        return suspend(task, kind, wait).await;
    }
    // The agent says that it never got the step, or the conductor itself was
    // at it.
    if !in_band && !list::is_repeatable(&step) {
        return Err(Error::Step(format!(
            "step {} was begun before conductor {} stopped; whether it was done is not known, \
             and it must not run twice",
            name(&step),
            task.svc.config.host
        )));
    }
    run(task, kind).await
}

/// The agent has called: makes the list where it is not known yet, and checks
/// it, then runs it.
pub(crate) async fn begin_list(task: &mut Task, kind: Kind) -> Result<Ran, Error> {
    let mut known = inband::fetch(task, kind).await?;
    known.extend(steps::known(&task.svc, &task.node, kind)?);
    let list = match steps::steps(&task.node, kind) {
        // Automated cleaning takes what there is.
        None => list::automated_clean(known, &task.svc.config.conductor),
        Some(given) => list::in_given_order(kind, &given, &known)?,
    };
    internal::set(&mut task.node, "steps_validated", true);
    start_list(task, kind, &list).await
}

/// Runs a list that is known from the start.
pub(crate) async fn start_list(task: &mut Task, kind: Kind, list: &[Step]) -> Result<Ran, Error> {
    internal::set(&mut task.node, &kind.list_key(), list);
    internal::set(&mut task.node, &kind.index_key(), 0);
    internal::set(&mut task.node, internal::BEGAN, Timestamp::now());
    internal::clear(&mut task.node, &[internal::RECOVERIES]);
    kind.current_mut(&mut task.node).clear();
    let names: Vec<String> = list.iter().map(name).collect();
    let text = format!(
        "Starting {} with steps=[{}]",
        kind.event_type(),
        names.join(", ")
    );
    task.history("INFO", kind.event_type(), &text);
    task.save().await?;
    run(task, kind).await
}

/// A fresh agent has called in the middle of a list, or at the first step of
/// one that was known before: takes note of its steps and checks that it has
/// those of the list, with these arguments.
pub(crate) async fn check_list(task: &mut Task, kind: Kind) -> Result<(), Error> {
    let known = inband::fetch(task, kind).await?;
    let own = steps::known(&task.svc, &task.node, kind)?;
    let index = steps::index(&task.node, kind).unwrap_or(0);
    let mut steps = steps::steps(&task.node, kind).unwrap_or_default();
    for step in steps.iter_mut().skip(index) {
        let elsewhere = Reserved::of(step).is_some() || step.execute_on_child_nodes;
        if elsewhere || list::find(&own, step).is_some() {
            continue;
        }
        let Some(twin) = list::find(&known, step) else {
            return Err(Error::Step(format!(
                "{} step {} is not known: neither the node's interfaces nor its agent have it",
                kind.as_str(),
                name(step)
            )));
        };
        args::check(kind, step, twin.argsinfo.as_ref())?;
        *step = Step {
            priority: step.priority,
            args: step.args.clone(),
            ..twin.clone()
        };
    }
    has_agent_to_its_end(task, kind, &steps)?;
    internal::set(&mut task.node, &kind.list_key(), &steps);
    internal::set(&mut task.node, "steps_validated", true);
    Ok(())
}

/// Refuses a step of the agent behind the one that ends the agent: it would
/// leave the machine in the ramdisk.
fn has_agent_to_its_end(task: &Task, kind: Kind, steps: &[Step]) -> Result<(), Error> {
    let ends = |step: &Step| step.interface == "deploy" && step.step == "tear_down_agent";
    let Some(end) = steps.iter().position(ends) else {
        return Ok(());
    };
    for step in &steps[end + 1..] {
        if Place::of(&task.svc, &task.node, kind, step)?.is_agent() {
            return Err(Error::Step(format!(
                "{} step {} needs the agent, which deploy.tear_down_agent has ended before: \
                 give it a priority above {}",
                kind.as_str(),
                name(step),
                steps[end].priority
            )));
        }
    }
    Ok(())
}

/// The step at the list's place.
pub(crate) fn current(task: &Task, kind: Kind) -> Option<Step> {
    let index = steps::index(&task.node, kind)?;
    steps::steps(&task.node, kind)?.into_iter().nth(index)
}

async fn begin(
    task: &mut Task,
    kind: Kind,
    index: usize,
    step: &Step,
    place: &Place,
) -> Result<(), Error> {
    if place.is_agent() {
        inband::mark(task).await?;
    }
    let attempt = internal::count(&task.node, internal::ATTEMPT) + 1;
    let node = &mut task.node;
    internal::set(node, internal::ATTEMPT, attempt);
    internal::set(node, &kind.index_key(), index);
    internal::set(node, internal::STEP_BEGAN, Timestamp::now());
    let old = [internal::WAIT, internal::PROGRESS, internal::STEP_STATE];
    internal::clear(node, &old);
    *kind.current_mut(node) = steps::as_map(step);
    note(task, kind, Phase::Started, None);
    task.save().await?;
    tracing::info!(node = %task.node.uuid, step = name(step), attempt, "step begun");
    Ok(())
}

/// Moves the place behind the step that has ended; the caller saves. `restart`:
/// whether the machine is to restart before the next one.
pub(crate) fn complete(task: &mut Task, kind: Kind, restart: bool) {
    note(task, kind, Phase::Succeeded, None);
    let index = steps::index(&task.node, kind).unwrap_or(0);
    let steps = steps::steps(&task.node, kind).unwrap_or_default();
    tracing::info!(node = %task.node.uuid, kind = kind.as_str(), index, "step done");
    if task.svc.config.conductor.record_step_flows_in_history
        && let Some(step) = steps.get(index)
    {
        let (step, number, all) = (name(step), index + 1, steps.len());
        let text = format!("Step {step} ({number} of {all}) completed");
        task.history_of_step("INFO", kind.event_type(), &text);
    }
    let node = &mut task.node;
    internal::set(node, &kind.index_key(), index + 1);
    kind.current_mut(node).clear();
    internal::clear(
        node,
        &[
            &kind.polling_flag(),
            internal::WAIT,
            internal::ATTEMPT,
            internal::RECOVERIES,
            internal::MARKER,
            internal::PROGRESS,
            internal::STEP_BEGAN,
            internal::STEP_STATE,
        ],
    );
    if restart {
        internal::set(node, &kind.reboot_flag(), true);
    }
}

/// Goes to the hold state. What is asked for then goes on behind this step.
async fn hold(task: &mut Task, kind: Kind) -> Result<Ran, Error> {
    let what = Awaited::Time {
        until: Timestamp::now(),
    };
    let then = Then::Next;
    internal::set(&mut task.node, internal::WAIT, Wait { what, then });
    note(task, kind, Phase::Waiting, Some("held".to_owned()));
    let text = "Held by a step of the list; unhold goes on with the next one";
    task.history("INFO", kind.event_type(), text);
    let target = task.node.target_provision_state;
    task.transition(Event::Hold, target).await?;
    Ok(Ran::Waiting)
}

/// Goes to the wait state.
pub(crate) async fn suspend(task: &mut Task, kind: Kind, wait: Wait) -> Result<Ran, Error> {
    internal::set(&mut task.node, internal::WAIT, &wait);
    if matches!(wait.what, Awaited::Poll { .. }) {
        internal::set(&mut task.node, &kind.polling_flag(), true);
    }
    let detail = serde_json::to_string(&wait).ok();
    note(task, kind, Phase::Waiting, detail);
    let target = task.node.target_provision_state;
    task.transition(Event::Wait, target).await?;
    Ok(Ran::Waiting)
}

/// Adds a row about the present step to the journal.
pub(crate) fn note(task: &mut Task, kind: Kind, phase: Phase, detail: Option<String>) {
    let step = current(task, kind).map_or_else(|| "prepare".to_owned(), |step| name(&step));
    let index = steps::index(&task.node, kind).unwrap_or(0);
    let attempt = internal::count(&task.node, internal::ATTEMPT).max(1);
    task.journal(Row {
        kind: kind.as_str(),
        index: u32::try_from(index).unwrap_or(u32::MAX),
        step: &step,
        attempt: u32::try_from(attempt).unwrap_or(u32::MAX),
        phase,
        detail,
    });
}

/// The result that a step's command carries: `deploy_result`, `clean_result`.
pub(crate) fn result_of(kind: Kind, result: &Value) -> Value {
    result
        .get(format!("{}_result", kind.as_str()))
        .cloned()
        .unwrap_or_default()
}

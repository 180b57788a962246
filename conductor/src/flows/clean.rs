//! Cleaning: automated on the way to `available`, manual on request.

use wrought_store::journal::Phase;
use wrought_store::node::Node;
use wrought_wire::state::ProvisionState;

use crate::drivers;
use crate::error::Error;
use crate::fast_track;
use crate::flows::settle::settle;
use crate::internal;
use crate::logs;
use crate::machine::Event;
use crate::steps;
use crate::steps::Kind;
use crate::steps::Then;
use crate::steps::Wait;
use crate::steps::engine;
use crate::steps::engine::Ran;
use crate::steps::given;
use crate::steps::list;
use crate::steps::ramdisk;
use crate::task::Task;

/// Whether the cleaning was asked for with its own steps.
pub(crate) fn is_manual(node: &Node) -> bool {
    node.target_provision_state == Some(ProvisionState::Manageable)
}

/// Begins; the node is in `cleaning`, and a manual list is in its place.
pub(crate) async fn start(task: &mut Task) -> Result<(), Error> {
    let outcome = begin(task).await;
    settle(task, Kind::Clean, outcome).await
}

async fn begin(task: &mut Task) -> Result<Ran, Error> {
    if !is_manual(&task.node) && !is_wanted(task) {
        tracing::info!(node = %task.node.uuid, "automated cleaning is off");
        return Ok(Ran::Finished);
    }
    let deploy = drivers::deploy(&task.node)?;
    let known = steps::known(&task.svc, &task.node, Kind::Clean)?;
    if deploy.cleans_by_agent() && !Kind::Clean.is_without_ramdisk(&task.node) {
        // What can be told without the agent is told before it is booted.
        let given = steps::steps(&task.node, Kind::Clean).unwrap_or_default();
        list::check_given(Kind::Clean, &given, &known)?;
        engine::note(task, Kind::Clean, Phase::Started, None);
        task.save().await?;
        ramdisk::bring_up(task).await?;
        return engine::suspend(task, Kind::Clean, Wait::for_agent(Then::Begin)).await;
    }
    let list = if is_manual(&task.node) {
        given::without_ramdisk(&task.svc, &task.node, Kind::Clean)?.unwrap_or_default()
    } else {
        list::automated_clean(known, &task.svc.config.conductor)
    };
    engine::start_list(task, Kind::Clean, &list).await
}

/// Whether the node is cleaned before it becomes available.
pub(crate) fn is_wanted(task: &Task) -> bool {
    task.node
        .automated_clean
        .unwrap_or(task.svc.config.conductor.automated_clean)
}

/// All steps are done: to `available`, or back to `manageable`.
pub(crate) async fn finish(task: &mut Task) -> Result<(), Error> {
    let by_agent = drivers::deploy(&task.node)?.cleans_by_agent();
    // Nothing was booted where automated cleaning is off, or without the ramdisk.
    let booted = steps::index(&task.node, Kind::Clean).is_some()
        && !Kind::Clean.is_without_ramdisk(&task.node);
    if by_agent && booted {
        logs::collect(task, Kind::Clean, logs::End::Done).await;
        match fast_track::is_enabled(&task.svc, &task.node) && !task.node.retired {
            true => ramdisk::leave_up(task).await?,
            false => ramdisk::put_away(task, true).await?,
        }
    }
    let manual = is_manual(&task.node);
    let word = if manual {
        "Manual cleaning"
    } else {
        "Automated cleaning"
    };
    task.history_of_end(
        "INFO",
        "cleaning",
        &format!("{word} completed successfully"),
    );
    steps::forget(&mut task.node, Kind::Clean);
    internal::clear(&mut task.node, &[internal::INSTANCE]);
    let event = if manual || task.node.retired {
        Event::Manage
    } else {
        Event::Done
    };
    task.transition(event, None).await.map(|_| ())
}

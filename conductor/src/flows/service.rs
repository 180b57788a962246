//! Servicing: given steps on a machine that has an instance, or that is
//! `manageable`. The ramdisk is booted only where a step needs it; the instance
//! is brought back in the end.

use wrought_rpc::ProvisionRequest;
use wrought_store::journal::Phase;
use wrought_store::node::Node;
use wrought_wire::state::PowerTarget;
use wrought_wire::state::ProvisionState;

use crate::drivers;
use crate::error::Error;
use crate::error::chain;
use crate::flows::failure;
use crate::flows::settle::settle;
use crate::internal;
use crate::logs;
use crate::machine::Event;
use crate::power;
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

/// Keeps the steps of a request; says where the node goes from here.
pub(crate) fn prepare(
    node: &mut Node,
    request: &ProvisionRequest,
) -> Result<Option<ProvisionState>, Error> {
    let given = request.service_steps.as_deref().unwrap_or_default();
    let given = list::requested(given, "service_steps")?;
    if given.is_empty() {
        return Err(Error::Invalid(
            "\"service_steps\" is required when setting target provision state to service"
                .to_owned(),
        ));
    }
    steps::forget(node, Kind::Service);
    internal::forget_agent(node);
    internal::set(node, &Kind::Service.list_key(), &given);
    if request.disable_ramdisk == Some(true) {
        internal::set(node, Kind::Service.no_ramdisk_key(), true);
    }
    let home = match node.provision_state {
        ProvisionState::Manageable => ProvisionState::Manageable,
        _ => home(node),
    };
    Ok(Some(home))
}

/// Where a service leads in the end: to the instance, or to `manageable` where
/// it was begun there.
fn home(node: &Node) -> ProvisionState {
    match node.target_provision_state {
        Some(ProvisionState::Manageable) => ProvisionState::Manageable,
        _ => ProvisionState::Active,
    }
}

/// The event that leads there.
pub(crate) fn way_home(node: &Node, otherwise: Event) -> Event {
    match home(node) {
        ProvisionState::Manageable => Event::Manage,
        _ => otherwise,
    }
}

/// Begins; the node is in `servicing`, with the steps in their place.
pub(crate) async fn start(task: &mut Task) -> Result<(), Error> {
    let outcome = begin(task).await;
    settle(task, Kind::Service, outcome).await
}

async fn begin(task: &mut Task) -> Result<Ran, Error> {
    if let Some(list) = given::without_ramdisk(&task.svc, &task.node, Kind::Service)? {
        return engine::start_list(task, Kind::Service, &list).await;
    }
    engine::note(task, Kind::Service, Phase::Started, None);
    internal::set(&mut task.node, internal::SERVICE_RAMDISK, true);
    task.save().await?;
    ramdisk::boot(task).await?;
    engine::suspend(task, Kind::Service, Wait::for_agent(Then::Begin)).await
}

/// All steps are done: back to the instance, or to `manageable`.
pub(crate) async fn finish(task: &mut Task) -> Result<(), Error> {
    logs::collect(task, Kind::Service, logs::End::Done).await;
    leave_ramdisk(task).await?;
    let node = &mut task.node;
    internal::clear(node, &[internal::SERVICE_RAMDISK]);
    task.history_of_end("INFO", "servicing", "Servicing completed successfully");
    steps::forget(&mut task.node, Kind::Service);
    let event = way_home(&task.node, Event::Done);
    task.transition(event, None).await.map(|_| ())
}

/// Brings the machine out of the ramdisk, if a service has booted it: the
/// instance runs again, a machine without one is off. May be done again at any
/// time.
async fn leave_ramdisk(task: &mut Task) -> Result<(), Error> {
    if !booted_ramdisk(&task.node) {
        return Ok(());
    }
    ramdisk::put_away(task, true).await?;
    let bare = task.node.provision_state == ProvisionState::Manageable
        || home(&task.node) == ProvisionState::Manageable;
    if bare {
        return Ok(());
    }
    start_instance(task).await
}

/// Makes the machine boot its disk and switches it on.
pub(crate) async fn start_instance(task: &mut Task) -> Result<(), Error> {
    task.confirm().await?;
    drivers::boot(&task.node)?.prepare_instance(task).await?;
    power::set(task, PowerTarget::On, None).await
}

/// Whether a service has left the ramdisk running, or was about to leave it.
pub(crate) fn booted_ramdisk(node: &Node) -> bool {
    internal::read(node, internal::SERVICE_RAMDISK) == Some(true)
}

/// After an abort: the machine is brought out of the ramdisk. What goes wrong
/// is an operator's business from there on.
pub(crate) async fn bring_back(task: &mut Task) -> Result<(), Error> {
    let outcome = leave_ramdisk(task).await;
    internal::clear(&mut task.node, &[internal::SERVICE_RAMDISK]);
    if let Err(error) = outcome {
        if error.is_lease_lost() {
            return Err(error);
        }
        let text = format!(
            "Failed to tear down servicing after aborting the operation: {}",
            chain(&error)
        );
        task.set_error("servicing", &text);
        failure::hold_back(&mut task.node, failure::SERVICE_FAILURE, &text);
    }
    task.save().await
}

//! Stopping what waits, on request.

use wrought_wire::state::ProvisionState;

use crate::error::Error;
use crate::flows::rescue;
use crate::flows::service;
use crate::internal;
use crate::machine::Event;
use crate::steps;
use crate::steps::Kind;
use crate::steps::ramdisk;
use crate::task::Task;

/// Stops the operation of a node in a wait or hold state. `after`: the step
/// that had to end first.
pub(crate) async fn stop(task: &mut Task, kind: Kind, after: Option<&str>) -> Result<(), Error> {
    mark(task, kind, after).await?;
    clean_up(task).await
}

/// The part that the request waits for: the node is in its failed state, or,
/// after a service that was stopped at once, where it came from.
pub(crate) async fn mark(task: &mut Task, kind: Kind, after: Option<&str>) -> Result<(), Error> {
    let mut text = format!("By request, the {} operation was aborted", kind.as_str());
    if let Some(step) = after {
        text.push_str(&format!(
            " during or after the completion of step \"{step}\""
        ));
    }
    task.set_error(kind.event_type(), &text);
    steps::forget(&mut task.node, kind);
    internal::clear(&mut task.node, &[internal::AGENT_URL]);
    let target = task.node.target_provision_state;
    task.transition(Event::Abort, target).await?;
    match (kind, after) {
        (Kind::Service, None) => leave_failed_service(task).await,
        _ => Ok(()),
    }
}

/// From `service failed` to where the service was begun.
pub(crate) async fn leave_failed_service(task: &mut Task) -> Result<(), Error> {
    let event = service::way_home(&task.node, Event::Abort);
    task.transition(event, None).await.map(|_| ())
}

/// Puts away what the operation left behind.
pub(crate) async fn clean_up(task: &mut Task) -> Result<(), Error> {
    match task.node.provision_state {
        ProvisionState::ServiceFail => service::bring_back(task).await,
        ProvisionState::RescueFail => rescue::clean_up(task).await,
        _ => put_away(task).await,
    }
}

/// The same where nobody asked for it: an earlier try came to no end.
pub(crate) async fn put_away(task: &mut Task) -> Result<(), Error> {
    match task.node.provision_state {
        ProvisionState::Active | ProvisionState::Manageable => service::bring_back(task).await,
        _ => {
            let off = ramdisk::is_on_offer(&task.node);
            ramdisk::try_put_away(task, off).await
        }
    }
}

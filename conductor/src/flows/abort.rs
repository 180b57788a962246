//! Stopping what waits, on request.

use crate::error::Error;
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

/// The part that the request waits for: the node is in its failed state.
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
    task.transition(Event::Abort, target).await.map(|_| ())
}

/// Puts away what the operation left behind.
pub(crate) async fn clean_up(task: &mut Task) -> Result<(), Error> {
    let off = internal::read::<serde_json::Value>(&task.node, internal::BOOT).is_some();
    ramdisk::try_put_away(task, off).await
}

//! Inspecting. What the ramdisk sends is dealt with in [`crate::inspection`].

use jiff::Timestamp;
use wrought_store::node::Node;
use wrought_wire::state::ProvisionState;

use crate::drivers;
use crate::drivers::Inspection;
use crate::error::Error;
use crate::error::chain;
use crate::inspection;
use crate::internal;
use crate::machine::Event;
use crate::task::Task;

/// Readies the record for an inspection that was asked for.
pub(crate) fn prepare(node: &mut Node) {
    internal::forget_agent(node);
    internal::clear(node, &[internal::INSPECTED, internal::BMC_ADDRESSES]);
    node.inspection_started_at = Some(Timestamp::now());
    node.inspection_finished_at = None;
}

/// Begins, or goes on after a restart; the node is in `inspecting`.
pub(crate) async fn start(task: &mut Task) -> Result<(), Error> {
    if internal::read(&task.node, internal::INSPECTED) == Some(true) {
        return inspection::run(task).await;
    }
    let begun = match drivers::inspect(&task.node) {
        Ok(driver) => driver.inspect(task).await,
        Err(error) => Err(error),
    };
    match begun {
        Ok(Inspection::Waiting) => task.transition(Event::Wait, None).await.map(|_| ()),
        Ok(Inspection::Finished) => {
            task.node.inspection_finished_at = Some(Timestamp::now());
            task.history("INFO", "introspection", "Inspection completed successfully");
            task.transition(Event::Done, None).await.map(|_| ())
        }
        Err(error @ (Error::LeaseLost(_) | Error::Store { .. })) => Err(error),
        Err(error) => inspection::fail(task, &chain(&error)).await,
    }
}

/// The part of an abort that the request waits for.
pub(crate) async fn abort(task: &mut Task) -> Result<(), Error> {
    task.set_error("introspection", "Inspection was aborted by request.");
    internal::forget_agent(&mut task.node);
    internal::clear(&mut task.node, &[internal::BMC_ADDRESSES]);
    task.transition(Event::Abort, None).await.map(|_| ())
}

/// The ramdisk sent nothing for too long.
pub(crate) async fn timed_out(task: &mut Task) -> Result<(), Error> {
    if task.node.provision_state != ProvisionState::InspectWait {
        return Ok(());
    }
    let text = "Timeout reached while inspecting the node. Please check if the ramdisk responsible \
                for the inspection is running on the node, and can reach the API.";
    inspection::fail(task, text).await
}

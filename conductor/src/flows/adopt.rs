//! Adoption: a node gets a running instance that somebody else has deployed. The
//! machine itself is left alone.

use wrought_store::node::Node;
use wrought_wire::state::PowerState;

use crate::drivers;
use crate::error::Error;
use crate::error::chain;
use crate::flows::tear_down;
use crate::internal;
use crate::machine::Event;
use crate::task::Task;

/// Event type in the history.
const EVENT: &str = "adoption";

/// Readies the record for an adoption that was asked for.
pub(crate) fn prepare(node: &mut Node) {
    internal::forget_agent(node);
    internal::clear(node, &[internal::SERVICE_RAMDISK]);
}

/// Runs, or runs anew after a restart; the node is in `adopting`.
pub(crate) async fn run(task: &mut Task) -> Result<(), Error> {
    match take_over(task).await {
        Ok(state) => {
            let node = &mut task.node;
            node.power_state = Some(state);
            internal::clear(node, &[internal::INSTANCE]);
            task.history_of_end("INFO", EVENT, "Adoption completed successfully");
            task.transition(Event::Done, None).await.map(|_| ())
        }
        Err(error @ (Error::LeaseLost(_) | Error::Store { .. })) => Err(error),
        Err(error) => {
            let text = format!(
                "Error while attempting to adopt node {}: {}",
                task.node.uuid,
                chain(&error)
            );
            task.set_error(EVENT, &text);
            task.node.power_state = None;
            task.transition(Event::Fail, None).await.map(|_| ())
        }
    }
}

async fn take_over(task: &mut Task) -> Result<PowerState, Error> {
    let svc = std::sync::Arc::clone(&task.svc);
    drivers::management(&task.node)?.validate(&svc, &task.node)?;
    let power = drivers::power(&task.node)?;
    power.validate(&svc, &task.node)?;
    let state = power.state(&svc, &task.node).await?;
    if state == PowerState::Error {
        return Err(Error::Step(
            "the BMC does not tell whether the machine is on".to_owned(),
        ));
    }
    tear_down::restore_instance(task).await?;
    Ok(state)
}

//! Unrescue: the rescue ramdisk goes, the instance comes back.

use wrought_store::node::Node;

use crate::drivers;
use crate::error::Error;
use crate::error::chain;
use crate::flows::rescue;
use crate::flows::rescue::RESCUE;
use crate::internal;
use crate::machine::Event;
use crate::task::Task;

/// Readies the record for an unrescue that was asked for.
pub(crate) fn prepare(node: &mut Node) {
    rescue::forget_password(node);
    internal::forget_agent(node);
    internal::clear(node, &[internal::SERVICE_RAMDISK]);
}

/// Runs, or runs anew after a restart; the node is in `unrescuing`.
pub(crate) async fn run(task: &mut Task) -> Result<(), Error> {
    let outcome = match drivers::rescue(&task.node) {
        Ok(driver) => driver.unrescue(task).await,
        Err(error) => Err(error),
    };
    match outcome {
        Ok(()) => {
            task.history_of_end("INFO", RESCUE, "Unrescue completed successfully");
            task.transition(Event::Done, None).await.map(|_| ())
        }
        Err(error @ (Error::LeaseLost(_) | Error::Store { .. })) => Err(error),
        Err(error) => {
            task.set_error(RESCUE, &format!("Failed to unrescue: {}", chain(&error)));
            task.transition(Event::Fail, None).await.map(|_| ())
        }
    }
}

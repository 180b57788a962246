//! A machine whose network boot came to nothing is started again. The node
//! stays in its wait state; the time-out runs on.

use crate::error::Error;
use crate::error::chain;
use crate::periodic;
use crate::steps::ramdisk;
use crate::task::Task;

/// Starts it again, if its agent has not called meanwhile.
pub(crate) async fn run(task: &mut Task) -> Result<(), Error> {
    if !periodic::boot_came_to_nothing(&task.svc, &task.node) {
        return Ok(());
    }
    let text = format!(
        "Nothing called within {} s of the machine's start; it is started again",
        task.svc.config.conductor.boot_retry_timeout
    );
    tracing::warn!(node = %task.node.uuid, text);
    task.history("WARNING", "boot", &text);
    match ramdisk::boot(task).await {
        Err(error @ (Error::LeaseLost(_) | Error::Store { .. })) => Err(error),
        Err(error) => {
            // The next round tries again, until the time-out.
            let text = format!("The machine could not be started again: {}", chain(&error));
            tracing::warn!(node = %task.node.uuid, text);
            task.history("WARNING", "boot", &text);
            task.save().await
        }
        Ok(()) => Ok(()),
    }
}

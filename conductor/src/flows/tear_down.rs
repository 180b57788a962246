//! Tear-down: the machine is stopped, the instance forgotten, then the node is
//! cleaned. A private copy of the instance lives until cleaning has finished.

use serde_json::json;

use crate::drivers;
use crate::error::Error;
use crate::error::chain;
use crate::flows::clean;
use crate::internal;
use crate::machine::Event;
use crate::steps;
use crate::steps::Kind;
use crate::steps::ramdisk;
use crate::task::Task;

/// Runs; the node is in `deleting`.
pub(crate) async fn run(task: &mut Task) -> Result<(), Error> {
    let outcome = tear_down(task).await;
    if let Err(error) = outcome {
        if error.is_lease_lost() {
            return Err(error);
        }
        forget_instance(task);
        task.set_error(
            "provisioning",
            &format!("Failed to tear down: {}", chain(&error)),
        );
        return task.transition(Event::Fail, None).await.map(|_| ());
    }
    forget_instance(task);
    steps::forget(&mut task.node, Kind::Deploy);
    steps::forget(&mut task.node, Kind::Clean);
    task.transition(Event::Clean, None).await?;
    clean::start(task).await
}

async fn tear_down(task: &mut Task) -> Result<(), Error> {
    drivers::deploy(&task.node)?.tear_down(task).await?;
    ramdisk::put_away(task, false).await
}

/// Clears the instance where the API shows it; keeps a copy that the API does
/// not show, unless there is one from an earlier try.
fn forget_instance(task: &mut Task) {
    let node = &mut task.node;
    let known = !node.instance_info.is_empty() || node.instance_uuid.is_some();
    if known {
        let copy = json!({
            "instance_info": node.instance_info,
            "instance_uuid": node.instance_uuid,
            "instance_name": node.instance_name,
        });
        internal::set(node, internal::INSTANCE, copy);
    }
    node.instance_info.clear();
    node.instance_uuid = None;
    node.allocation_uuid = None;
    node.instance_name = None;
    internal::clear(
        node,
        &[
            internal::ROOT_UUID,
            internal::IS_WHOLE_DISK_IMAGE,
            crate::flows::deploy::REQUESTED,
        ],
    );
}

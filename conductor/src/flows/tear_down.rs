//! Tear-down: the machine is stopped, the instance forgotten, then the node is
//! cleaned. A private copy of the instance lives until cleaning has finished:
//! for a rebuild or an adoption after all.

use serde::Deserialize;
use serde::Serialize;
use serde_json::Map;
use serde_json::Value;
use uuid::Uuid;
use wrought_store::NodeQuery;
use wrought_store::node::Node;

use crate::admission;
use crate::admission::Asker;
use crate::admission::Entry;
use crate::admission::Lane;
use crate::drivers;
use crate::error::Error;
use crate::error::chain;
use crate::flows::clean;
use crate::flows::deploy;
use crate::flows::rescue;
use crate::internal;
use crate::machine::Event;
use crate::steps;
use crate::steps::Kind;
use crate::steps::ramdisk;
use crate::task::Task;
use crate::task::store;

/// What of an instance is kept; stored as `wrought_instance`.
#[derive(Debug, Serialize, Deserialize)]
struct Instance {
    instance_info: Map<String, Value>,
    instance_uuid: Option<Uuid>,
    instance_name: Option<String>,
}

/// Readies the record for a tear-down that was asked for.
pub(crate) fn prepare(node: &mut Node) {
    for kind in Kind::ALL {
        steps::forget(node, kind);
    }
    rescue::forget_password(node);
    internal::clear(node, &[internal::AGENT_URL]);
}

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
    for kind in Kind::ALL {
        steps::forget(&mut task.node, kind);
    }
    internal::clear(
        &mut task.node,
        &[
            internal::SERVICE_RAMDISK,
            internal::RESCUED,
            internal::RECOVERIES,
        ],
    );
    let entry = match clean::is_wanted(task) {
        true => Box::pin(admission::enter(task, Lane::Clean, Asker::Flow)).await?,
        false => Entry::Now,
    };
    if let Err(error) = task.transition(Event::Clean, None).await {
        admission::cancel(task, Lane::Clean).await;
        return Err(error);
    }
    match entry {
        Entry::Now => Box::pin(clean::start(task)).await,
        Entry::Queued => Ok(()),
    }
}

async fn tear_down(task: &mut Task) -> Result<(), Error> {
    drivers::deploy(&task.node)?.tear_down(task).await?;
    ramdisk::put_away(task, false).await?;
    let svc = std::sync::Arc::clone(&task.svc);
    let network = drivers::network(&task.node)?;
    for vif in network.vifs(&svc, &task.node).await? {
        network.detach(&svc, &task.node, &vif).await?;
    }
    Ok(())
}

/// Clears the instance where the API shows it; keeps a copy that the API does
/// not show, unless there is one from an earlier try.
fn forget_instance(task: &mut Task) {
    let node = &mut task.node;
    rescue::forget_password(node);
    let instance = Instance {
        instance_info: std::mem::take(&mut node.instance_info),
        instance_uuid: node.instance_uuid.take(),
        instance_name: node.instance_name.take(),
    };
    if !instance.instance_info.is_empty() || instance.instance_uuid.is_some() {
        internal::set(node, internal::INSTANCE, instance);
    }
    node.allocation_uuid = None;
    internal::clear(
        node,
        &[
            internal::ROOT_UUID,
            internal::IS_WHOLE_DISK_IMAGE,
            deploy::REQUESTED,
        ],
    );
}

/// Gives the node the instance back that it had before its tear-down, where it
/// has no other by now; the caller saves. The instance's UUID stays with the
/// node that has it in the meantime.
pub(crate) async fn restore_instance(task: &mut Task) -> Result<(), Error> {
    let kept: Option<Instance> = internal::read(&task.node, internal::INSTANCE);
    let bare = task.node.instance_info.is_empty() && task.node.instance_uuid.is_none();
    let Some(kept) = kept.filter(|_| bare) else {
        return Ok(());
    };
    let taken = match kept.instance_uuid {
        None => false,
        Some(uuid) => {
            let query = NodeQuery {
                instance_uuid: Some(uuid),
                include_children: true,
                ..NodeQuery::default()
            };
            let found = task.svc.store.list_nodes_brief(&query).await;
            !found.map_err(store("look for an instance"))?.is_empty()
        }
    };
    let node = &mut task.node;
    node.instance_info = kept.instance_info;
    if !taken {
        node.instance_uuid = kept.instance_uuid;
        node.instance_name = kept.instance_name;
    }
    Ok(())
}

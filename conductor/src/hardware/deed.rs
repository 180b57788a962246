//! What is done to a node's hardware after the answer to the request: the node
//! tells how it ended.

use std::sync::Arc;

use serde_json::Map;
use serde_json::Value;
use wrought_rpc::Media;
use wrought_store::node::Node;
use wrought_wire::state::BootMode;
use wrought_wire::state::MediaKind;

use crate::drivers;
use crate::drivers::vendor::Method;
use crate::error::Error;
use crate::error::chain;
use crate::flows::Permit;
use crate::service::Service;
use crate::task::Task;

/// One thing to be done.
#[derive(Debug)]
pub(super) enum Deed {
    /// Set the boot mode.
    BootMode(BootMode),
    /// Switch secure boot.
    SecureBoot(bool),
    /// Switch the console.
    Console(bool),
    /// Put an image into a device.
    Attach(Media),
    /// Empty devices.
    Detach(Vec<MediaKind>),
    /// Call a vendor method.
    Vendor(&'static Method, Map<String, Value>),
}

impl Deed {
    /// What the history calls it.
    const fn event(&self) -> &'static str {
        match self {
            Self::BootMode(_) => "boot mode",
            Self::SecureBoot(_) => "secure boot",
            Self::Console(_) => "console",
            Self::Attach(_) | Self::Detach(_) => "virtual media",
            Self::Vendor(..) => "vendor",
        }
    }

    /// The beginning of the sentence that tells of a failure, in Ironic's words.
    fn failure(&self, node: &Node) -> String {
        let node = node.uuid;
        match self {
            Self::BootMode(mode) => format!("Failed to change boot_mode state to '{mode}'"),
            Self::SecureBoot(on) => format!(
                "Failed to change secure_boot state to '{}'",
                if *on { "True" } else { "False" }
            ),
            Self::Console(on) => format!(
                "Error {} console on node {node}",
                if *on { "enabling" } else { "disabling" }
            ),
            Self::Attach(media) => {
                format!("Could not attach device {} to node {node}", media.kind)
            }
            Self::Detach(kinds) => {
                let names: Vec<String> = kinds.iter().map(|kind| format!("'{kind}'")).collect();
                let names = names.join(", ");
                format!("Could not detach device(s) [{names}] from node {node}")
            }
            Self::Vendor(method, _) => {
                format!("Vendor method {} failed on node {node}", method.name)
            }
        }
    }

    async fn perform(&self, task: &mut Task) -> Result<(), Error> {
        let svc = Arc::clone(&task.svc);
        task.confirm().await?;
        match self {
            Self::BootMode(mode) => {
                let management = drivers::management(&task.node)?;
                management.set_boot_mode(&svc, &task.node, *mode).await?;
                task.node.boot_mode = Some(mode.as_str().to_owned());
            }
            Self::SecureBoot(on) => {
                let management = drivers::management(&task.node)?;
                management.set_secure_boot(&svc, &task.node, *on).await?;
                task.node.secure_boot = Some(*on);
            }
            Self::Console(on) => {
                let console = drivers::console(&task.node)?;
                match on {
                    true => console.start(&svc, &task.node).await?,
                    false => console.stop(&svc, &task.node).await?,
                }
                task.node.console_enabled = *on;
            }
            Self::Attach(media) => {
                let management = drivers::management(&task.node)?;
                management.attach_media(&svc, &task.node, media).await?;
            }
            Self::Detach(kinds) => {
                let management = drivers::management(&task.node)?;
                management.detach_media(&svc, &task.node, kinds).await?;
            }
            Self::Vendor(method, parameters) => {
                let vendor = drivers::vendor(&task.node)?;
                vendor.call(&svc, &task.node, method, parameters).await?;
            }
        }
        task.save().await
    }
}

/// Does it in the background; gives the lock back.
pub(super) fn spawn(svc: &Arc<Service>, task: Task, deed: Deed, permit: Permit) {
    let owner = Arc::clone(svc);
    svc.spawn(async move {
        let node = task.node.uuid;
        run(task, &deed).await;
        drop(permit);
        owner.watch(node);
    });
}

async fn run(mut task: Task, deed: &Deed) {
    let node = task.node.uuid;
    let outcome = task.fence().guard(deed.perform(&mut task)).await;
    match outcome {
        Ok(()) => {}
        Err(error) if error.is_lease_lost() => {
            tracing::warn!(%node, event = deed.event(), "lease lost, work dropped");
            return;
        }
        Err(error) => {
            let text = format!("{}: {}", deed.failure(&task.node), chain(&error));
            task.set_error(deed.event(), &text);
            if let Err(error) = task.save().await {
                tracing::error!(%node, err = %chain(&error), "failure not recorded");
            }
        }
    }
    task.release().await;
}

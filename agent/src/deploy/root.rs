//! The disk that an image goes to.

use std::thread;
use std::time::Duration;

use crate::command::CommandFailure;
use crate::command::Context;
use crate::deploy::failure;
use crate::deploy::node::NodeData;
use crate::deploy::raid;
use crate::disk::Disk;
use crate::disk::Enumerator;
use crate::disk::root_disk;
use crate::system;

/// Controllers that need longer after a start have hung.
const SETTLED: Duration = Duration::from_secs(120);

/// Chooses the root disk: the root volume of the node's software RAID, else by
/// the node's hints. Shortly after a start disks may still be turning up, and
/// are waited for.
pub(super) fn choose(context: &Context, node: &NodeData) -> Result<Disk, CommandFailure> {
    let rules = node.disk_rules()?;
    let params = &context.agent.params;
    let mut attempt = 0;
    loop {
        raid::assemble(context, node)?;
        let disks = Enumerator::new(&context.agent.only_disk).disks();
        let found = match raid::root_volume(context, node, &disks) {
            Ok(Some(array)) => {
                if !rules.root.0.is_empty() {
                    tracing::warn!(
                        "the node's RAID has a root volume: the root device hints ({}) are not \
                         looked at",
                        rules.root
                    );
                }
                Ok(array)
            }
            Ok(None) => {
                let found = root_disk(&disks, &rules).cloned();
                found.map_err(|error| failure::no_root_disk(&error))
            }
            Err(error) => Err(error),
        };
        match found {
            Ok(disk) => {
                tracing::info!(%disk, "root disk chosen");
                return Ok(disk);
            }
            Err(error) => {
                let young = context.agent.is_init && system::since_boot() < SETTLED;
                if !young || attempt >= params.disk_wait_attempts || context.cancel.is_cancelled() {
                    return Err(error);
                }
                attempt += 1;
                context.progress.stage("wait for disks");
                thread::sleep(params.disk_wait_delay);
            }
        }
    }
}

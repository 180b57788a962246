//! Taking in what a ramdisk found. Nobody has to authenticate here: only nodes
//! that wait for it are found, and what comes is bounded by the API.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;
use wrought_rpc::Inspected;
use wrought_store::Inventory;
use wrought_wire::secret::MASK;
use wrought_wire::state::ProvisionState;

use super::discover;
use super::find;
use super::hooks;
use crate::config::Hook;
use crate::error::Error;
use crate::flows;
use crate::flows::Work;
use crate::heartbeat;
use crate::internal;
use crate::machine::Event;
use crate::service::Service;
use crate::task::Task;
use crate::task::store;
use crate::token;

/// How long the ramdisk's request waits for the node's lock; it comes again by
/// itself.
const SHORT: Duration = Duration::from_millis(500);

/// Stores what was found and goes on with the inspection in the background.
pub(crate) async fn continue_inspection(
    svc: &Arc<Service>,
    named: Option<Uuid>,
    mut found: Inventory,
) -> Result<Inspected, Error> {
    let permit = svc.permit()?;
    let node = match find::node(svc, named, &found).await? {
        Some(node) => node,
        None => discover::node(svc, named, &mut found).await?,
    };
    // Who does not know which node it is asks any conductor.
    let mut task = match named {
        Some(_) => Task::take(svc, node, SHORT).await?,
        None => Task::take_any(svc, node, SHORT).await?,
    };
    match accept(&mut task, &found).await {
        Ok(inspected) => {
            flows::spawn(svc, task, Work::Inspected, permit);
            Ok(inspected)
        }
        Err(error) => {
            task.release().await;
            Err(error)
        }
    }
}

async fn accept(task: &mut Task, found: &Inventory) -> Result<Inspected, Error> {
    let svc = Arc::clone(&task.svc);
    let state = task.node.provision_state;
    let discovered = state == ProvisionState::Enroll && internal::is_discovered(&task.node);
    if state != ProvisionState::InspectWait && !discovered {
        return Err(find::missing());
    }
    remember_disks(task).await?;
    let saved = svc.store.save_inventory(task.node.uuid, found).await;
    saved.map_err(store("store an inventory"))?;
    internal::set(&mut task.node, internal::INSPECTED, true);
    let token = match internal::text(&task.node, internal::AGENT_TOKEN) {
        Some(_) => MASK.to_owned(),
        None => {
            let token = token::random();
            internal::set(&mut task.node, internal::AGENT_TOKEN, &token);
            token
        }
    };
    if discovered {
        task.save().await?;
    } else {
        task.transition(Event::Resume, None).await?;
    }
    Ok(Inspected {
        config: heartbeat::config(&svc, &task.node, &token),
        node: task.node.clone(),
    })
}

/// Keeps what the last inspection told of the disks, before it is replaced: the
/// hook `raid-device` looks for the disk that is new. What is kept already, from
/// before an inspection that failed, stays.
async fn remember_disks(task: &mut Task) -> Result<(), Error> {
    let hooks = &task.svc.config.conductor.inspection.hooks;
    let is_kept = internal::read::<Vec<String>>(&task.node, internal::KNOWN_DISKS).is_some();
    if is_kept || !hooks.contains(&Hook::RaidDevice) {
        return Ok(());
    }
    let read = task.svc.store.inventory(task.node.uuid).await;
    if let Some(last) = read.map_err(store("read an inventory"))? {
        let disks = hooks::serials(&last.inventory);
        internal::set(&mut task.node, internal::KNOWN_DISKS, disks);
    }
    Ok(())
}

//! Requests: `PUT …/states/provision` and `PUT …/states/power`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;
use wrought_rpc::ProvisionRequest;
use wrought_store::node::Node;
use wrought_wire::state::PowerTarget;
use wrought_wire::state::ProvisionState;
use wrought_wire::state::Verb;

use crate::admission;
use crate::admission::Asker;
use crate::admission::Entry;
use crate::admission::Lane;
use crate::drivers;
use crate::drivers::image;
use crate::error::Error;
use crate::fast_track;
use crate::flows;
use crate::flows::Permit;
use crate::flows::Work;
use crate::flows::abort;
use crate::flows::tear_down;
use crate::internal;
use crate::machine;
use crate::machine::Effect;
use crate::machine::Transition;
use crate::power;
use crate::relatives;
use crate::service::Service;
use crate::steps;
use crate::steps::Kind;
use crate::steps::list;
use crate::steps::templates;
use crate::task::Task;
use crate::task::store;
use crate::validate;

/// Starts a provisioning operation.
pub(crate) async fn provision(
    svc: &Arc<Service>,
    uuid: Uuid,
    request: ProvisionRequest,
) -> Result<(), Error> {
    let read = svc
        .store
        .node_by_uuid(uuid)
        .await
        .map_err(store("read a node"))?;
    let node = read.ok_or_else(|| Error::NodeNotFound(uuid.to_string()))?;
    if let Err(error) = legal(&node, request.verb) {
        return Err(match node.reservation {
            Some(host) => Error::Locked { node: uuid, host },
            None => error,
        });
    }
    supported(&node, request.verb)?;
    svc.refresh_plugins().await;
    let permit = svc.permit();
    let mut task = Task::take(svc, uuid, svc.config.pace.lock_wait).await?;
    let begun = match legal(&task.node, request.verb) {
        Ok(edge) => begin(&mut task, &request, edge, permit).await,
        Err(error) => Err(error),
    };
    match begun {
        Ok(Some((effect, permit))) => flows::spawn(svc, task, Work::Start(effect), permit),
        Ok(None) => {
            task.release().await;
            svc.watch(uuid);
            admission::nudge(svc);
        }
        Err(error) => {
            task.release().await;
            return Err(error);
        }
    }
    Ok(())
}

/// Whether the node's state allows the verb. A node that waits in a queue may
/// leave it: nobody works on it yet.
fn legal(node: &Node, verb: Verb) -> Result<Transition, Error> {
    let asked = match admission::way_out(node, verb) {
        Some(edge) => Ok(edge),
        None => machine::asked(node.provision_state, verb),
    };
    asked.map_err(|_| Error::WrongState {
        verb: verb.as_str().to_owned(),
        node: node.uuid,
        state: node.provision_state,
    })
}

/// Whether there is anything behind the verb for this node.
fn supported(node: &Node, verb: Verb) -> Result<(), Error> {
    let extension = match (verb, node.provision_state) {
        (Verb::Inspect, _) if drivers::inspect(node).is_err() => "inspect",
        (Verb::Rescue | Verb::Unrescue, _) if drivers::rescue(node).is_err() => "rescue",
        _ => return Ok(()),
    };
    Err(Error::Unsupported {
        driver: node.driver.clone(),
        extension: extension.to_owned(),
    })
}

/// The part of a request that the caller waits for. Gives what is to be done
/// in the background, with the worker for it; none when nothing is, or when
/// the node waits in a queue.
async fn begin(
    task: &mut Task,
    request: &ProvisionRequest,
    edge: Transition,
    permit: Result<Permit, Error>,
) -> Result<Option<(Effect, Permit)>, Error> {
    // Where automated cleaning is off it is over at once.
    let cleans = request.verb == Verb::Clean || flows::clean::is_wanted(task);
    let lane = edge.effect.and_then(Lane::of);
    let lane = lane.filter(|lane| *lane != Lane::Clean || cleans);
    // Without a lane there is nowhere to wait.
    let permit = match lane {
        Some(_) => permit.ok(),
        None => Some(permit?),
    };
    if admission::is_queued(&task.node) {
        admission::give_up(task).await?;
        if request.verb == Verb::Abort {
            return Ok(None);
        }
    }
    match request.verb {
        Verb::Active | Verb::Deploy | Verb::Rebuild => deploy(task, request).await?,
        Verb::Deleted | Verb::Undeploy => delete(task)?,
        Verb::Rescue => rescue(task, request).await?,
        Verb::Unrescue => unrescue(task)?,
        Verb::Adopt => flows::adopt::prepare(&mut task.node),
        Verb::Provide => provide(task).await?,
        Verb::Clean => clean(task, request).await?,
        Verb::Inspect => inspect(task).await?,
        Verb::Abort => return Ok(stop(task).await?.zip(permit)),
        Verb::Service | Verb::Manage | Verb::Unhold => {}
    }
    let target = match request.verb {
        Verb::Clean => Some(ProvisionState::Manageable),
        Verb::Unhold => task.node.target_provision_state,
        Verb::Service => service(task, request).await?,
        Verb::Manage => {
            internal::clear(&mut task.node, &[internal::SERVICE_RAMDISK]);
            None
        }
        _ => None,
    };
    if edge.effect.is_some() {
        task.node.last_error = None;
    }
    let entry = match lane {
        Some(lane) => {
            let worker = permit.is_some();
            Box::pin(admission::enter(task, lane, Asker::Request { worker })).await?
        }
        None => Entry::Now,
    };
    match (task.transition(request.verb.into(), target).await, lane) {
        (Ok(_), _) if entry == Entry::Queued => Ok(None),
        (Ok(moved), _) => Ok(moved.effect.zip(permit)),
        (Err(error), Some(lane)) => {
            admission::cancel(task, lane).await;
            Err(error)
        }
        (Err(error), None) => Err(error),
    }
}

fn in_maintenance(node: &Node, operation: &str) -> Result<(), Error> {
    if !node.maintenance {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "The {operation} operation can't be performed on node {} because it's in maintenance mode.",
        node.uuid
    )))
}

fn not_protected(node: &Node) -> Result<(), Error> {
    if !node.protected {
        return Ok(());
    }
    Err(Error::Forbidden(format!(
        "Node {} is protected and cannot be undeployed, rebuilt or deleted",
        node.uuid
    )))
}

async fn deploy(task: &mut Task, request: &ProvisionRequest) -> Result<(), Error> {
    let rebuild = request.verb == Verb::Rebuild;
    in_maintenance(
        &task.node,
        if rebuild {
            "rebuilding"
        } else {
            "provisioning"
        },
    )?;
    if rebuild {
        not_protected(&task.node)?;
    }
    if rebuild {
        // What an earlier tear-down, which failed, has taken away.
        tear_down::restore_instance(task).await?;
    }
    let wanted = request.deploy_steps.as_deref();
    let wanted = templates::deploy_steps(&task.svc, &task.node, wanted).await?;
    let node = &mut task.node;
    steps::forget(node, Kind::Deploy);
    internal::clear(node, &[internal::ROOT_UUID, internal::AGENT_PEAK_RSS]);
    internal::set(node, internal::IS_WHOLE_DISK_IMAGE, true);
    match &request.configdrive {
        Some(Value::Null) | None => {}
        Some(drive) => {
            node.instance_info
                .insert("configdrive".to_owned(), drive.clone());
        }
    }
    match wanted.is_empty() {
        false => internal::set(node, flows::deploy::REQUESTED, &wanted),
        true => internal::clear(node, &[flows::deploy::REQUESTED]),
    }
    let svc = Arc::clone(&task.svc);
    validate::deploy(&svc, &task.node).await?;
    let node = &mut task.node;
    if let Some(kind) = image::kind(node) {
        let info = &mut node.instance_info;
        info.entry("image_type").or_insert(Value::String(kind));
    }
    if rebuild && image::preserve_ephemeral(node)? {
        task.history(
            "WARNING",
            Kind::Deploy.event_type(),
            "preserve_ephemeral is set, but an image of the whole disk has no ephemeral partition: \
             the whole disk is written",
        );
    }
    fast_track::keep_or_forget(task).await
}

fn delete(task: &mut Task) -> Result<(), Error> {
    not_protected(&task.node)?;
    validate::power(&task.svc, &task.node)?;
    tear_down::prepare(&mut task.node);
    Ok(())
}

/// Gives where the node goes.
async fn service(
    task: &mut Task,
    request: &ProvisionRequest,
) -> Result<Option<ProvisionState>, Error> {
    in_maintenance(&task.node, "service")?;
    let svc = Arc::clone(&task.svc);
    validate::service(&svc, &task.node).await?;
    flows::service::prepare(&mut task.node, request)
}

async fn rescue(task: &mut Task, request: &ProvisionRequest) -> Result<(), Error> {
    in_maintenance(&task.node, "rescuing")?;
    let svc = Arc::clone(&task.svc);
    validate::rescue(&svc, &task.node).await?;
    let password = request.rescue_password.as_ref();
    flows::rescue::prepare(&mut task.node, password, &svc.config.conductor)
}

fn unrescue(task: &mut Task) -> Result<(), Error> {
    in_maintenance(&task.node, "unrescuing")?;
    validate::power(&task.svc, &task.node)?;
    flows::unrescue::prepare(&mut task.node);
    Ok(())
}

/// Where operations on nodes in maintenance are not gone on with, none is
/// begun.
fn may_begin(task: &Task, operation: &str) -> Result<(), Error> {
    match task.svc.config.conductor.allow_provisioning_in_maintenance {
        true => Ok(()),
        false => in_maintenance(&task.node, operation),
    }
}

async fn provide(task: &mut Task) -> Result<(), Error> {
    may_begin(task, "providing")?;
    if task.node.retired {
        return Err(Error::Invalid(format!(
            "Node {} can not have its provision state changed to available: it is retired.",
            task.node.uuid
        )));
    }
    let svc = Arc::clone(&task.svc);
    if task
        .node
        .automated_clean
        .unwrap_or(svc.config.conductor.automated_clean)
    {
        validate::clean(&svc, &task.node).await?;
    }
    steps::forget(&mut task.node, Kind::Clean);
    fast_track::keep_or_forget(task).await
}

async fn clean(task: &mut Task, request: &ProvisionRequest) -> Result<(), Error> {
    may_begin(task, "cleaning")?;
    let given = request.clean_steps.as_deref().unwrap_or_default();
    let given = list::requested(given, "clean_steps")?;
    if given.is_empty() {
        return Err(Error::Invalid(
            "\"clean_steps\" is required when setting target provision state to clean".to_owned(),
        ));
    }
    let svc = Arc::clone(&task.svc);
    validate::clean(&svc, &task.node).await?;
    let node = &mut task.node;
    steps::forget(node, Kind::Clean);
    internal::set(node, &Kind::Clean.list_key(), &given);
    if request.disable_ramdisk == Some(true) {
        internal::set(node, Kind::Clean.no_ramdisk_key(), true);
    }
    fast_track::keep_or_forget(task).await
}

async fn inspect(task: &mut Task) -> Result<(), Error> {
    let svc = Arc::clone(&task.svc);
    validate::inspect(&svc, &task.node).await?;
    flows::inspect::prepare(&mut task.node);
    Ok(())
}

/// Abort: at once, or after the step that must not be cut short.
async fn stop(task: &mut Task) -> Result<Option<Effect>, Error> {
    match task.node.provision_state {
        ProvisionState::InspectWait => {
            flows::inspect::abort(task).await?;
            return Ok(Some(Effect::CleanUp));
        }
        ProvisionState::RescueWait => {
            flows::rescue::abort(task).await?;
            return Ok(Some(Effect::CleanUp));
        }
        ProvisionState::ServiceFail => return leave_service(task).await,
        _ => {}
    }
    let Some(kind) = Kind::of(task.node.provision_state) else {
        return Ok(None);
    };
    let current = kind.current_mut(&mut task.node);
    let abortable = current
        .get("abortable")
        .and_then(Value::as_bool)
        .unwrap_or(false);
    if !current.is_empty() && !abortable {
        current.insert("abort_after".to_owned(), Value::Bool(true));
        task.save().await?;
        return Ok(None);
    }
    abort::mark(task, kind, None).await?;
    Ok(Some(Effect::CleanUp))
}

/// A service that has failed already: back to where it was begun.
async fn leave_service(task: &mut Task) -> Result<Option<Effect>, Error> {
    if task.node.maintenance {
        return Err(Error::Conflict(format!(
            "The service of node {} cannot be aborted while the node is in maintenance mode: look \
             at its maintenance_reason, then take it out of maintenance",
            task.node.uuid
        )));
    }
    task.node.last_error = None;
    abort::leave_failed_service(task).await?;
    Ok(Some(Effect::CleanUp))
}

/// Starts a power change.
pub(crate) async fn change_power(
    svc: &Arc<Service>,
    uuid: Uuid,
    target: PowerTarget,
    timeout: Option<u32>,
) -> Result<(), Error> {
    let permit = svc.permit()?;
    let mut task = Task::take(svc, uuid, svc.config.pace.lock_wait).await?;
    let begun = async {
        validate::power(svc, &task.node)?;
        relatives::check(svc, &task.node, target).await?;
        let node = &mut task.node;
        node.target_power_state = Some(power::goal(target));
        // A failed operation's reason outlives a power request.
        if !node.provision_state.is_failure() {
            node.last_error = None;
        }
        task.save().await
    };
    match begun.await {
        Ok(()) => {
            let timeout = timeout.map(|seconds| Duration::from_secs(seconds.into()));
            flows::spawn(svc, task, Work::Power(target, timeout), permit);
            Ok(())
        }
        Err(error) => {
            task.release().await;
            Err(error)
        }
    }
}

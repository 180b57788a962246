//! Making, changing and deleting records that are rows of one table. What
//! belongs to a node is written under the node's lock; each kind has rules of
//! its own.

mod chassis;
mod ports;
mod volumes;

use std::sync::Arc;

use uuid::Uuid;
use wrought_rpc::Record;
use wrought_store::Allocation;
use wrought_store::DeployTemplate;
use wrought_store::InspectionRule;
use wrought_store::Row;
use wrought_store::Runbook;
use wrought_store::node::Node;

use crate::allocations;
use crate::error::Error;
use crate::inspection;
use crate::nodes::taken;
use crate::service::Service;
use crate::task::Task;

/// What is about to happen to a record.
#[derive(Debug)]
enum Deed<R> {
    Create,
    /// The record as it is stored.
    Update(R),
    Delete,
}

/// A kind of record with its rules.
trait Kept: Row {
    /// The node that it belongs to.
    fn node(&self) -> Option<Uuid> {
        None
    }

    /// Whether it may be done; `node` is the locked one that it belongs to or
    /// comes from.
    async fn allow(&self, _: &Service, _: Option<&Node>, _: &Deed<Self>) -> Result<(), Error> {
        Ok(())
    }
}

/// What else is done when one is made or deleted is in `allocations`.
impl Kept for Allocation {}

impl Kept for InspectionRule {
    async fn allow(&self, _: &Service, _: Option<&Node>, deed: &Deed<Self>) -> Result<(), Error> {
        match deed {
            Deed::Delete => Ok(()),
            Deed::Create | Deed::Update(_) => {
                inspection::rules::check(self).map_err(Error::Invalid)
            }
        }
    }
}

impl Kept for DeployTemplate {}

impl Kept for Runbook {}

macro_rules! each {
    ($record:expr, $one:ident => $done:expr) => {
        match $record {
            Record::Allocation($one) => $done,
            Record::Chassis($one) => $done,
            Record::DeployTemplate($one) => $done,
            Record::InspectionRule($one) => $done,
            Record::Port($one) => $done,
            Record::Portgroup($one) => $done,
            Record::Runbook($one) => $done,
            Record::VolumeConnector($one) => $done,
            Record::VolumeTarget($one) => $done,
        }
    };
}

/// Stores a new record; gives it as it was stored. An allocation begins to
/// look for its node.
pub(crate) async fn create(svc: &Arc<Service>, record: Record) -> Result<Record, Error> {
    if let Record::Allocation(allocation) = record {
        return Ok(allocations::create(svc, allocation).await?.into());
    }
    each!(record, one => Ok(write(svc, one, Deed::Create).await?.into()))
}

/// Stores a changed record; gives it as it was stored.
pub(crate) async fn update(svc: &Arc<Service>, record: Record) -> Result<Record, Error> {
    each!(record, one => {
        let stored = stored(svc, &one).await?;
        Ok(write(svc, one, Deed::Update(stored)).await?.into())
    })
}

/// Deletes a record. An allocation frees its node.
pub(crate) async fn destroy(svc: &Arc<Service>, record: Record) -> Result<(), Error> {
    if let Record::Allocation(allocation) = record {
        return allocations::destroy(svc, allocation.uuid).await;
    }
    each!(record, one => write(svc, one, Deed::Delete).await.map(drop))
}

/// What is replaced: if it changes before it is, saving fails.
async fn stored<R: Kept>(svc: &Service, one: &R) -> Result<R, Error> {
    let (what, uuid) = (R::table().what(), one.uuid());
    let read = svc.store.row(uuid).await.map_err(taken)?;
    let read: R =
        read.ok_or_else(|| Error::NotFound(format!("The {what} {uuid} could not be found.")))?;
    if read.updated_at() != one.updated_at() {
        return Err(Error::Stale { what, uuid });
    }
    Ok(read)
}

async fn write<R: Kept>(svc: &Arc<Service>, mut one: R, deed: Deed<R>) -> Result<R, Error> {
    let tasks = lock(svc, &one, &deed).await?;
    let done = judged(svc, &mut one, &deed, &tasks).await;
    for task in tasks {
        task.release().await;
    }
    done?;
    Ok(one)
}

/// Locks the node that the record belongs to and, when it moves, the one that
/// it comes from; always in the same order, so that nobody waits in a circle.
async fn lock<R: Kept>(svc: &Arc<Service>, one: &R, deed: &Deed<R>) -> Result<Vec<Task>, Error> {
    let mut nodes = vec![one.node()];
    if let Deed::Update(before) = deed {
        nodes.push(before.node());
    }
    nodes.sort();
    nodes.dedup();
    let mut tasks = Vec::new();
    for node in nodes.into_iter().flatten() {
        let refused = match Task::take_any(svc, node, svc.config.pace.lock_wait).await {
            Ok(task) => {
                tasks.push(task);
                continue;
            }
            Err(error @ Error::NodeNotFound(_)) => Error::Invalid(error.to_string()),
            Err(error) => error,
        };
        for task in tasks {
            task.release().await;
        }
        return Err(refused);
    }
    Ok(tasks)
}

async fn judged<R: Kept>(
    svc: &Service,
    one: &mut R,
    deed: &Deed<R>,
    tasks: &[Task],
) -> Result<(), Error> {
    if tasks.is_empty() {
        one.allow(svc, None, deed).await?;
    }
    for task in tasks {
        one.allow(svc, Some(&task.node), deed).await?;
    }
    perform(svc, one, deed).await
}

async fn perform<R: Kept>(svc: &Service, one: &mut R, deed: &Deed<R>) -> Result<(), Error> {
    match deed {
        Deed::Create => {
            svc.store.insert(one).await.map_err(taken)?;
            let read = svc.store.row(one.uuid()).await.map_err(taken)?;
            if let Some(read) = read {
                *one = read;
            }
            Ok(())
        }
        Deed::Update(_) => svc.store.save(one).await.map_err(taken),
        Deed::Delete => svc.store.remove::<R>(one.uuid()).await.map_err(taken),
    }
}

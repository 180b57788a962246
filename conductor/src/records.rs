//! Making, changing and deleting records that are rows of one table. What
//! belongs to a node is written under the node's lock; each kind has rules of
//! its own.

use std::sync::Arc;

use wrought_rpc::Record;
use wrought_store::Chassis;
use wrought_store::DeployTemplate;
use wrought_store::NodeQuery;
use wrought_store::PortQuery;
use wrought_store::Portgroup;
use wrought_store::Row;
use wrought_store::Runbook;
use wrought_store::VolumeConnector;
use wrought_store::VolumeTarget;
use wrought_store::node::Node;
use wrought_wire::state::PowerState;

use uuid::Uuid;

use crate::error::Error;
use crate::nodes::taken;
use crate::service::Service;
use crate::task::Task;
use crate::task::store;

/// What is about to happen to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Create,
    Update,
    Delete,
}

/// A kind of record with its rules.
trait Kept: Row {
    /// The node that it belongs to.
    fn node(&self) -> Option<Uuid> {
        None
    }

    /// Whether it may be done; `node` is the locked one that it belongs to.
    async fn allow(&self, _: &Service, _: Option<&Node>, _: Deed) -> Result<(), Error> {
        Ok(())
    }
}

macro_rules! each {
    ($record:expr, $one:ident => $done:expr) => {
        match $record {
            Record::Chassis($one) => $done,
            Record::DeployTemplate($one) => $done,
            Record::Portgroup($one) => $done,
            Record::Runbook($one) => $done,
            Record::VolumeConnector($one) => $done,
            Record::VolumeTarget($one) => $done,
        }
    };
}

/// Stores a new record; gives it as it was stored.
pub(crate) async fn create(svc: &Arc<Service>, record: Record) -> Result<Record, Error> {
    each!(record, one => Ok(write(svc, one, Deed::Create).await?.into()))
}

/// Stores a changed record; gives it as it was stored.
pub(crate) async fn update(svc: &Arc<Service>, record: Record) -> Result<Record, Error> {
    each!(record, one => Ok(write(svc, one, Deed::Update).await?.into()))
}

/// Deletes a record.
pub(crate) async fn destroy(svc: &Arc<Service>, record: Record) -> Result<(), Error> {
    each!(record, one => write(svc, one, Deed::Delete).await.map(drop))
}

async fn write<R: Kept>(svc: &Arc<Service>, mut one: R, deed: Deed) -> Result<R, Error> {
    let Some(node) = one.node() else {
        one.allow(svc, None, deed).await?;
        perform(svc, &mut one, deed).await?;
        return Ok(one);
    };
    let task = match Task::take(svc, node, svc.config.pace.lock_wait).await {
        Err(error @ Error::NodeNotFound(_)) => return Err(Error::Invalid(error.to_string())),
        taken => taken?,
    };
    let done = match one.allow(svc, Some(&task.node), deed).await {
        Ok(()) => perform(svc, &mut one, deed).await,
        refused => refused,
    };
    task.release().await;
    done?;
    Ok(one)
}

async fn perform<R: Kept>(svc: &Service, one: &mut R, deed: Deed) -> Result<(), Error> {
    match deed {
        Deed::Create => {
            svc.store.insert(one).await.map_err(taken)?;
            let read = svc.store.row(one.uuid()).await.map_err(taken)?;
            if let Some(read) = read {
                *one = read;
            }
            Ok(())
        }
        Deed::Update => svc.store.save(one).await.map_err(taken),
        Deed::Delete => svc.store.remove::<R>(one.uuid()).await.map_err(taken),
    }
}

impl Kept for Chassis {
    async fn allow(&self, svc: &Service, _: Option<&Node>, deed: Deed) -> Result<(), Error> {
        if deed != Deed::Delete {
            return Ok(());
        }
        let query = NodeQuery {
            chassis_uuid: Some(self.uuid),
            include_children: true,
            limit: Some(1),
            ..NodeQuery::default()
        };
        let nodes = svc.store.list_nodes_brief(&query).await;
        match nodes.map_err(store("list nodes"))?.first() {
            None => Ok(()),
            Some(node) => Err(Error::Invalid(format!(
                "Cannot complete the requested action because chassis {} contains nodes, such as {}.",
                self.uuid, node.uuid
            ))),
        }
    }
}

impl Kept for DeployTemplate {}

impl Kept for Runbook {}

impl Kept for Portgroup {
    fn node(&self) -> Option<Uuid> {
        Some(self.node_uuid)
    }

    async fn allow(&self, svc: &Service, _: Option<&Node>, deed: Deed) -> Result<(), Error> {
        let strict = deed == Deed::Update && !self.standalone_ports_supported;
        if deed != Deed::Delete && !strict {
            return Ok(());
        }
        let query = PortQuery {
            portgroup_uuid: Some(self.uuid),
            ..PortQuery::default()
        };
        let ports = svc.store.list_ports(&query).await;
        let ports = ports.map_err(store("list ports"))?;
        if deed == Deed::Delete && !ports.is_empty() {
            return Err(Error::Invalid(format!(
                "Cannot complete the requested action because portgroup {} contains {} ports.",
                self.uuid,
                ports.len()
            )));
        }
        match ports.iter().find(|port| port.pxe_enabled) {
            Some(port) if strict => Err(Error::Conflict(format!(
                "Portgroup {} cannot do without standalone ports while its port {} has pxe_enabled set.",
                self.uuid, port.uuid
            ))),
            _ => Ok(()),
        }
    }
}

impl Kept for VolumeConnector {
    fn node(&self) -> Option<Uuid> {
        Some(self.node_uuid)
    }

    async fn allow(&self, _: &Service, node: Option<&Node>, deed: Deed) -> Result<(), Error> {
        powered_off(node, deed, "volume connector")
    }
}

impl Kept for VolumeTarget {
    fn node(&self) -> Option<Uuid> {
        Some(self.node_uuid)
    }

    async fn allow(&self, _: &Service, node: Option<&Node>, deed: Deed) -> Result<(), Error> {
        powered_off(node, deed, "volume target")
    }
}

/// A running machine may be using its volumes: they only change while it is
/// off. New ones it does not know yet.
fn powered_off(node: Option<&Node>, deed: Deed, what: &str) -> Result<(), Error> {
    let action = match deed {
        Deed::Create => return Ok(()),
        Deed::Update => "update",
        Deed::Delete => "deletion",
    };
    match node {
        Some(node) if node.power_state != Some(PowerState::Off) => {
            let found = node.power_state.map_or("unknown", PowerState::as_str);
            Err(Error::Invalid(format!(
                "The requested action \"{what} {action}\" can not be performed on node \"{}\" while it is in state \"{found}\": it must be \"power off\".",
                node.uuid
            )))
        }
        _ => Ok(()),
    }
}

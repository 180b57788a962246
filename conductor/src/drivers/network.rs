//! Networks of a node: which of its ports and portgroups carry which virtual
//! interfaces (VIFs). `flat` keeps that in their `internal_info`; nothing is
//! told to a switch. `noop` keeps nothing, as Ironic's does.

use async_trait::async_trait;
use serde_json::Map;
use serde_json::Value;
use uuid::Uuid;
use wrought_rpc::Vif;
use wrought_store::PageQuery;
use wrought_store::Port;
use wrought_store::Portgroup;
use wrought_store::PortgroupQuery;
use wrought_store::node::Node;

use crate::error::Error;
use crate::nodes::taken;
use crate::service::Service;
use crate::task::store;
use crate::validate;

/// Key of `internal_info` that names the VIF which is carried.
pub(crate) const VIF: &str = "tenant_vif_port_id";

/// What is done about a node's VIFs; the caller holds the node's lock for
/// changes.
#[async_trait]
pub trait Network: Send + Sync {
    /// Their ids.
    async fn vifs(&self, svc: &Service, node: &Node) -> Result<Vec<String>, Error>;
    /// Attaches one.
    async fn attach(&self, svc: &Service, node: &Node, vif: &Vif) -> Result<(), Error>;
    /// Detaches one.
    async fn detach(&self, svc: &Service, node: &Node, id: &str) -> Result<(), Error>;
}

/// Those that there are.
pub(super) const NETWORK: super::Table<dyn Network> = &[("flat", &Flat), ("noop", &Noop)];

/// Somebody else looks after the networks.
struct Noop;

/// One network, whose VIFs are kept in mind.
struct Flat;

#[async_trait]
impl Network for Noop {
    async fn vifs(&self, _: &Service, _: &Node) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }

    async fn attach(&self, _: &Service, _: &Node, _: &Vif) -> Result<(), Error> {
        Ok(())
    }

    async fn detach(&self, _: &Service, _: &Node, _: &str) -> Result<(), Error> {
        Ok(())
    }
}

/// What can carry a VIF.
#[derive(Debug, Clone)]
enum Carrier {
    Port(Port),
    Portgroup(Portgroup),
}

impl Carrier {
    const fn what(&self) -> &'static str {
        match self {
            Self::Port(_) => "port",
            Self::Portgroup(_) => "portgroup",
        }
    }

    const fn uuid(&self) -> Uuid {
        match self {
            Self::Port(port) => port.uuid,
            Self::Portgroup(group) => group.uuid,
        }
    }

    fn internal_info(&mut self) -> &mut Map<String, Value> {
        match self {
            Self::Port(port) => &mut port.internal_info,
            Self::Portgroup(group) => &mut group.internal_info,
        }
    }

    fn vif(&self) -> Option<&str> {
        let info = match self {
            Self::Port(port) => &port.internal_info,
            Self::Portgroup(group) => &group.internal_info,
        };
        info.get(VIF)?.as_str()
    }

    async fn save(&mut self, svc: &Service) -> Result<(), Error> {
        let saved = match self {
            Self::Port(port) => svc.store.save(port).await,
            Self::Portgroup(group) => svc.store.save(group).await,
        };
        saved.map_err(taken)
    }
}

/// What of a node can carry VIFs, best first: portgroups, then ports that boot
/// from the network, then the others.
async fn carriers(svc: &Service, node: &Node) -> Result<Vec<Carrier>, Error> {
    let of_node = PortgroupQuery {
        node_uuid: Some(node.uuid),
        ..PortgroupQuery::default()
    };
    let groups = svc.store.rows(&of_node, &PageQuery::default()).await;
    let groups: Vec<Portgroup> = groups.map_err(store("list portgroups"))?;
    let mut ports = validate::ports(svc, node.uuid).await?;
    ports.sort_by_key(|port| !port.pxe_enabled);
    let groups = groups.into_iter().map(Carrier::Portgroup);
    Ok(groups.chain(ports.into_iter().map(Carrier::Port)).collect())
}

/// Drops the ports of portgroups that do not let their ports be used alone.
fn usable(carriers: Vec<Carrier>) -> Vec<Carrier> {
    let closed = |carrier: &Carrier| match carrier {
        Carrier::Portgroup(group) if !group.standalone_ports_supported => Some(group.uuid),
        _ => None,
    };
    let closed: Vec<Uuid> = carriers.iter().filter_map(closed).collect();
    let bound = |carrier: &Carrier| match carrier {
        Carrier::Port(port) => port
            .portgroup_uuid
            .is_some_and(|group| closed.contains(&group)),
        Carrier::Portgroup(_) => false,
    };
    carriers
        .into_iter()
        .filter(|carrier| !bound(carrier))
        .collect()
}

/// The carrier that is to take a VIF.
fn choose(node: &Node, carriers: Vec<Carrier>, vif: &Vif) -> Result<Carrier, Error> {
    let carriers = usable(carriers);
    let wanted = match (vif.port, vif.portgroup) {
        (Some(port), _) => Some(("port", port)),
        (None, Some(group)) => Some(("portgroup", group)),
        (None, None) => None,
    };
    let Some((what, uuid)) = wanted else {
        let free = carriers.into_iter().find(|carrier| carrier.vif().is_none());
        return free.ok_or_else(|| {
            Error::Invalid(format!(
                "Unable to attach VIF {}, not enough free physical ports: node {} has no port or \
                 portgroup without a VIF.",
                vif.id, node.uuid
            ))
        });
    };
    let named = |carrier: &Carrier| carrier.what() == what && carrier.uuid() == uuid;
    let Some(carrier) = carriers.into_iter().find(named) else {
        return Err(Error::Invalid(format!(
            "Unable to attach VIF {}: node {} has no {what} {uuid} that can be used.",
            vif.id, node.uuid
        )));
    };
    match carrier.vif() {
        Some(other) => Err(Error::Invalid(format!(
            "Unable to attach VIF {}, not enough free physical ports: {what} {uuid} carries VIF \
             {other}.",
            vif.id
        ))),
        None => Ok(carrier),
    }
}

#[async_trait]
impl Network for Flat {
    async fn vifs(&self, svc: &Service, node: &Node) -> Result<Vec<String>, Error> {
        let carriers = carriers(svc, node).await?;
        let vifs = carriers.iter().filter_map(Carrier::vif);
        Ok(vifs.map(str::to_owned).collect())
    }

    async fn attach(&self, svc: &Service, node: &Node, vif: &Vif) -> Result<(), Error> {
        let carriers = carriers(svc, node).await?;
        let same = |carrier: &&Carrier| carrier.vif() == Some(vif.id.as_str());
        if let Some(carrier) = carriers.iter().find(same) {
            return Err(Error::Conflict(format!(
                "Unable to attach VIF because VIF {} is already attached to Ironic {} {}",
                vif.id,
                carrier.what(),
                carrier.uuid()
            )));
        }
        let mut carrier = choose(node, carriers, vif)?;
        let id = Value::String(vif.id.clone());
        carrier.internal_info().insert(VIF.to_owned(), id);
        carrier.save(svc).await
    }

    async fn detach(&self, svc: &Service, node: &Node, id: &str) -> Result<(), Error> {
        let carriers = carriers(svc, node).await?;
        let same = |carrier: &Carrier| carrier.vif() == Some(id);
        let Some(mut carrier) = carriers.into_iter().find(same) else {
            return Err(Error::Invalid(format!(
                "Unable to detach VIF {id} from node {} because it is not attached to it.",
                node.uuid
            )));
        };
        carrier.internal_info().remove(VIF);
        carrier.save(svc).await
    }
}

//! The rules of ports and portgroups: what an instance is connected by stays
//! as it is, and a group's ports fit it.

use uuid::Uuid;
use wrought_store::PortQuery;
use wrought_store::Portgroup;
use wrought_store::node::Node;
use wrought_store::port::Port;
use wrought_wire::state::ProvisionState;

use super::Deed;
use super::Kept;
use crate::drivers::network::VIF;
use crate::error::Error;
use crate::nodes::taken;
use crate::service::Service;
use crate::task::store;

/// States in which it may change how a machine is connected, maintenance
/// apart.
const OPEN: [ProvisionState; 4] = [
    ProvisionState::Enroll,
    ProvisionState::Inspecting,
    ProvisionState::InspectWait,
    ProvisionState::Manageable,
];

impl Kept for Port {
    fn node(&self) -> Option<Uuid> {
        Some(self.node_uuid)
    }

    async fn allow(
        &self,
        svc: &Service,
        node: Option<&Node>,
        deed: &Deed<Self>,
    ) -> Result<(), Error> {
        let Some(node) = node else { return Ok(()) };
        match deed {
            Deed::Create => fits_group(self, svc).await,
            Deed::Update(before) => {
                may_change(self, before, node)?;
                fits_group(self, svc).await
            }
            Deed::Delete => may_go(self, node),
        }
    }
}

fn may_change(port: &Port, before: &Port, node: &Node) -> Result<(), Error> {
    if node.maintenance {
        return Ok(());
    }
    let in_use = node.instance_uuid.is_some() || node.provision_state == ProvisionState::Active;
    if port.address != before.address && in_use {
        return Err(Error::Conflict(format!(
            "Cannot update the address of port {} while its node {} is in use: set \
             maintenance first.",
            port.uuid, node.uuid
        )));
    }
    let changed = [
        ("node_uuid", port.node_uuid != before.node_uuid),
        (
            "portgroup_uuid",
            port.portgroup_uuid != before.portgroup_uuid,
        ),
        ("pxe_enabled", port.pxe_enabled != before.pxe_enabled),
        (
            "local_link_connection",
            port.local_link_connection != before.local_link_connection,
        ),
        (
            "physical_network",
            port.physical_network != before.physical_network,
        ),
    ];
    let names = changed.iter().filter(|(_, changed)| *changed);
    let names: Vec<&str> = names.map(|(name, _)| *name).collect();
    if names.is_empty() || OPEN.contains(&node.provision_state) {
        return Ok(());
    }
    Err(Error::Conflict(format!(
        "Port {} can not have any connectivity attributes ({}) updated unless node {} is \
         in a {} state or in maintenance mode; it is in state \"{}\".",
        port.uuid,
        names.join(", "),
        node.uuid,
        OPEN.map(ProvisionState::as_str).join(", "),
        node.provision_state
    )))
}

fn may_go(port: &Port, node: &Node) -> Result<(), Error> {
    match port.internal_info.get(VIF).and_then(|vif| vif.as_str()) {
        Some(vif) if !node.maintenance => Err(Error::Conflict(format!(
            "Cannot delete port {} of node {} while it is bound to VIF {vif}: detach the VIF \
             first.",
            port.uuid, node.uuid
        ))),
        _ => Ok(()),
    }
}

async fn fits_group(port: &Port, svc: &Service) -> Result<(), Error> {
    let Some(uuid) = port.portgroup_uuid else {
        return Ok(());
    };
    let group: Option<Portgroup> = svc.store.row(uuid).await.map_err(taken)?;
    let group =
        group.ok_or_else(|| Error::Invalid(format!("Portgroup {uuid} could not be found.")))?;
    if group.node_uuid != port.node_uuid {
        return Err(Error::Invalid(format!(
            "Port {} of node {} cannot be in portgroup {uuid} of node {}.",
            port.uuid, port.node_uuid, group.node_uuid
        )));
    }
    let others = ports_of(svc, uuid).await?;
    let other = others
        .iter()
        .find(|other| other.uuid != port.uuid && other.physical_network != port.physical_network);
    match other {
        Some(other) => Err(Error::Conflict(format!(
            "Port {} with physical_network {:?} cannot be in portgroup {uuid}: port {} there \
             has {:?}.",
            port.uuid, port.physical_network, other.uuid, other.physical_network
        ))),
        None => Ok(()),
    }
}

impl Kept for Portgroup {
    fn node(&self) -> Option<Uuid> {
        Some(self.node_uuid)
    }

    async fn allow(
        &self,
        svc: &Service,
        node: Option<&Node>,
        deed: &Deed<Self>,
    ) -> Result<(), Error> {
        match deed {
            Deed::Create => Ok(()),
            Deed::Update(before) if self.node_uuid == before.node_uuid => Ok(()),
            Deed::Update(_) => match ports_of(svc, self.uuid).await?.first() {
                Some(port) => Err(Error::Invalid(format!(
                    "Portgroup {} can not be associated with node {} because there are ports \
                     associated with this portgroup, such as {}.",
                    self.uuid, self.node_uuid, port.uuid
                ))),
                None => Ok(()),
            },
            Deed::Delete => {
                let ports = ports_of(svc, self.uuid).await?;
                let vif = self.internal_info.contains_key(VIF);
                if vif && node.is_some_and(|node| !node.maintenance) {
                    return Err(Error::Conflict(format!(
                        "Cannot delete portgroup {} while it is bound to a VIF: detach the VIF \
                         first.",
                        self.uuid
                    )));
                }
                match ports.first() {
                    Some(port) => Err(Error::Invalid(format!(
                        "Cannot complete the requested action because portgroup {} contains \
                         ports, such as {}.",
                        self.uuid, port.uuid
                    ))),
                    None => Ok(()),
                }
            }
        }
    }
}

async fn ports_of(svc: &Service, group: Uuid) -> Result<Vec<Port>, Error> {
    let query = PortQuery {
        portgroup_uuid: Some(group),
        ..PortQuery::default()
    };
    let ports = svc.store.list_ports(&query).await;
    ports.map_err(store("list ports"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wrought_wire::state::ProvisionState;

    use super::may_change;
    use super::may_go;
    use crate::testing;

    #[test]
    fn what_connects_an_instance_stays() {
        let mut node = testing::node("fake-hardware");
        let before = testing::port(node.uuid, "52:54:00:00:00:01");
        let (mut moved, mut replaced) = (before.clone(), before.clone());
        moved.pxe_enabled = false;
        replaced.address = "52:54:00:00:00:02".to_owned();
        may_change(&moved, &before, &node).unwrap();
        node.provision_state = ProvisionState::Available;
        assert!(may_change(&moved, &before, &node).is_err());
        may_change(&replaced, &before, &node).unwrap();
        node.provision_state = ProvisionState::Active;
        assert!(may_change(&replaced, &before, &node).is_err());
        let mut described = before.clone();
        described.description = Some("x".to_owned());
        may_change(&described, &before, &node).unwrap();
        let mut bound = before.clone();
        bound
            .internal_info
            .insert("tenant_vif_port_id".to_owned(), json!("v"));
        assert!(may_go(&bound, &node).is_err());
        node.maintenance = true;
        may_go(&bound, &node).unwrap();
        may_change(&moved, &before, &node).unwrap();
        may_change(&replaced, &before, &node).unwrap();
    }
}

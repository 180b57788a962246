//! Creating, changing and deleting nodes.

use std::sync::Arc;

use uuid::Uuid;
use wrought_store::node::INTERFACE_KINDS;
use wrought_store::node::Node;
use wrought_wire::state::ProvisionState;

use crate::allocations;
use crate::boot::Offer;
use crate::drivers::catalog::Catalog;
use crate::error::Error;
use crate::machine;
use crate::service::Service;
use crate::task::Task;
use crate::task::store;

/// States in which interfaces and the resource class may change.
const OPEN: [ProvisionState; 5] = [
    ProvisionState::Enroll,
    ProvisionState::Inspecting,
    ProvisionState::InspectWait,
    ProvisionState::Manageable,
    ProvisionState::Available,
];

/// Stores a new node, its interfaces filled.
pub(crate) async fn create(svc: &Service, mut node: Node) -> Result<Node, Error> {
    svc.catalog.resolve(&mut node)?;
    svc.store.create_node(&node).await.map_err(taken)?;
    let read = svc
        .store
        .node_by_uuid(node.uuid)
        .await
        .map_err(store("read a node"))?;
    read.ok_or_else(|| Error::NodeNotFound(node.uuid.to_string()))
}

/// Changes the named root fields of a node.
pub(crate) async fn update(
    svc: &Arc<Service>,
    wanted: Node,
    fields: Vec<String>,
    reset_interfaces: bool,
) -> Result<Node, Error> {
    // With a group or driver that is new, it comes to a conductor that has them.
    svc.check_mine(&wanted)?;
    let mut task = Task::take_any(svc, wanted.uuid, svc.config.pace.lock_wait).await?;
    let changed = if task.node.updated_at == wanted.updated_at {
        change(&svc.catalog, &task.node, &wanted, &fields, reset_interfaces)
    } else {
        let (what, uuid) = ("Node", wanted.uuid);
        Err(Error::Stale { what, uuid })
    };
    let outcome = match changed {
        Ok(node) => {
            let put = node.maintenance && !task.node.maintenance;
            task.node = node;
            if put {
                note_maintenance(&mut task);
            }
            task.save().await.map_err(unwrap_taken)
        }
        Err(error) => Err(error),
    };
    let mut node = task.node.clone();
    task.release().await;
    outcome?;
    if node.maintenance {
        svc.watches.wake(node.uuid);
    }
    node.reservation = None;
    Ok(node)
}

/// The stored node with the wanted fields, if the rules allow it.
pub(crate) fn change(
    catalog: &Catalog,
    stored: &Node,
    wanted: &Node,
    fields: &[String],
    reset_interfaces: bool,
) -> Result<Node, Error> {
    let mut node = stored.clone();
    let open = OPEN.contains(&stored.provision_state);
    let conflict = |text: String| Err(Error::Conflict(text));
    for field in fields {
        match field.as_str() {
            "automated_clean" => node.automated_clean = wanted.automated_clean,
            "chassis_uuid" => node.chassis_uuid = wanted.chassis_uuid,
            "conductor_group" => node.conductor_group.clone_from(&wanted.conductor_group),
            "description" => node.description.clone_from(&wanted.description),
            "disable_power_off" => node.disable_power_off = wanted.disable_power_off,
            "driver" => node.driver.clone_from(&wanted.driver),
            "driver_info" => node.driver_info.clone_from(&wanted.driver_info),
            "extra" => node.extra.clone_from(&wanted.extra),
            "instance_info" => node.instance_info.clone_from(&wanted.instance_info),
            "instance_name" => node.instance_name.clone_from(&wanted.instance_name),
            "lessee" => node.lessee.clone_from(&wanted.lessee),
            "name" => node.name.clone_from(&wanted.name),
            "network_data" => node.network_data.clone_from(&wanted.network_data),
            "owner" => node.owner.clone_from(&wanted.owner),
            "parent_node" => node.parent_node.clone_from(&wanted.parent_node),
            "properties" => node.properties.clone_from(&wanted.properties),
            "protected_reason" => node.protected_reason.clone_from(&wanted.protected_reason),
            "retired_reason" => node.retired_reason.clone_from(&wanted.retired_reason),
            "shard" => node.shard.clone_from(&wanted.shard),
            "traits" => node.traits.clone_from(&wanted.traits),
            "target_raid_config" => node
                .target_raid_config
                .clone_from(&wanted.target_raid_config),
            "maintenance" => {
                node.maintenance = wanted.maintenance;
                if !node.maintenance {
                    node.maintenance_reason = None;
                    node.fault = None;
                }
            }
            "maintenance_reason" => node
                .maintenance_reason
                .clone_from(&wanted.maintenance_reason),
            "protected" => {
                let fit = matches!(
                    stored.provision_state,
                    ProvisionState::Active | ProvisionState::Rescue
                );
                if wanted.protected && !fit {
                    return conflict(format!(
                        "Node {} can only be protected while it is active or in rescue; it is in \
                         state \"{}\".",
                        node.uuid, stored.provision_state
                    ));
                }
                node.protected = wanted.protected;
                if !node.protected {
                    node.protected_reason = None;
                }
            }
            "retired" => {
                if wanted.retired && stored.provision_state == ProvisionState::Available {
                    return conflict(format!(
                        "Node {} can not be retired while it is available; move it to manageable \
                         first.",
                        node.uuid
                    ));
                }
                node.retired = wanted.retired;
                if !node.retired {
                    node.retired_reason = None;
                }
            }
            "resource_class" => {
                if stored.resource_class.is_some() && !open {
                    return conflict(format!(
                        "The resource_class of node {} can not be changed while it is in state \
                         \"{}\".",
                        node.uuid, stored.provision_state
                    ));
                }
                node.resource_class.clone_from(&wanted.resource_class);
            }
            "instance_uuid" => {
                if let (Some(is), Some(wish)) = (stored.instance_uuid, wanted.instance_uuid)
                    && is != wish
                {
                    return conflict(format!(
                        "Node {} is associated with instance {is}.",
                        node.uuid
                    ));
                }
                if let (None, Some(allocation)) = (wanted.instance_uuid, stored.allocation_uuid) {
                    allocations::may_free(stored, allocation)?;
                    node.allocation_uuid = None;
                }
                node.instance_uuid = wanted.instance_uuid;
            }
            other => interface(&mut node, wanted, other)?,
        }
    }
    let named = |reason: &str, flag: &str| {
        Error::Invalid(format!(
            "Cannot set {reason} of node {} without {flag}.",
            node.uuid
        ))
    };
    if node.protected_reason.is_some() && !node.protected {
        return Err(named("protected_reason", "protected"));
    }
    if node.retired_reason.is_some() && !node.retired {
        return Err(named("retired_reason", "retired"));
    }
    resolve(catalog, stored, &mut node, fields, reset_interfaces)?;
    let display = node
        .instance_info
        .get("display_name")
        .and_then(|name| name.as_str());
    if node.instance_name.is_none() && !stored.instance_info.contains_key("display_name") {
        node.instance_name = display.map(str::to_owned);
    }
    Ok(node)
}

/// One `<kind>_interface`; empty: its default.
fn interface(node: &mut Node, wanted: &Node, field: &str) -> Result<(), Error> {
    let kind = field
        .strip_suffix("_interface")
        .filter(|kind| INTERFACE_KINDS.contains(kind));
    let Some(kind) = kind else {
        return Err(Error::Invalid(format!(
            "Attribute {field} of a node can not be changed."
        )));
    };
    match wanted.interfaces.get(kind).filter(|name| !name.is_empty()) {
        Some(name) => node.interfaces.insert(kind.to_owned(), name.clone()),
        None => node.interfaces.remove(kind),
    };
    Ok(())
}

fn resolve(
    catalog: &Catalog,
    stored: &Node,
    node: &mut Node,
    fields: &[String],
    reset_interfaces: bool,
) -> Result<(), Error> {
    if reset_interfaces {
        let named = |kind: &String| {
            fields
                .iter()
                .any(|field| *field == format!("{kind}_interface"))
        };
        node.interfaces.retain(|kind, _| named(kind));
    }
    catalog.resolve(node)?;
    let same_driver = stored.driver == node.driver;
    let free = OPEN.contains(&stored.provision_state) || stored.maintenance || node.maintenance;
    let changed = stored
        .interfaces
        .iter()
        .find(|(kind, name)| node.interfaces.get(*kind) != Some(*name));
    match changed {
        Some((kind, _)) if same_driver && !free => Err(Error::Conflict(format!(
            "Node {} can not have {kind}_interface updated unless it is in one of allowed ({}) \
             states or in maintenance mode.",
            node.uuid,
            OPEN.map(ProvisionState::as_str).join(", ")
        ))),
        _ => Ok(()),
    }
}

/// Deletes a node with all that belongs to it.
pub(crate) async fn destroy(svc: &Arc<Service>, uuid: Uuid) -> Result<(), Error> {
    let mut task = Task::take(svc, uuid, svc.config.pace.lock_wait).await?;
    if let Err(error) = may_go(&task.node) {
        task.release().await;
        return Err(error);
    }
    Offer::withdraw(&mut task.node);
    task.destroy().await
}

fn may_go(node: &Node) -> Result<(), Error> {
    if let (Some(instance), false) = (node.instance_uuid, node.maintenance) {
        let text = format!("Node {} is associated with instance {instance}.", node.uuid);
        return Err(Error::Conflict(text));
    }
    if node.protected {
        return Err(Error::Forbidden(format!(
            "Node {} is protected and cannot be undeployed, rebuilt or deleted",
            node.uuid
        )));
    }
    let fit = matches!(
        node.provision_state,
        ProvisionState::Manageable
            | ProvisionState::Enroll
            | ProvisionState::AdoptFail
            | ProvisionState::Available
    );
    if !fit && !node.maintenance {
        return Err(Error::Conflict(format!(
            "Can not delete node \"{}\" while it is in provision state \"{}\". Valid provision \
             states to perform deletion are: available, manageable, enroll, adopt failed",
            node.uuid, node.provision_state
        )));
    }
    Ok(())
}

/// Switches maintenance on or off.
pub(crate) async fn maintenance(
    svc: &Arc<Service>,
    uuid: Uuid,
    on: bool,
    reason: Option<String>,
) -> Result<(), Error> {
    let mut task = Task::take(svc, uuid, svc.config.pace.lock_wait).await?;
    task.node.maintenance = on;
    task.node.maintenance_reason = if on { reason } else { None };
    if on {
        note_maintenance(&mut task);
    } else {
        task.node.fault = None;
    }
    let saved = task.save().await;
    task.release().await;
    // Whatever waits there sees it now.
    svc.watches.wake(uuid);
    saved
}

/// Says in the history what becomes of an operation whose node is put into
/// maintenance: it does not hang there without a word.
fn note_maintenance(task: &mut Task) {
    let state = task.node.provision_state;
    if !machine::is_working(state) && !machine::is_waiting(state) {
        return;
    }
    let inspects = matches!(
        state,
        ProvisionState::Inspecting | ProvisionState::InspectWait
    );
    let goes_on = inspects || task.svc.config.conductor.allow_provisioning_in_maintenance;
    let text = match goes_on {
        true => format!(
            "Put into maintenance in state {state}: the operation goes on, and so do its time-outs"
        ),
        false => format!("Put into maintenance in state {state}: the operation is stopped"),
    };
    task.history("WARNING", "maintenance", &text);
}

/// What the database says of values that must be unique, in Ironic's words.
pub(crate) fn taken(error: wrought_store::Error) -> Error {
    use wrought_store::Error as E;
    match error {
        E::DuplicateName { what, name } => {
            Error::Conflict(format!("{} with name {name} already exists.", a(what)))
        }
        E::DuplicateUuid { what, uuid } => {
            Error::Conflict(format!("{} with UUID {uuid} already exists.", a(what)))
        }
        E::DuplicateAddress { what, address, .. } => Error::Conflict(format!(
            "A {what} with MAC address {address} already exists."
        )),
        E::Duplicate { what, values, .. } => {
            Error::Conflict(format!("A {what} with {values} already exists."))
        }
        E::Changed { what, uuid } => Error::Stale { what, uuid },
        E::InstanceAssociated { instance, node } => Error::Conflict(format!(
            "Instance {instance} is already associated with a node, it cannot be associated with \
             this other node {node}"
        )),
        E::NotFound {
            what: "node",
            ident,
        } => Error::Invalid(format!("Node {ident} could not be found.")),
        E::NotFound {
            what: "portgroup",
            ident,
        } => Error::Invalid(format!("Portgroup {ident} could not be found.")),
        E::NotFound { what, ident } => {
            Error::NotFound(format!("{what} {ident} could not be found."))
        }
        other => store("store a record")(other),
    }
}

/// The thing with its article.
fn a(what: &str) -> String {
    match what.starts_with(['a', 'e', 'i', 'o', 'u']) {
        true => format!("An {what}"),
        false => format!("A {what}"),
    }
}

/// The same for an error that a task has wrapped.
pub(crate) fn unwrap_taken(error: Error) -> Error {
    match error {
        Error::Store { action, source } => match source.downcast::<wrought_store::Error>() {
            Ok(inner) => taken(*inner),
            Err(source) => Error::Store { action, source },
        },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;
    use wrought_store::node::Node;
    use wrought_wire::state::ProvisionState;

    use super::may_go;
    use crate::config::Drivers;
    use crate::drivers::catalog::Catalog;
    use crate::error::Error;
    use crate::testing::node;

    fn change(
        stored: &Node,
        wanted: &Node,
        fields: &[String],
        reset_interfaces: bool,
    ) -> Result<Node, Error> {
        let catalog = Catalog::new(&Drivers::default()).unwrap();
        super::change(&catalog, stored, wanted, fields, reset_interfaces)
    }

    fn fields(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn rules_of_fields() {
        let mut stored = node("redfish");
        stored.provision_state = ProvisionState::Active;
        let mut wanted = stored.clone();
        wanted
            .interfaces
            .insert("boot".to_owned(), "redfish-virtual-media".to_owned());
        let boot = fields(&["boot_interface"]);
        assert!(
            change(&stored, &wanted, &boot, false).is_err(),
            "not while active"
        );
        stored.maintenance = true;
        let changed = change(&stored, &wanted, &boot, false).unwrap();
        assert_eq!(changed.interfaces["boot"], "redfish-virtual-media");
        wanted.interfaces.remove("boot");
        assert_eq!(
            change(&stored, &wanted, &boot, false).unwrap().interfaces["boot"],
            "ipxe"
        );
        wanted.protected = true;
        assert!(
            change(&stored, &wanted, &fields(&["protected"]), false)
                .unwrap()
                .protected
        );
        stored.provision_state = ProvisionState::Available;
        assert!(change(&stored, &wanted, &fields(&["protected"]), false).is_err());
        wanted.retired_reason = Some("old".to_owned());
        assert!(change(&stored, &wanted, &fields(&["retired_reason"]), false).is_err());
        wanted.retired = true;
        assert!(change(&stored, &wanted, &fields(&["retired"]), false).is_err());
        assert!(change(&stored, &wanted, &fields(&["provision_state"]), false).is_err());
        wanted
            .instance_info
            .insert("display_name".to_owned(), json!("web"));
        let named = change(&stored, &wanted, &fields(&["instance_info"]), false).unwrap();
        assert_eq!(named.instance_name.as_deref(), Some("web"));
    }

    #[test]
    fn driver_change_needs_fitting_interfaces() {
        let stored = node("redfish");
        let mut wanted = stored.clone();
        wanted.driver = "fake-hardware".to_owned();
        let driver = fields(&["driver"]);
        assert!(
            change(&stored, &wanted, &driver, false).is_err(),
            "redfish power stays"
        );
        let changed = change(&stored, &wanted, &driver, true).unwrap();
        assert_eq!(changed.interfaces["power"], "fake");
    }

    #[test]
    fn rules_of_deletion() {
        let mut node = node("redfish");
        may_go(&node).unwrap();
        node.provision_state = ProvisionState::Active;
        assert!(may_go(&node).is_err());
        node.instance_uuid = Some(Uuid::nil());
        node.maintenance = true;
        may_go(&node).unwrap();
        node.protected = true;
        assert!(may_go(&node).is_err());
    }
}

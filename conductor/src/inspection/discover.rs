//! Machines that nobody knows: where that is switched on, their ramdisk's data
//! make a node in `enroll`. Nobody has to authenticate for it, so that the
//! number of such nodes is bounded.

use std::sync::Arc;

use serde_json::Map;
use serde_json::Value;
use tokio::sync::Mutex;
use uuid::Uuid;
use wrought_store::Inventory;
use wrought_store::NodeQuery;
use wrought_store::node::Node;
use wrought_wire::state::ProvisionState;

use super::document;
use super::find;
use super::interfaces;
use crate::error::Error;
use crate::internal;
use crate::nodes;
use crate::periodic::pages::Pages;
use crate::service::Service;
use crate::task::store;

/// MAC addresses of a machine that are kept.
const MOST_MACS: usize = 64;
/// One at a time, so that a machine that asks twice is made once and the bound
/// holds.
static DISCOVERY: Mutex<()> = Mutex::const_new(());

/// Makes a node for a machine that nobody knows. `named`: the ramdisk says which
/// node it is; then nothing is made.
pub(super) async fn node(
    svc: &Arc<Service>,
    named: Option<Uuid>,
    found: &mut Inventory,
) -> Result<Uuid, Error> {
    let settings = &svc.config.conductor.inspection;
    let Some(driver) = &settings.discovery_driver else {
        return Err(find::missing());
    };
    let mut macs = interfaces::macs(&found.inventory);
    macs.truncate(MOST_MACS);
    // Without an address it could never be found again.
    if named.is_some() || macs.is_empty() {
        return Err(find::missing());
    }
    let _turn = DISCOVERY.lock().await;
    if find::is_known(svc, found).await? || !has_room(svc, &macs).await? {
        return Err(find::missing());
    }
    let mut node = with_fields(&Node::new(driver), &settings.discovery_fields)?;
    add_bmc(&mut node, found);
    internal::set(&mut node, internal::DISCOVERED, true);
    internal::set(&mut node, internal::DISCOVERED_MACS, macs);
    let node = nodes::create(svc, node).await?;
    found
        .plugin_data
        .insert("auto_discovered".to_owned(), true.into());
    tracing::info!(node = %node.uuid, driver, "unknown machine enrolled");
    Ok(node.uuid)
}

/// Whether one more node may be made, and none was made for this machine.
async fn has_room(svc: &Arc<Service>, macs: &[String]) -> Result<bool, Error> {
    let most = svc.config.conductor.inspection.discovery_max;
    let query = NodeQuery {
        provision_state: vec![ProvisionState::Enroll],
        include_children: true,
        ..NodeQuery::default()
    };
    let (mut pages, mut count) = (Pages::of(svc, query), 0);
    while let Some(nodes) = pages.try_next().await.map_err(store("list nodes"))? {
        for node in nodes {
            let Some(known) = internal::read::<Vec<String>>(&node, internal::DISCOVERED_MACS)
            else {
                continue;
            };
            if known.iter().any(|mac| macs.contains(mac)) {
                tracing::info!(node = %node.uuid, "a machine that was enrolled sends again");
                return Ok(false);
            }
            count += 1;
        }
    }
    if count >= most {
        tracing::warn!(
            count,
            most,
            ?macs,
            "unknown machine not enrolled: discovery_max nodes that \
            were made for such machines are in enroll"
        );
    }
    Ok(count < most)
}

/// The node with the configured fields.
fn with_fields(node: &Node, fields: &Map<String, Value>) -> Result<Node, Error> {
    document::with_fields(node, fields)
        .map_err(|error| Error::Invalid(format!("discovery_fields: {error}")))
}

/// Where its BMC is, as far as the ramdisk knows and nothing else is configured:
/// an operator has to add who may log in only.
fn add_bmc(node: &mut Node, found: &Inventory) {
    let key = match node.driver.as_str() {
        "ipmi" => "ipmi_address",
        "redfish" => "redfish_address",
        _ => return,
    };
    let address = ["bmc_address", "bmc_v6address"]
        .iter()
        .filter_map(|key| found.inventory.get(*key)?.as_str()?.split('/').next())
        .filter_map(|text| text.parse::<std::net::IpAddr>().ok())
        .find(|address| !address.is_unspecified());
    let Some(address) = address else { return };
    let text = match (key, address) {
        ("redfish_address", std::net::IpAddr::V6(v6)) => format!("https://[{v6}]"),
        ("redfish_address", address) => format!("https://{address}"),
        (_, address) => address.to_string(),
    };
    node.driver_info.entry(key).or_insert(text.into());
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wrought_store::Inventory;
    use wrought_store::node::Node;

    use super::add_bmc;
    use super::with_fields;

    #[test]
    fn the_bmc_that_was_found_is_where_the_driver_looks() {
        for (driver, v4, v6, expected) in [
            (
                "ipmi",
                "192.0.2.1",
                "::/0",
                json!({"ipmi_address": "192.0.2.1"}),
            ),
            (
                "redfish",
                "192.0.2.1",
                "::/0",
                json!({"redfish_address": "https://192.0.2.1"}),
            ),
            (
                "redfish",
                "0.0.0.0",
                "2001:db8::1/64",
                json!({"redfish_address": "https://[2001:db8::1]"}),
            ),
            ("redfish", "0.0.0.0", "::/0", json!({})),
            ("fake-hardware", "192.0.2.1", "::/0", json!({})),
        ] {
            let inventory = json!({"bmc_address": v4, "bmc_v6address": v6});
            let found = Inventory {
                inventory: inventory.as_object().unwrap().clone(),
                ..Inventory::default()
            };
            let mut node = Node::new(driver);
            add_bmc(&mut node, &found);
            assert_eq!(serde_json::Value::Object(node.driver_info), expected);
        }
    }

    #[test]
    fn fields_that_are_configured() {
        let fields = json!({"resource_class": "found", "extra": {"rack": 7},
            "boot_interface": "ipxe"});
        let node = with_fields(&Node::new("redfish"), fields.as_object().unwrap()).unwrap();
        assert_eq!(node.resource_class.as_deref(), Some("found"));
        assert_eq!(node.extra["rack"], 7);
        assert_eq!(node.interfaces["boot"], "ipxe");
        for bad in [
            json!({"provision_state": "active"}),
            json!({"extra": 1}),
            json!({"x": 1}),
        ] {
            let error = with_fields(&Node::new("redfish"), bad.as_object().unwrap()).unwrap_err();
            assert!(error.to_string().contains("discovery_fields"), "{error}");
        }
    }
}

//! What the switches say (LLDP), and which networks the NICs are in: hooks
//! `parse-lldp`, `local-link-connection` and `physical-network`.

use std::net::IpAddr;

use serde_json::Map;
use serde_json::Value;
use wrought_store::Inventory;
use wrought_store::port::Port;
use wrought_wire::mac::normalised;

use super::lldp;
use crate::config::Inspection;
use crate::error::Error;
use crate::nodes::taken;
use crate::task::Task;
use crate::validate;

/// NICs whose switches are heard.
const MOST: usize = 1024;

/// Name and object of each NIC.
fn nics(found: &Inventory) -> impl Iterator<Item = (&str, &Map<String, Value>)> {
    let list = found.inventory.get("interfaces").and_then(Value::as_array);
    let list = list.into_iter().flatten().take(MOST);
    list.filter_map(Value::as_object)
        .filter_map(|nic| Some((nic.get("name")?.as_str()?, nic)))
}

/// What was heard on a NIC: by the collector `lldp`, else with the inventory.
fn heard<'a>(found: &'a Inventory, name: &str, nic: &'a Map<String, Value>) -> Option<&'a Value> {
    let raw = found.plugin_data.get("lldp_raw");
    let raw = raw.and_then(|raw| raw.get(name));
    let told = |value: &&Value| value.as_array().is_some_and(|list| !list.is_empty());
    raw.filter(told).or_else(|| nic.get("lldp").filter(told))
}

/// Hook `parse-lldp`: `parsed_lldp` of the plugin data.
pub(super) fn parse(found: &mut Inventory) {
    let mut parsed = Map::new();
    for (name, nic) in nics(found) {
        let Some(tlvs) = heard(found, name, nic) else {
            continue;
        };
        let words = lldp::words(&lldp::read(tlvs));
        if !words.is_empty() {
            parsed.insert(name.to_owned(), Value::Object(words));
        }
    }
    if !parsed.is_empty() {
        let data = &mut found.plugin_data;
        data.insert("parsed_lldp".to_owned(), Value::Object(parsed));
    }
}

/// Each real NIC with its port.
async fn with_ports<'a>(
    task: &Task,
    found: &'a Inventory,
) -> Result<Vec<(&'a str, &'a Map<String, Value>, Port)>, Error> {
    let all = found.plugin_data.get("all_interfaces");
    let ports = validate::ports(&task.svc, task.node.uuid).await?;
    let with = |(name, nic): (&'a str, &'a Map<String, Value>)| {
        all?.get(name)?;
        let address = normalised(nic.get("mac_address")?.as_str()?)?;
        let port = ports.iter().find(|port| port.address == address)?;
        Some((name, nic, port.clone()))
    };
    Ok(nics(found).filter_map(with).collect())
}

/// Hook `local-link-connection`: what a port says already stays.
pub(super) async fn local_links(task: &Task, found: &Inventory) -> Result<(), Error> {
    for (name, nic, mut port) in with_ports(task, found).await? {
        let Some(tlvs) = heard(found, name, nic) else {
            tracing::info!(node = %task.node.uuid, nic = name, "nothing was heard from its switch");
            continue;
        };
        let before = port.local_link_connection.clone();
        for (key, value) in lldp::link(&lldp::read(tlvs)) {
            port.local_link_connection.entry(key).or_insert(value);
        }
        if port.local_link_connection != before {
            task.svc.store.save(&mut port).await.map_err(taken)?;
        }
    }
    Ok(())
}

/// Hook `physical-network`.
pub(super) async fn physical_networks(
    task: &Task,
    found: &Inventory,
    settings: &Inspection,
) -> Result<(), Error> {
    for (_, nic, mut port) in with_ports(task, found).await? {
        let Some(name) = physical_network(nic, settings) else {
            continue;
        };
        if port.physical_network.as_deref() != Some(name) {
            port.physical_network = Some(name.to_owned());
            task.svc.store.save(&mut port).await.map_err(taken)?;
        }
    }
    Ok(())
}

/// The first network of the map that an address of the NIC is in.
fn physical_network<'a>(nic: &Map<String, Value>, settings: &'a Inspection) -> Option<&'a str> {
    let addresses = ["ipv4_address", "ipv6_address"]
        .into_iter()
        .filter_map(|key| nic.get(key)?.as_str()?.split('%').next()?.parse().ok());
    let name = |address: IpAddr| {
        let map = &settings.physical_network_cidr_map;
        let network = map.iter().find(|network| network.contains(address))?;
        Some(network.name.as_str())
    };
    addresses.filter_map(name).next()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::found;
    use super::parse;
    use super::physical_network;
    use crate::config::Inspection;
    use crate::config::Network;

    #[test]
    fn lldp_of_the_collector_goes_before_the_inventory() {
        let name = |text: &str| {
            let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
            json!([[5, hex], [0, ""]])
        };
        let mut found = found(
            json!({"interfaces": [
                {"name": "eth0", "lldp": name("old")}, {"name": "eth1", "lldp": name("one")},
                {"name": "eth2", "lldp": null}, {"name": "eth3"}, 7,
            ]}),
            json!({"lldp_raw": {"eth0": name("new"), "eth1": [], "eth2": [[300, 1], ["x"], 5]}}),
        );
        parse(&mut found);
        let expected = json!({"eth0": {"switch_system_name": "new"},
            "eth1": {"switch_system_name": "one"}});
        assert_eq!(found.plugin_data["parsed_lldp"], expected);
    }

    #[test]
    fn networks_are_known_by_their_addresses() {
        let network = |text: &str| Network::try_from(text.to_owned()).unwrap();
        let settings = Inspection {
            physical_network_cidr_map: vec![network("192.0.2.0/24:a"), network("2001:db8::/64:b")],
            ..Inspection::default()
        };
        for (nic, expected) in [
            (
                json!({"ipv4_address": "192.0.2.9", "ipv6_address": "2001:db8::1"}),
                Some("a"),
            ),
            (
                json!({"ipv4_address": null, "ipv6_address": "2001:db8::1%eth0"}),
                Some("b"),
            ),
            (json!({"ipv4_address": "198.51.100.1"}), None),
            (json!({"ipv4_address": "x", "ipv6_address": 1}), None),
        ] {
            let nic = nic.as_object().unwrap();
            assert_eq!(physical_network(nic, &settings), expected);
        }
    }
}

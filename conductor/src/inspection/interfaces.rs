//! The NICs in an inventory: which are real, which were booted from, and which
//! become ports.

use std::net::IpAddr;

use serde_json::Map;
use serde_json::Value;
use wrought_wire::mac::normalised as mac;

use crate::config::AddPorts;
use crate::error::Error;

/// NICs of one machine that count.
const MOST: usize = 1024;

/// What the hook `validate-interfaces` finds; its fields are keys of the plugin
/// data.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Interfaces {
    /// Every NIC with a name and a MAC address, by its name.
    pub(super) all: Map<String, Value>,
    /// Those that become ports.
    pub(super) valid: Map<String, Value>,
    /// MAC addresses of those.
    pub(super) macs: Vec<String>,
}

fn listed(inventory: &Map<String, Value>) -> impl Iterator<Item = &Map<String, Value>> {
    let list = inventory.get("interfaces").and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .take(MOST)
        .filter_map(Value::as_object)
}

/// The valid MAC addresses of an inventory.
pub(super) fn macs(inventory: &Map<String, Value>) -> Vec<String> {
    listed(inventory)
        .filter_map(|nic| mac(nic.get("mac_address")?.as_str()?))
        .collect()
}

/// The NIC that was booted from: `BOOTIF`'s form has the hardware type before
/// the address.
fn booted_from(inventory: &Map<String, Value>, data: &Map<String, Value>) -> Option<String> {
    let of_boot = || inventory.get("boot")?.get("pxe_interface")?.as_str();
    let text = of_boot().or_else(|| data.get("boot_interface")?.as_str())?;
    mac(text).or_else(|| mac(text.strip_prefix("01-")?))
}

/// Looks at all NICs.
pub(super) fn look(
    inventory: &Map<String, Value>,
    data: &Map<String, Value>,
    add: AddPorts,
) -> Result<Interfaces, Error> {
    let booted = booted_from(inventory, data);
    // Without knowing what was booted from, it may have been any.
    let add = match (add, &booted) {
        (AddPorts::Pxe, None) => AddPorts::All,
        (add, _) => add,
    };
    let mut found = Interfaces::default();
    for nic in listed(inventory) {
        let name = nic.get("name").and_then(Value::as_str).unwrap_or_default();
        let address = nic.get("mac_address").and_then(Value::as_str).and_then(mac);
        let (Some(address), false) = (address, name.is_empty() || name == "lo") else {
            continue;
        };
        let pxe = booted.as_ref() == Some(&address);
        let mut shown = nic.clone();
        shown.insert("mac_address".to_owned(), Value::from(address.clone()));
        shown.insert("pxe_enabled".to_owned(), Value::from(pxe));
        // Without the NIC that some tools put behind it.
        let v6 = shown.get("ipv6_address").and_then(Value::as_str);
        let v6 = v6
            .and_then(|text| text.split('%').next())
            .map(str::to_owned);
        shown.insert("ipv6_address".to_owned(), Value::from(v6));
        let ip = ["ipv4_address", "ipv6_address"]
            .iter()
            .find_map(|key| shown.get(*key)?.as_str().filter(|text| !text.is_empty()));
        let active = ip.is_some();
        let is_loopback = ip
            .and_then(|text| text.parse::<IpAddr>().ok())
            .is_some_and(|ip| ip.is_loopback());
        let wanted = match add {
            AddPorts::Pxe => pxe,
            AddPorts::Active => active,
            AddPorts::All | AddPorts::Disabled => true,
        };
        if wanted && !is_loopback && !found.macs.contains(&address) {
            found.macs.push(address);
            found
                .valid
                .insert(name.to_owned(), Value::Object(shown.clone()));
        }
        found.all.insert(name.to_owned(), Value::Object(shown));
    }
    if found.all.is_empty() {
        return Err(Error::Step(
            "none of the interfaces that the ramdisk found has a name and a valid MAC address"
                .to_owned(),
        ));
    }
    if found.valid.is_empty() {
        let names: Vec<&str> = found.all.keys().map(String::as_str).collect();
        return Err(Error::Step(format!(
            "none of the interfaces that the ramdisk found ({}) is to become a port: add_ports of \
             [conductor.inspection] is {}",
            names.join(", "),
            add.name()
        )));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use serde_json::Map;
    use serde_json::Value;
    use serde_json::json;

    use super::look;
    use crate::config::AddPorts;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    fn inventory(pxe: Value) -> Map<String, Value> {
        object(json!({"boot": {"pxe_interface": pxe}, "interfaces": [
            {"name": "eth0", "mac_address": "52-54-00-00-AA-01", "ipv4_address": null},
            {"name": "eth1", "mac_address": "52:54:00:00:aa:02", "ipv4_address": "192.0.2.1"},
            {"name": "eth2", "mac_address": "52:54:00:00:aa:03"},
            {"name": "bad", "mac_address": "x"}, {"name": "none"}, 7,
            {"name": "lo", "mac_address": "00:00:00:00:00:00"},
            {"mac_address": "52:54:00:00:aa:04"},
        ]}))
    }

    #[test]
    fn the_policy_chooses() {
        let none = Map::new();
        let with_pxe = inventory(json!("52:54:00:00:aa:01"));
        let without = inventory(Value::Null);
        let bootif = object(json!({"boot_interface": "01-52-54-00-00-aa-03"}));
        for (inventory, data, add, expected) in [
            (&with_pxe, &none, AddPorts::Pxe, vec!["01"]),
            (&without, &bootif, AddPorts::Pxe, vec!["03"]),
            (&without, &none, AddPorts::Pxe, vec!["01", "02", "03"]),
            (&with_pxe, &none, AddPorts::Active, vec!["02"]),
            (&with_pxe, &none, AddPorts::All, vec!["01", "02", "03"]),
        ] {
            let found = look(inventory, data, add).unwrap();
            let ends: Vec<&str> = found.macs.iter().map(|mac| &mac[15..]).collect();
            assert_eq!(ends, expected, "{add:?}");
            assert_eq!((found.all.len(), found.valid.len()), (3, expected.len()));
        }
        let found = look(&with_pxe, &none, AddPorts::Pxe).unwrap();
        assert_eq!(
            found.valid["eth0"],
            json!({"name": "eth0", "mac_address": "52:54:00:00:aa:01", "ipv4_address": null,
                "ipv6_address": null, "pxe_enabled": true})
        );
        assert!(look(&object(json!({"interfaces": [7]})), &none, AddPorts::All).is_err());
    }

    #[test]
    fn interfaces_that_become_no_ports() {
        let none = Map::new();
        let local = object(json!({"interfaces": [
            {"name": "eth0", "mac_address": "52:54:00:00:00:01", "ipv4_address": "127.0.0.1"},
            {"name": "eth1", "mac_address": "52:54:00:00:00:02", "ipv6_address": "fe80::1%eth1"}]}));
        let found = look(&local, &none, AddPorts::Active).unwrap();
        assert_eq!(found.macs, ["52:54:00:00:00:02"]);
        assert_eq!(found.valid["eth1"]["ipv6_address"], "fe80::1");
        let idle = object(json!({"interfaces": [
            {"name": "eth0", "mac_address": "52:54:00:00:00:01", "ipv4_address": null}]}));
        let error = look(&idle, &none, AddPorts::Active)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("(eth0)") && error.ends_with("is active"),
            "{error}"
        );
        let elsewhere = object(json!({"boot_interface": "01-52-54-00-00-00-09"}));
        let error = look(&idle, &elsewhere, AddPorts::Pxe)
            .unwrap_err()
            .to_string();
        assert!(error.ends_with("is pxe"), "{error}");
        assert!(look(&idle, &none, AddPorts::Disabled).is_ok());
    }
}

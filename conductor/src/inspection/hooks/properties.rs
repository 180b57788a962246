//! Properties and capabilities of the node, by what its ramdisk found.

use std::collections::BTreeMap;

use serde_json::Map;
use serde_json::Value;
use wrought_store::Inventory;
use wrought_store::node::Node;

use crate::config::Inspection;
use crate::error::Error;

const MIB: u64 = 1 << 20;
/// PCI devices that are looked at.
const MOST_DEVICES: usize = 4096;

fn set(node: &mut Node, name: &str, value: impl Into<Value>) {
    node.properties.insert(name.to_owned(), value.into());
}

fn missing(what: &str) -> Error {
    Error::Step(format!("the inventory that the ramdisk sent has no {what}"))
}

/// Hook `architecture`.
pub(super) fn architecture(node: &mut Node, found: &Inventory) -> Result<(), Error> {
    let cpu = found.inventory.get("cpu");
    let name = cpu.and_then(|cpu| cpu.get("architecture")?.as_str());
    let name = name.filter(|name| !name.is_empty());
    set(
        node,
        "cpu_arch",
        name.ok_or_else(|| missing("cpu.architecture"))?,
    );
    Ok(())
}

/// Hook `cpus`.
pub(super) fn cpus(node: &mut Node, found: &Inventory) {
    let cpu = found.inventory.get("cpu");
    let count = cpu.and_then(|cpu| cpu.get("count")?.as_u64());
    if let Some(count) = count.filter(|count| *count > 0) {
        set(node, "cpus", count);
    }
}

/// Hook `memory`.
pub(super) fn memory(node: &mut Node, found: &Inventory) -> Result<(), Error> {
    let memory = found.inventory.get("memory");
    let physical = || memory?.get("physical_mb")?.as_u64();
    // Firmware that lists no modules: what the kernel has.
    let total = || Some(memory?.get("total")?.as_u64()? / MIB);
    let mib = physical().or_else(total);
    set(
        node,
        "memory_mb",
        mib.ok_or_else(|| missing("memory.physical_mb"))?,
    );
    Ok(())
}

/// Hook `boot-mode`.
pub(super) fn boot_mode(node: &mut Node, found: &Inventory) -> Result<(), Error> {
    let boot = found.inventory.get("boot");
    let mode = boot.and_then(|boot| boot.get("current_boot_mode")?.as_str());
    match mode {
        Some(mode) => capabilities(node, [("boot_mode".to_owned(), mode.to_owned())]),
        None => {
            tracing::warn!(node = %node.uuid, "the inventory has no boot mode");
            Ok(())
        }
    }
}

/// Hook `cpu-capabilities`.
pub(super) fn cpu_capabilities(
    node: &mut Node,
    found: &Inventory,
    settings: &Inspection,
) -> Result<(), Error> {
    let cpu = found.inventory.get("cpu");
    let flags = cpu.and_then(|cpu| cpu.get("flags")?.as_array());
    let Some(flags) = flags.filter(|flags| !flags.is_empty()) else {
        tracing::warn!(node = %node.uuid, "the inventory has no CPU flags");
        return Ok(());
    };
    let has = |flag: &str| flags.iter().any(|known| known == flag);
    let made: BTreeMap<String, String> = settings
        .cpu_capabilities
        .iter()
        .filter(|(flag, _)| has(flag))
        .map(|(_, name)| (name.clone(), "true".to_owned()))
        .collect();
    capabilities(node, made)
}

/// The PCI devices that the ramdisk lists: in the plugin data, or where a
/// Redfish inspection has them.
fn devices(found: &Inventory) -> Option<impl Iterator<Item = &Map<String, Value>>> {
    let listed = |map: &'_ Map<String, Value>| {
        let list = map.get("pci_devices").and_then(Value::as_array);
        list.is_some_and(|list| !list.is_empty())
    };
    let map = [&found.plugin_data, &found.inventory]
        .into_iter()
        .find(|map| listed(map))?;
    let list = map.get("pci_devices")?.as_array()?;
    Some(list.iter().take(MOST_DEVICES).filter_map(Value::as_object))
}

fn is(device: &Map<String, Value>, vendor: &str, product: &str) -> bool {
    let has = |key: &str, wanted: &str| {
        device
            .get(key)
            .and_then(Value::as_str)
            .is_some_and(|value| value.eq_ignore_ascii_case(wanted))
    };
    has("vendor_id", vendor) && has("product_id", product)
}

/// Hook `pci-devices`.
pub(super) fn pci_devices(
    node: &mut Node,
    found: &Inventory,
    settings: &Inspection,
) -> Result<(), Error> {
    let Some(devices) = devices(found) else {
        if !settings.pci_device_alias.is_empty() {
            tracing::warn!(node = %node.uuid, "the ramdisk lists no PCI devices: is its collector \
                pci-devices on?");
        }
        return Ok(());
    };
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for device in devices {
        let alias = settings
            .pci_device_alias
            .iter()
            .find(|alias| is(device, &alias.vendor_id, &alias.product_id));
        if let Some(alias) = alias {
            *counts.entry(alias.name.clone()).or_default() += 1;
        }
    }
    let counts = counts
        .into_iter()
        .map(|(name, count)| (name, count.to_string()));
    capabilities(node, counts)
}

/// Hook `accelerators`.
pub(super) fn accelerators(node: &mut Node, found: &Inventory, settings: &Inspection) {
    let Some(devices) = devices(found) else {
        tracing::warn!(node = %node.uuid, "the ramdisk lists no PCI devices: is its collector \
            pci-devices on?");
        return;
    };
    let known = |device: &Map<String, Value>| {
        let mut known = settings.known_accelerators.iter();
        let known = known.find(|known| is(device, &known.vendor_id, &known.device_id))?;
        let mut shown = serde_json::to_value(known).ok()?;
        let address = device.get("bus").cloned().unwrap_or_default();
        shown
            .as_object_mut()?
            .insert("pci_address".to_owned(), address);
        Some(shown)
    };
    let list: Vec<Value> = devices.filter_map(known).collect();
    set(node, "accelerators", list);
}

/// Sets some of `properties.capabilities`, which are a text `a:b,c:d` or an
/// object; others stay as they are.
fn capabilities(
    node: &mut Node,
    made: impl IntoIterator<Item = (String, String)>,
) -> Result<(), Error> {
    let made: Vec<(String, String)> = made.into_iter().collect();
    if made.is_empty() {
        return Ok(());
    }
    let bad = |(name, value): &&(String, String)| {
        name.is_empty() || name.contains([',', ':']) || value.contains(',')
    };
    if let Some((name, value)) = made.iter().find(bad) {
        let text: String = format!("{name}:{value}").chars().take(60).collect();
        return Err(Error::Step(format!(
            "expected a capability without commas and with one colon, found {text:?}"
        )));
    }
    let known = node.properties.get("capabilities");
    let value = match known {
        Some(Value::Object(known)) => {
            let mut known = known.clone();
            known.extend(made.into_iter().map(|(name, value)| (name, value.into())));
            Value::Object(known)
        }
        known => {
            let text = known.and_then(Value::as_str).unwrap_or_default();
            let mut pairs: Vec<(String, String)> = text
                .split(',')
                .filter_map(|pair| pair.split_once(':'))
                .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
                .collect();
            for (name, value) in made {
                match pairs.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, known)) => *known = value,
                    None => pairs.push((name, value)),
                }
            }
            let pairs: Vec<String> = pairs
                .iter()
                .map(|(name, value)| format!("{name}:{value}"))
                .collect();
            Value::String(pairs.join(","))
        }
    };
    set(node, "capabilities", value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::json;
    use wrought_store::node::Node;

    use super::super::tests::found;
    use super::accelerators;
    use super::architecture;
    use super::boot_mode;
    use super::cpu_capabilities;
    use super::cpus;
    use super::memory;
    use super::pci_devices;
    use crate::config::Inspection;
    use crate::config::PciAlias;

    fn node(capabilities: Value) -> Node {
        let mut node = Node::new("redfish");
        node.properties
            .insert("capabilities".to_owned(), capabilities);
        node
    }

    #[test]
    fn properties_of_what_is_there() {
        let whole = found(
            json!({"cpu": {"architecture": "x86_64", "count": 8}, "memory":
                {"total": 4_294_967_296_u64, "physical_mb": 8192}}),
            json!({}),
        );
        let mut node = Node::new("redfish");
        architecture(&mut node, &whole).unwrap();
        memory(&mut node, &whole).unwrap();
        cpus(&mut node, &whole);
        let expected = json!({"cpu_arch": "x86_64", "cpus": 8, "memory_mb": 8192});
        assert_eq!(Value::Object(node.properties.clone()), expected);
        let total = found(json!({"memory": {"total": 1_048_576}}), json!({}));
        memory(&mut node, &total).unwrap();
        assert_eq!(node.properties["memory_mb"], 1);
        for broken in [
            json!({}),
            json!({"cpu": 1, "memory": []}),
            json!({"cpu": {"count": "x"}}),
        ] {
            let broken = found(broken, json!({}));
            let error = architecture(&mut node, &broken).unwrap_err();
            assert!(
                error.to_string().ends_with("has no cpu.architecture"),
                "{error}"
            );
            let error = memory(&mut node, &broken).unwrap_err();
            assert!(
                error.to_string().ends_with("has no memory.physical_mb"),
                "{error}"
            );
            cpus(&mut node, &broken);
        }
        assert_eq!(node.properties["cpus"], 8);
    }

    #[test]
    fn capabilities_are_added_to_those_that_are_there() {
        let uefi = found(json!({"boot": {"current_boot_mode": "uefi"}}), json!({}));
        for (before, after) in [
            (Value::Null, json!("boot_mode:uefi")),
            (json!("boot_mode:bios,a:b"), json!("boot_mode:uefi,a:b")),
            (json!("a:b, c:d"), json!("a:b,c:d,boot_mode:uefi")),
            (json!({"a": "b"}), json!({"a": "b", "boot_mode": "uefi"})),
        ] {
            let mut node = node(before);
            boot_mode(&mut node, &uefi).unwrap();
            assert_eq!(node.properties["capabilities"], after);
            boot_mode(&mut node, &found(json!({}), json!({}))).unwrap();
            assert_eq!(node.properties["capabilities"], after);
        }
        let odd = found(json!({"boot": {"current_boot_mode": "a,b:c"}}), json!({}));
        assert!(boot_mode(&mut node(Value::Null), &odd).is_err());
    }

    #[test]
    fn cpu_flags_become_capabilities() {
        let flags = json!({"cpu": {"flags": ["fpu", "vmx", "svm", "aes", "pdpe1gb"]}});
        let mut node = node(json!("a:b"));
        cpu_capabilities(&mut node, &found(flags, json!({})), &Inspection::default()).unwrap();
        let expected = "a:b,cpu_aes:true,cpu_hugepages_1g:true,cpu_vt:true";
        assert_eq!(node.properties["capabilities"], expected);
    }

    #[test]
    fn pci_devices_are_counted_and_accelerators_listed() {
        let settings = Inspection {
            pci_device_alias: vec![PciAlias {
                vendor_id: "8086".into(),
                product_id: "1533".into(),
                name: "nic".into(),
            }],
            ..Inspection::default()
        };
        let nic = json!({"vendor_id": "8086", "product_id": "1533", "bus": "0000:02:00.0"});
        let gpu = json!({"vendor_id": "10DE", "product_id": "1eb8", "bus": "0000:03:00.0"});
        let data = json!({"pci_devices": [nic, gpu, nic, 7, {"vendor_id": "8086"}]});
        let devices = found(json!({}), data);
        let mut node = node(json!("a:b"));
        pci_devices(&mut node, &devices, &settings).unwrap();
        assert_eq!(node.properties["capabilities"], "a:b,nic:2");
        accelerators(&mut node, &devices, &settings);
        let expected = json!([{"vendor_id": "10de", "device_id": "1eb8", "type": "GPU",
            "device_info": "NVIDIA Corporation Tesla T4", "pci_address": "0000:03:00.0"}]);
        assert_eq!(node.properties["accelerators"], expected);
        // Without a list nothing is known; with an empty one, there is none.
        accelerators(&mut node, &found(json!({}), json!({})), &settings);
        assert_eq!(node.properties["accelerators"], expected);
        let none = found(json!({"pci_devices": [nic]}), json!({"pci_devices": []}));
        accelerators(&mut node, &none, &settings);
        assert_eq!(node.properties["accelerators"], json!([]));
    }
}

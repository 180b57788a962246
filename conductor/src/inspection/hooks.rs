//! Hooks: what is taken over from an inventory without being asked.

use serde_json::Map;
use serde_json::Value;
use wrought_store::Inventory;
use wrought_store::port::Port;

use super::interfaces;
use crate::config::AddPorts;
use crate::config::Hook;
use crate::config::Inspection;
use crate::config::KeepPorts;
use crate::error::Error;
use crate::nodes::taken;
use crate::task::Task;
use crate::task::store;
use crate::validate;

/// Characters of the ramdisk's own error that are passed on.
const LONGEST_ERROR: usize = 1000;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Runs the configured hooks in their order.
pub(super) async fn run(task: &mut Task, found: &mut Inventory) -> Result<(), Error> {
    let settings = task.svc.config.conductor.inspection.clone();
    for hook in &settings.hooks {
        match hook {
            Hook::RamdiskError => ramdisk_error(found)?,
            Hook::ValidateInterfaces => {
                let add = settings.add_ports;
                let seen = interfaces::look(&found.inventory, &found.plugin_data, add)?;
                let data = &mut found.plugin_data;
                data.insert("all_interfaces".to_owned(), seen.all.into());
                data.insert("valid_interfaces".to_owned(), seen.valid.into());
                data.insert("macs".to_owned(), seen.macs.into());
            }
            Hook::Ports => ports(task, &found.plugin_data, &settings).await?,
            Hook::Architecture | Hook::Memory | Hook::RootDevice => {
                if let Some((name, value)) = property(*hook, found) {
                    task.node.properties.insert(name.to_owned(), value);
                }
            }
        }
    }
    Ok(())
}

/// The ramdisk could not find out all that it should.
fn ramdisk_error(found: &Inventory) -> Result<(), Error> {
    match found.plugin_data.get("error") {
        Some(Value::String(text)) if !text.is_empty() => {
            let text: String = text.chars().take(LONGEST_ERROR).collect();
            Err(Error::Step(format!("the ramdisk reported: {text}")))
        }
        _ => Ok(()),
    }
}

/// A property of the node that a hook sets.
fn property(hook: Hook, found: &Inventory) -> Option<(&'static str, Value)> {
    let inventory = &found.inventory;
    match hook {
        Hook::Architecture => {
            let name = inventory.get("cpu")?.get("architecture")?.as_str()?;
            Some(("cpu_arch", Value::from(name)))
        }
        Hook::Memory => {
            let memory = inventory.get("memory")?;
            let physical = memory.get("physical_mb").and_then(Value::as_u64);
            let total = || Some(memory.get("total")?.as_u64()? / MIB);
            Some(("memory_mb", physical.or_else(total)?.into()))
        }
        Hook::RootDevice => {
            let size = found.plugin_data.get("root_disk")?.get("size")?.as_u64()?;
            // What a partition table needs is not there for a root partition.
            Some(("local_gb", (size / GIB).saturating_sub(1).into()))
        }
        Hook::RamdiskError | Hook::ValidateInterfaces | Hook::Ports => None,
    }
}

fn strings(value: Option<&Value>) -> Vec<String> {
    let list = value.and_then(Value::as_array);
    let texts = list.into_iter().flatten().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

/// Makes ports for the valid NICs, corrects which are booted from, and deletes
/// those that are not to be kept.
async fn ports(task: &Task, data: &Map<String, Value>, settings: &Inspection) -> Result<(), Error> {
    let svc = &task.svc;
    let node = task.node.uuid;
    let macs = strings(data.get("macs"));
    let all = data.get("all_interfaces").and_then(Value::as_object);
    let nics: Vec<&Value> = all.into_iter().flat_map(Map::values).collect();
    let is_pxe = |address: &str| {
        nics.iter()
            .any(|nic| nic["mac_address"] == *address && nic["pxe_enabled"] == true)
    };
    // Without knowing what was booted from, any NIC may be.
    let known = nics.iter().any(|nic| nic["pxe_enabled"] == true);
    let present = |address: &str| nics.iter().any(|nic| nic["mac_address"] == *address);
    let existing = validate::ports(svc, node).await?;
    for mut port in existing.clone() {
        let keep = match settings.keep_ports {
            KeepPorts::All => true,
            KeepPorts::Present => present(&port.address),
            KeepPorts::Added => macs.contains(&port.address),
        };
        if !keep {
            tracing::info!(%node, address = port.address, "port not kept");
            svc.store.remove::<Port>(port.uuid).await.map_err(taken)?;
            continue;
        }
        let pxe = is_pxe(&port.address);
        let told = known && present(&port.address) && settings.update_pxe_enabled;
        if told && port.pxe_enabled != pxe {
            port.pxe_enabled = pxe;
            svc.store.save(&mut port).await.map_err(taken)?;
        }
    }
    if settings.add_ports == AddPorts::Disabled {
        return Ok(());
    }
    let is_new = |address: &&String| !existing.iter().any(|port| port.address == **address);
    for address in macs.iter().filter(is_new) {
        add_port(task, address, !known || is_pxe(address)).await?;
    }
    Ok(())
}

/// Makes a port, unless another node has the address.
pub(crate) async fn add_port(task: &Task, address: &str, pxe_enabled: bool) -> Result<(), Error> {
    let node = task.node.uuid;
    let port = Port {
        pxe_enabled,
        ..Port::new(node, address)
    };
    match task.svc.store.insert(&port).await {
        Ok(()) => tracing::info!(%node, address, "port made"),
        Err(wrought_store::Error::DuplicateAddress { other, .. }) => {
            tracing::warn!(%node, address, %other, "address belongs to another port");
        }
        Err(error) => return Err(store("store a port")(error)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::json;
    use wrought_store::Inventory;

    use super::property;
    use super::ramdisk_error;
    use crate::config::Hook;

    fn found(inventory: Value, data: Value) -> Inventory {
        Inventory {
            inventory: inventory.as_object().unwrap().clone(),
            plugin_data: data.as_object().unwrap().clone(),
        }
    }

    #[test]
    fn properties_of_what_is_there() {
        let whole = found(
            json!({"cpu": {"architecture": "x86_64"}, "memory": {"total": 4_294_967_296_u64,
                "physical_mb": 4096}}),
            json!({"root_disk": {"size": 10_737_418_240_u64}}),
        );
        for (hook, expected) in [
            (Hook::Architecture, ("cpu_arch", json!("x86_64"))),
            (Hook::Memory, ("memory_mb", json!(4096))),
            (Hook::RootDevice, ("local_gb", json!(9))),
        ] {
            assert_eq!(property(hook, &whole), Some(expected));
            assert_eq!(property(hook, &found(json!({"cpu": 1}), json!({}))), None);
        }
        let total = found(json!({"memory": {"total": 1_048_576}}), json!({}));
        assert_eq!(
            property(Hook::Memory, &total),
            Some(("memory_mb", json!(1)))
        );
    }

    #[test]
    fn a_ramdisk_that_failed_says_why() {
        ramdisk_error(&found(json!({}), json!({"error": null}))).unwrap();
        ramdisk_error(&found(json!({}), json!({"error": ""}))).unwrap();
        let error = ramdisk_error(&found(json!({}), json!({"error": "x".repeat(5000)})));
        assert!(error.unwrap_err().to_string().len() < 1100);
    }
}

//! Hooks: what is taken over from an inventory without being asked. Their names
//! and what they set are Ironic's.

mod lldp;
mod ports;
mod properties;
mod storage;
mod switches;

use serde_json::Value;
use wrought_store::Inventory;

use super::interfaces;
use crate::config::Hook;
use crate::error::Error;
use crate::task::Task;

pub(crate) use ports::add_port;
pub(super) use storage::serials;

/// Characters of the ramdisk's own error that are passed on.
const LONGEST_ERROR: usize = 1000;

/// Runs the configured hooks in their order. Properties are changed in the
/// task's node only; ports are stored at once.
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
            Hook::Ports => ports::make(task, &found.plugin_data, &settings).await?,
            Hook::Architecture => properties::architecture(&mut task.node, found)?,
            Hook::Cpus => properties::cpus(&mut task.node, found),
            Hook::Memory => properties::memory(&mut task.node, found)?,
            Hook::BootMode => properties::boot_mode(&mut task.node, found)?,
            Hook::CpuCapabilities => {
                properties::cpu_capabilities(&mut task.node, found, &settings)?;
            }
            Hook::PciDevices => properties::pci_devices(&mut task.node, found, &settings)?,
            Hook::Accelerators => properties::accelerators(&mut task.node, found, &settings),
            Hook::RootDevice => storage::root_device(&mut task.node, found, &settings)?,
            Hook::RaidDevice => storage::raid_device(&mut task.node, found),
            Hook::ParseLldp => switches::parse(found),
            Hook::LocalLinkConnection => switches::local_links(task, found).await?,
            Hook::PhysicalNetwork => switches::physical_networks(task, found, &settings).await?,
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

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::json;
    use wrought_store::Inventory;

    use super::ramdisk_error;

    /// What was found, of two objects.
    pub(super) fn found(inventory: Value, data: Value) -> Inventory {
        Inventory {
            inventory: inventory.as_object().unwrap().clone(),
            plugin_data: data.as_object().unwrap().clone(),
        }
    }

    #[test]
    fn a_ramdisk_that_failed_says_why() {
        ramdisk_error(&found(json!({}), json!({"error": null}))).unwrap();
        ramdisk_error(&found(json!({}), json!({"error": ""}))).unwrap();
        let error = ramdisk_error(&found(json!({}), json!({"error": "x".repeat(5000)})));
        assert!(error.unwrap_err().to_string().len() < 1100);
    }
}

//! Inspection: by the ramdisk (`agent`), by what the BMC tells (`redfish`), or
//! without a machine (`fake`).

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use serde_json::json;
use wrought_bmc::redfish::Nic;
use wrought_bmc::redfish::System;
use wrought_store::Inventory;
use wrought_store::node::Node;
use wrought_store::port::Port;
use wrought_wire::mac;

use super::Inspect;
use super::Inspection;
use super::fake::Fake;
use super::redfish::Redfish;
use super::redfish::failed;
use crate::config::AddPorts;
use crate::drivers;
use crate::error::Error;
use crate::inspection;
use crate::internal;
use crate::service::Service;
use crate::steps::ramdisk;
use crate::task::Task;
use crate::task::store;
use crate::validate;

/// Boots the ramdisk, which sends what it finds.
pub(super) struct Agent;

#[async_trait]
impl Inspect for Agent {
    fn validate(&self, svc: &Service, node: &Node, ports: &[Port]) -> Result<(), Error> {
        drivers::power(node)?.validate(svc, node)?;
        drivers::management(node)?.validate(svc, node)?;
        drivers::boot(node)?.validate(svc, node, ports)
    }

    async fn inspect(&self, task: &mut Task) -> Result<Inspection, Error> {
        let addresses = inspection::bmc_addresses(&task.node).await;
        internal::set(&mut task.node, internal::BMC_ADDRESSES, addresses);
        ramdisk::boot(task).await?;
        Ok(Inspection::Waiting)
    }
}

/// What the BMC tells, without the machine being started.
#[async_trait]
impl Inspect for Redfish {
    fn validate(&self, svc: &Service, node: &Node, _ports: &[Port]) -> Result<(), Error> {
        svc.bmcs.of(node).map(drop)
    }

    async fn inspect(&self, task: &mut Task) -> Result<Inspection, Error> {
        let svc = Arc::clone(&task.svc);
        let bmc = svc.bmcs.of(&task.node)?;
        let system = bmc.system().await;
        let system = system.map_err(failed(&task.node, "read the system"))?;
        let nics = bmc.nics().await;
        let nics = nics.map_err(failed(&task.node, "read the NICs"))?;
        let found = inventory(&system, &nics);
        let saved = svc.store.save_inventory(task.node.uuid, &found);
        saved.await.map_err(store("store an inventory"))?;
        if let Some(gib) = system.memory_gib {
            let memory = Value::from(gib.saturating_mul(1024));
            task.node.properties.insert("memory_mb".to_owned(), memory);
        }
        if svc.config.conductor.inspection.add_ports != AddPorts::Disabled {
            let existing = validate::ports(&svc, task.node.uuid).await?;
            let is_new = |mac: &String| !existing.iter().any(|port| port.address == *mac);
            // Others than Ethernet have longer addresses.
            for mac in nics
                .iter()
                .filter_map(|nic| mac::normalised(&nic.mac))
                .filter(is_new)
            {
                inspection::add_port(task, &mac, true).await?;
            }
        }
        Ok(Inspection::Finished)
    }
}

/// An inventory in the form of a ramdisk's, with what a BMC knows.
fn inventory(system: &System, nics: &[Nic]) -> Inventory {
    let nic = |nic: &Nic| {
        json!({"name": nic.id, "mac_address": nic.mac, "has_carrier": nic.link,
            "speed_mbps": nic.speed})
    };
    let interfaces: Vec<Value> = nics.iter().map(nic).collect();
    let found = json!({
        "cpu": {"count": system.processors},
        "memory": {"physical_mb": system.memory_gib.map(|gib| gib.saturating_mul(1024))},
        "system_vendor": {
            "manufacturer": system.manufacturer,
            "product_name": system.model,
            "serial_number": system.serial_number,
            "firmware": {"version": system.bios_version},
        },
        "interfaces": interfaces,
    });
    Inventory {
        inventory: found.as_object().cloned().unwrap_or_default(),
        ..Inventory::default()
    }
}

#[async_trait]
impl Inspect for Fake {
    fn validate(&self, _svc: &Service, _node: &Node, _ports: &[Port]) -> Result<(), Error> {
        Ok(())
    }

    async fn inspect(&self, _task: &mut Task) -> Result<Inspection, Error> {
        Ok(Inspection::Finished)
    }
}

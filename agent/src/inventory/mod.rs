//! What this machine is, in the shape of ironic-python-agent's inventory: read
//! from the kernel's files and the BMC's own interface, without tools. What
//! cannot be told is null or empty, never missing.

mod bmc;
mod cpu;
mod dmi;
mod memory;
mod nics;
pub(crate) mod smbios;

use std::path::Path;

use serde_json::Value;
use serde_json::json;

use crate::command::Agent;
use crate::command::Mode;
use crate::command::Registry;
use crate::disk::Disk;
use crate::disk::Enumerator;
use crate::net::lldp;
use crate::net::lldp::Heard;
use crate::net::mac::Mac;
use crate::net::nic::Nic;

/// Where the kernel's views are; tests point it at trees of their own.
#[derive(Debug, Clone, Copy)]
struct Roots<'a> {
    /// `/sys`
    sys: &'a Path,
    /// `/proc`
    proc: &'a Path,
}

impl Default for Roots<'_> {
    fn default() -> Self {
        Self {
            sys: Path::new("/sys"),
            proc: Path::new("/proc"),
        }
    }
}

/// Adds `poll.get_hardware_info`.
pub fn register(registry: &mut Registry) {
    registry.blocking("poll.get_hardware_info", Mode::Sync, |context, _| {
        Ok(inventory(&context.agent))
    });
}

/// The whole inventory. Blocks: files of the kernel, disks, the BMC and, where
/// `ipa-collect-lldp` says so, the switches are asked.
pub fn inventory(agent: &Agent) -> Value {
    let disks = Enumerator::new(&agent.only_disk).disks();
    let params = &agent.params;
    let heard = lldp::is_wanted(params).then(|| lldp::listen(&nics(), lldp::patience(params)));
    let skips_bmc = agent.node.config().is_some_and(|config| {
        config.other.get("agent_skip_bmc_detect") == Some(&Value::Bool(true))
    });
    let mut found = of(&disks, params.bootif, heard.as_ref());
    if skips_bmc && let Some(found) = found.as_object_mut() {
        // The conductor knows the BMC better: it said so.
        found.insert("bmc_address".to_owned(), Value::Null);
        found.insert("bmc_v6address".to_owned(), Value::Null);
        found.remove("bmc_mac");
    }
    found
}

/// The NICs that the inventory lists.
pub fn nics() -> Vec<Nic> {
    nics::listed()
}

/// The same with these disks. `boot_nic`: the NIC that the firmware booted
/// from. `heard`: what the switches said.
pub fn of(disks: &[Disk], boot_nic: Option<Mac>, heard: Option<&Heard>) -> Value {
    describe(Roots::default(), disks, boot_nic, heard)
}

fn describe(
    roots: Roots<'_>,
    disks: &[Disk],
    boot_nic: Option<Mac>,
    heard: Option<&Heard>,
) -> Value {
    let bmc = bmc::find();
    let efi = roots.sys.join("firmware/efi").exists();
    let mut inventory = json!({
        "interfaces": nics::list(roots, heard),
        "cpu": cpu::read(roots),
        "disks": disks.iter().map(Disk::to_inventory).collect::<Vec<_>>(),
        "memory": memory::read(roots),
        "bmc_address": bmc.address(),
        "bmc_v6address": bmc.address_v6(),
        "system_vendor": dmi::vendor(roots),
        "boot": {
            "current_boot_mode": if efi { "uefi" } else { "bios" },
            "pxe_interface": boot_nic.map(|mac| mac.to_string()),
        },
        "hostname": hostname(),
    });
    if let (Some(mac), Some(map)) = (bmc.mac(), inventory.as_object_mut()) {
        map.insert("bmc_mac".to_owned(), Value::String(mac));
    }
    inventory
}

fn hostname() -> Option<String> {
    nix::unistd::gethostname().ok()?.into_string().ok()
}

#[cfg(test)]
mod tests;

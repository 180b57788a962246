//! The collectors: what is sent beside the inventory.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use serde_json::json;
use tracing::warn;

use super::buses;
use super::dmi;
use super::numa;
use crate::command::CommandFailure;
use crate::disk::Disk;
use crate::disk::DiskRules;
use crate::disk::root_disk;
use crate::ext;
use crate::inventory;
use crate::inventory::smbios;
use crate::logging::Ring;
use crate::net::lldp;
use crate::net::mac::Mac;
use crate::params::Params;

const SYS: &str = "/sys";

/// One of them; the names are ironic-python-agent's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collector {
    /// Inventory, root disk and boot interface.
    Default,
    /// The agent's log and what the system logged.
    Logs,
    /// Devices on the PCI bus.
    PciDevices,
    /// Which memory, processors and NICs belong together.
    NumaTopology,
    /// Firmware, processors and memory by SMBIOS.
    DmiDecode,
    /// What the switches say.
    Lldp,
    /// Devices on the USB bus.
    UsbDevices,
}

impl Collector {
    const ALL: [(&'static str, Self); 7] = [
        ("default", Self::Default),
        ("logs", Self::Logs),
        ("pci-devices", Self::PciDevices),
        ("numa-topology", Self::NumaTopology),
        ("dmi-decode", Self::DmiDecode),
        ("lldp", Self::Lldp),
        ("usb-devices", Self::UsbDevices),
    ];

    fn name(self) -> &'static str {
        let known = Self::ALL.iter().find(|(_, known)| *known == self);
        known.map_or("", |(name, _)| name)
    }

    /// Those of `ipa-inspection-collectors`, a comma list; without it the first
    /// two. What nobody has is told as the second part, a text each.
    pub fn list(given: Option<&str>) -> (Vec<Self>, Vec<String>) {
        let names = given.unwrap_or("default,logs").split(',').map(str::trim);
        let (mut list, mut problems) = (Vec::new(), Vec::new());
        for name in names.filter(|name| !name.is_empty()) {
            match Self::ALL.iter().find(|(known, _)| *known == name) {
                Some((_, known)) if list.contains(known) => {}
                Some((_, known)) => list.push(*known),
                None => {
                    let known: Vec<&str> = Self::ALL.iter().map(|(name, _)| *name).collect();
                    problems.push(format!(
                        "ipa-inspection-collectors: expected some of {}; found {name:?}, which \
                         this agent does not have",
                        known.join(", ")
                    ));
                }
            }
        }
        (list, problems)
    }
}

/// Everything in one document; `problems` are told in it as the ramdisk's error,
/// with those that come up here. Blocks.
pub(super) fn all(
    params: &Params,
    disks: &[Disk],
    collectors: &[Collector],
    mut problems: Vec<String>,
    ring: &Ring,
) -> Value {
    let listens = collectors.contains(&Collector::Lldp);
    let heard = (listens || lldp::is_wanted(params))
        .then(|| lldp::listen(&inventory::nics(), lldp::patience(params)));
    let in_inventory = heard.as_ref().filter(|_| lldp::is_wanted(params));
    let mut document = json!({
        "inventory": inventory::of(disks, params.bootif, in_inventory),
        "error": null,
        "configuration": {
            "collectors": collectors.iter().map(|one| one.name()).collect::<Vec<_>>(),
            "managers": [{"name": "wrought", "version": env!("CARGO_PKG_VERSION")}],
        },
    });
    let sys = Path::new(SYS);
    for collector in collectors {
        match collector {
            Collector::Default => {
                document["boot_interface"] = json!(params.bootif.map(pxe_form));
                // The node's hints are not known yet: the smallest disk that
                // is large enough.
                document["root_disk"] = match root_disk(disks, &DiskRules::default()) {
                    Ok(disk) => disk.to_inventory(),
                    Err(error) => {
                        warn!("inspection: {}", CommandFailure::chain(&error));
                        Value::Null
                    }
                };
            }
            Collector::Logs => match ext::archive(ring) {
                Ok(archive) => document["logs"] = STANDARD.encode(archive).into(),
                Err(error) => problems.push(format!("collecting the logs: {error}")),
            },
            Collector::PciDevices => document["pci_devices"] = buses::pci(sys),
            Collector::NumaTopology => match numa::topology(sys) {
                Some(topology) => document["numa_topology"] = topology,
                None => warn!("inspection: the kernel tells of no NUMA nodes"),
            },
            Collector::DmiDecode => document["dmi"] = dmi::decode(&smbios::read(sys)),
            Collector::Lldp => document["lldp_raw"] = json!(heard),
            Collector::UsbDevices => document["usb_devices"] = buses::usb(sys),
        }
    }
    if !problems.is_empty() {
        document["error"] = problems.join("; ").into();
    }
    document
}

/// The form in which PXE names a NIC: hardware type and address with hyphens.
fn pxe_form(mac: Mac) -> String {
    format!("01-{}", mac.to_string().replace(':', "-"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Collector;
    use super::all;
    use crate::logging::Ring;
    use crate::params::Params;
    use crate::params::Words;

    #[test]
    fn collectors_by_name() {
        assert_eq!(
            Collector::list(None),
            (vec![Collector::Default, Collector::Logs], Vec::new())
        );
        let (list, problems) = Collector::list(Some("pci-devices, nothing,default,default"));
        assert_eq!(list, [Collector::PciDevices, Collector::Default]);
        assert_eq!(problems.len(), 1);
        assert!(
            problems[0].contains("\"nothing\"") && problems[0].contains("numa-topology"),
            "{problems:?}"
        );
    }

    #[test]
    fn the_document_has_what_the_conductor_reads() {
        let line = "BOOTIF=01-52-54-00-00-00-01";
        let params = Params::from_words(Words::from_cmdline(line)).unwrap();
        let (collectors, _) = Collector::list(None);
        let document = all(&params, &[], &collectors, Vec::new(), &Ring::default());
        assert_eq!(document["boot_interface"], "01-52-54-00-00-00-01");
        assert_eq!(
            document["inventory"]["boot"]["pxe_interface"],
            "52:54:00:00:00:01"
        );
        assert_eq!(
            document["configuration"]["collectors"],
            json!(["default", "logs"])
        );
        assert!(document["logs"].as_str().unwrap().len() > 100);
        assert!(document["error"].is_null() && document["root_disk"].is_null());
        assert!(document.get("lldp_raw").is_none());
    }

    #[test]
    fn all_collectors_and_an_unknown_one() {
        let line = "ipa-lldp-timeout=0";
        let params = Params::from_words(Words::from_cmdline(line)).unwrap();
        let names: Vec<&str> = Collector::ALL.iter().map(|(name, _)| *name).collect();
        let (collectors, problems) = Collector::list(Some(&format!("{},magic", names.join(","))));
        let document = all(&params, &[], &collectors, problems, &Ring::default());
        let error = document["error"].as_str().unwrap();
        assert!(error.contains("found \"magic\""), "{error}");
        for key in ["pci_devices", "dmi", "lldp_raw", "usb_devices", "logs"] {
            assert!(document.get(key).is_some(), "{key}");
        }
        assert_eq!(document["configuration"]["collectors"], json!(names));
    }
}

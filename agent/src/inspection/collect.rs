//! The collectors: what is sent beside the inventory.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use serde_json::json;
use tracing::warn;

use crate::command::CommandFailure;
use crate::disk::Disk;
use crate::disk::DiskRules;
use crate::disk::root_disk;
use crate::disk::sysfs;
use crate::ext;
use crate::inventory;
use crate::logging::Ring;
use crate::net::mac::Mac;
use crate::params::Params;

/// One of them; the names are ironic-python-agent's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collector {
    /// Inventory, root disk and boot interface.
    Default,
    /// The agent's log and what the system logged.
    Logs,
    /// Devices on the PCI bus.
    PciDevices,
}

impl Collector {
    const ALL: [(&'static str, Self); 3] = [
        ("default", Self::Default),
        ("logs", Self::Logs),
        ("pci-devices", Self::PciDevices),
    ];

    fn name(self) -> &'static str {
        let known = Self::ALL.iter().find(|(_, known)| *known == self);
        known.map_or("", |(name, _)| name)
    }

    /// Those of `ipa-inspection-collectors`, a comma list; without it the first
    /// two. Names that nobody has are said in the log and left out.
    pub fn list(given: Option<&str>) -> Vec<Self> {
        let names = given.unwrap_or("default,logs").split(',').map(str::trim);
        let mut list = Vec::new();
        for name in names.filter(|name| !name.is_empty()) {
            match Self::ALL.iter().find(|(known, _)| *known == name) {
                Some((_, known)) => list.push(*known),
                None => warn!("inspection: there is no collector {name:?} in this agent"),
            }
        }
        list
    }
}

/// Everything in one document. Blocks.
pub(super) fn all(params: &Params, disks: &[Disk], collectors: &[Collector], ring: &Ring) -> Value {
    let mut document = json!({
        "inventory": inventory::of(disks, params.bootif),
        "error": null,
        "configuration": {
            "collectors": collectors.iter().map(|one| one.name()).collect::<Vec<_>>(),
            "managers": [{"name": "wrought", "version": env!("CARGO_PKG_VERSION")}],
        },
    });
    let mut problems = Vec::new();
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
            Collector::PciDevices => document["pci_devices"] = pci_devices(Path::new("/sys")),
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

fn pci_devices(sys: &Path) -> Value {
    let folder = sys.join("bus/pci/devices");
    let field = |address: &str, name: &str| {
        let text = sysfs::text(&folder.join(address).join(name)).unwrap_or_default();
        text.trim_start_matches("0x").to_owned()
    };
    let devices = sysfs::names(&folder).into_iter().map(|address| {
        json!({
            "vendor_id": field(&address, "vendor"),
            "product_id": field(&address, "device"),
            "class": field(&address, "class"),
            "revision": field(&address, "revision"),
            "bus": address,
        })
    });
    devices.collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::Collector;
    use super::all;
    use super::pci_devices;
    use crate::logging::Ring;
    use crate::params::Params;
    use crate::params::Words;

    #[test]
    fn collectors_by_name() {
        assert_eq!(Collector::list(None), [Collector::Default, Collector::Logs]);
        assert_eq!(
            Collector::list(Some("pci-devices, nothing,default")),
            [Collector::PciDevices, Collector::Default]
        );
    }

    #[test]
    fn the_document_has_what_the_conductor_reads() {
        let line = "BOOTIF=01-52-54-00-00-00-01";
        let params = Params::from_words(Words::from_cmdline(line)).unwrap();
        let collectors = Collector::list(None);
        let document = all(&params, &[], &collectors, &Ring::default());
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
    }

    #[test]
    fn pci_devices_are_listed() {
        let root = tempfile::tempdir().unwrap();
        let device = root.path().join("bus/pci/devices/0000:02:00.0");
        fs::create_dir_all(&device).unwrap();
        for (name, content) in [
            ("vendor", "0x8086\n"),
            ("device", "0x1533\n"),
            ("class", "0x020000\n"),
        ] {
            fs::write(device.join(name), content).unwrap();
        }
        let expected = json!([{
            "vendor_id": "8086", "product_id": "1533", "class": "020000", "revision": "",
            "bus": "0000:02:00.0",
        }]);
        assert_eq!(pci_devices(root.path()), expected);
    }
}

//! Devices on the PCI and USB buses (collectors `pci-devices` and
//! `usb-devices`), in the shapes of ironic-python-agent's.

use std::path::Path;

use serde_json::Value;
use serde_json::json;

use crate::disk::sysfs;

/// `bDeviceClass` of hubs.
const HUB: &str = "09";

/// All PCI functions, by address; numbers are hex digits without `0x`.
pub(super) fn pci(sys: &Path) -> Value {
    let folder = sys.join("bus/pci/devices");
    let describe = |address: String| {
        let text = |name: &str| sysfs::text(&folder.join(&address).join(name));
        let hex = |name: &str| text(name)?.strip_prefix("0x").map(str::to_owned);
        Some(json!({
            "vendor_id": hex("vendor")?,
            "product_id": hex("device")?,
            "class": hex("class")?,
            "revision": hex("revision"),
            "numa_node_id": text("numa_node"),
            "bus": address,
        }))
    };
    sysfs::names(&folder)
        .into_iter()
        .filter_map(describe)
        .collect()
}

/// All USB devices that are no hubs, by their place; `handle` is bus and number
/// of the device.
pub(super) fn usb(sys: &Path) -> Value {
    let folder = sys.join("bus/usb/devices");
    let describe = |place: String| {
        let text = |name: &str| sysfs::text(&folder.join(&place).join(name));
        // Interfaces of devices have none of these.
        let (bus, device) = (text("busnum")?, text("devnum")?);
        let is_hub = text("bDeviceClass").as_deref() == Some(HUB);
        (!is_hub).then(|| {
            json!({
                "product": text("product").unwrap_or_default(),
                "vendor": text("manufacturer").unwrap_or_default(),
                "handle": format!("USB:{bus}:{device}"),
            })
        })
    };
    sysfs::names(&folder)
        .into_iter()
        .filter_map(describe)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use serde_json::json;

    use super::pci;
    use super::usb;

    fn device(folder: &Path, files: &[(&str, &str)]) {
        fs::create_dir_all(folder).unwrap();
        for (name, content) in files {
            fs::write(folder.join(name), content).unwrap();
        }
    }

    #[test]
    fn pci_devices_are_listed() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("bus/pci/devices");
        let nic = [
            ("vendor", "0x8086\n"),
            ("device", "0x1533\n"),
            ("class", "0x020000\n"),
            ("revision", "0x03\n"),
            ("numa_node", "-1\n"),
        ];
        device(&folder.join("0000:02:00.0"), &nic);
        device(&folder.join("0000:03:00.0"), &nic[..3]);
        device(&folder.join("0000:04:00.0"), &nic[..1]);
        let expected = json!([
            {"vendor_id": "8086", "product_id": "1533", "class": "020000", "revision": "03",
                "numa_node_id": "-1", "bus": "0000:02:00.0"},
            {"vendor_id": "8086", "product_id": "1533", "class": "020000", "revision": null,
                "numa_node_id": null, "bus": "0000:03:00.0"},
        ]);
        assert_eq!(pci(root.path()), expected);
    }

    #[test]
    fn usb_devices_are_listed_but_hubs() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("bus/usb/devices");
        let hub = [
            ("busnum", "1\n"),
            ("devnum", "1\n"),
            ("bDeviceClass", "09\n"),
        ];
        device(&folder.join("usb1"), &hub);
        device(
            &folder.join("1-2"),
            &[
                ("busnum", "1\n"),
                ("devnum", "4\n"),
                ("bDeviceClass", "00\n"),
                ("product", "QEMU USB Tablet\n"),
                ("manufacturer", "QEMU\n"),
            ],
        );
        device(&folder.join("1-2:1.0"), &[("bInterfaceClass", "03\n")]);
        device(&folder.join("1-3"), &[("busnum", "1\n"), ("devnum", "5\n")]);
        let expected = json!([
            {"product": "QEMU USB Tablet", "vendor": "QEMU", "handle": "USB:1:4"},
            {"product": "", "vendor": "", "handle": "USB:1:5"},
        ]);
        assert_eq!(usb(root.path()), expected);
    }
}

//! Names that a disk goes by: serial, world wide names, SCSI address, path.

use std::path::Path;

use crate::disk::device::Disk;
use crate::disk::sysfs;

/// Fills in all names of the disk whose sysfs directory, links followed, is
/// `directory` (`/sys/devices/…/block/sda`).
pub(crate) fn fill(disk: &mut Disk, directory: &Path) {
    let device = directory.join("device");
    disk.model = sysfs::text(&device.join("model"));
    disk.vendor = sysfs::text(&device.join("vendor"));
    disk.serials = serials(directory, &device);
    let wwid = sysfs::text(&directory.join("wwid")).or_else(|| sysfs::text(&device.join("wwid")));
    if let Some(wwid) = wwid {
        fill_wwn(disk, &wwid);
    }
    let address = directory
        .parent()
        .and_then(Path::parent)
        .and_then(Path::file_name);
    let address = address
        .and_then(|name| name.to_str())
        .filter(|name| is_hctl(name));
    disk.hctl = address.map(str::to_owned);
    disk.transport = transport(&disk.name, directory);
    disk.by_path = by_path(directory).map(|path| format!("/dev/disk/by-path/{path}"));
}

fn serials(directory: &Path, device: &Path) -> Vec<String> {
    // SPC-4 §7.8.15, unit serial number page: four bytes of header.
    let page = sysfs::bytes(&device.join("vpd_pg80"));
    let unit = page
        .as_deref()
        .and_then(|page| page.get(4..))
        .and_then(sysfs::clean);
    let candidates = [
        sysfs::text(&device.join("serial")),
        sysfs::text(&directory.join("serial")),
        unit,
    ];
    let mut serials: Vec<String> = Vec::new();
    for serial in candidates.into_iter().flatten() {
        if !serials.contains(&serial) {
            serials.push(serial);
        }
    }
    serials
}

/// `naa.` names become the `0x…` form that udev and Ironic show; 16 bytes
/// are a name with a vendor's extension. Others stay as the kernel has them.
fn fill_wwn(disk: &mut Disk, wwid: &str) {
    let Some(digits) = wwid.strip_prefix("naa.") else {
        if !wwid.starts_with("t10.") {
            disk.wwn = Some(wwid.to_owned());
            disk.wwn_with_extension.clone_from(&disk.wwn);
        }
        return;
    };
    let (name, extension) = digits.split_at_checked(16).unwrap_or((digits, ""));
    disk.wwn = Some(format!("0x{name}"));
    disk.wwn_with_extension = Some(format!("0x{digits}"));
    if !extension.is_empty() {
        disk.wwn_vendor_extension = Some(format!("0x{extension}"));
    }
}

fn is_hctl(name: &str) -> bool {
    let mut parts = 0;
    let numeric = name.split(':').all(|part| {
        parts += 1;
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
    });
    numeric && parts == 4
}

fn components(directory: &Path) -> impl Iterator<Item = &str> {
    directory
        .components()
        .filter_map(|part| part.as_os_str().to_str())
}

fn transport(name: &str, directory: &Path) -> Option<String> {
    let kind = if name.starts_with("nvme") {
        "nvme"
    } else if name.starts_with("vd") {
        "virtio"
    } else if name.starts_with("mmcblk") {
        "mmc"
    } else {
        components(directory).find_map(|part| {
            if numbered(part, "ata").is_some() {
                Some("sata")
            } else if part.starts_with("end_device-") {
                Some("sas")
            } else if part.starts_with("rport-") {
                Some("fc")
            } else if numbered(part, "session").is_some() {
                Some("iscsi")
            } else if numbered(part, "usb").is_some() {
                Some("usb")
            } else {
                None
            }
        })?
    };
    Some(kind.to_owned())
}

/// The number after a prefix, when nothing else follows.
fn numbered<'a>(part: &'a str, prefix: &str) -> Option<&'a str> {
    let number = part.strip_prefix(prefix)?;
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(number)
}

/// Works out the name that udev's `path_id` would give: the last PCI address
/// and what lies below it.
fn by_path(directory: &Path) -> Option<String> {
    let parts: Vec<&str> = components(directory).collect();
    let pci = parts.iter().rposition(|part| is_pci(part))?;
    let below = &parts[pci + 1..];
    let mut path = format!("pci-{}", parts[pci]);
    if let Some(port) = below.iter().find_map(|part| numbered(part, "ata")) {
        path.push_str(&format!("-ata-{port}"));
        return Some(path);
    }
    if let Some(namespace) = below.last().and_then(|name| nvme_namespace(name)) {
        path.push_str(&format!("-nvme-{namespace}"));
        return Some(path);
    }
    if let Some(interface) = below.iter().rev().find(|part| is_usb_interface(part)) {
        let (_, port) = interface.split_once('-')?;
        path.push_str(&format!("-usb-0:{port}"));
    }
    if let Some(address) = below.iter().find(|part| is_hctl(part)) {
        let (_, tail) = address.split_once(':')?;
        path.push_str(&format!("-scsi-0:{tail}"));
    }
    Some(path)
}

/// `0000:00:1f.2`
fn is_pci(part: &str) -> bool {
    let Some((front, function)) = part.split_once('.') else {
        return false;
    };
    let lengths: Vec<usize> = front.split(':').map(str::len).collect();
    let hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    lengths.len() == 3
        && lengths[0] >= 4
        && lengths[1..] == [2, 2]
        && function.len() == 1
        && hex(function)
        && front.split(':').all(hex)
}

/// `1-1:1.0`, a USB interface; hubs and devices have no colon.
fn is_usb_interface(part: &str) -> bool {
    part.contains('-')
        && part.contains(':')
        && part
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b"-:.".contains(&byte))
}

fn nvme_namespace(name: &str) -> Option<&str> {
    let (_, namespace) = name.strip_prefix("nvme")?.rsplit_once('n')?;
    namespace
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then_some(namespace)
}

#[cfg(test)]
mod tests {
    use super::by_path;
    use super::fill_wwn;
    use super::transport;
    use crate::disk::Disk;
    use std::path::Path;

    #[test]
    fn paths_as_udev_makes_them() {
        let cases = [
            (
                "/sys/devices/pci0000:00/0000:00:1f.2/ata3/host2/target2:0:0/2:0:0:0/block/sda",
                "pci-0000:00:1f.2-ata-3",
                "sata",
            ),
            (
                "/sys/devices/pci0000:00/0000:00:02.0/0000:03:00.0/nvme/nvme0/nvme0n1",
                "pci-0000:03:00.0-nvme-1",
                "nvme",
            ),
            (
                "/sys/devices/pci0000:00/0000:00:05.0/virtio2/block/vda",
                "pci-0000:00:05.0",
                "virtio",
            ),
            (
                "/sys/devices/pci0000:00/0000:00:05.0/host0/target0:2:1/0:2:1:0/block/sdb",
                "pci-0000:00:05.0-scsi-0:2:1:0",
                "",
            ),
            (
                "/sys/devices/pci0000:00/0000:00:14.0/usb1/1-4/1-4:1.0/host6/target6:0:0/6:0:0:0/block/sdc",
                "pci-0000:00:14.0-usb-0:4:1.0-scsi-0:0:0:0",
                "usb",
            ),
        ];
        for (directory, expected, kind) in cases {
            let path = Path::new(directory);
            assert_eq!(by_path(path).as_deref(), Some(expected), "{directory}");
            let name = path.file_name().unwrap().to_str().unwrap();
            assert_eq!(
                transport(name, path).as_deref().unwrap_or(""),
                kind,
                "{directory}"
            );
        }
        assert_eq!(by_path(Path::new("/sys/devices/virtual/block/md127")), None);
    }

    #[test]
    fn world_wide_names() {
        let mut disk = Disk::default();
        fill_wwn(&mut disk, "naa.6003048012345678001f9abb0a0b0c0d");
        assert_eq!(disk.wwn.as_deref(), Some("0x6003048012345678"));
        assert_eq!(
            disk.wwn_with_extension.as_deref(),
            Some("0x6003048012345678001f9abb0a0b0c0d")
        );
        assert_eq!(
            disk.wwn_vendor_extension.as_deref(),
            Some("0x001f9abb0a0b0c0d")
        );
        let mut disk = Disk::default();
        fill_wwn(&mut disk, "eui.0025385b71b0a1c2");
        assert_eq!(disk.wwn.as_deref(), Some("eui.0025385b71b0a1c2"));
    }
}

//! Names that a disk goes by: serial, world wide names, SCSI address, path.

use std::path::Path;

use crate::disk::device::Disk;
use crate::disk::links;
use crate::disk::sysfs;

/// Fills in all names of the disk whose sysfs directory, links followed, is
/// `directory` (`/sys/devices/…/block/sda`).
pub(crate) fn fill(disk: &mut Disk, directory: &Path) {
    let device = directory.join("device");
    let ata = ata_names(&device);
    disk.model = ata
        .as_ref()
        .and_then(|(model, _)| model.clone())
        .or_else(|| sysfs::text(&device.join("model")));
    disk.vendor = sysfs::text(&device.join("vendor"));
    disk.serials = serials(directory, &device, ata.and_then(|(_, serial)| serial));
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
    let paths = links::by_path(directory);
    disk.by_path = paths.first().cloned();
    disk.links.extend(paths.into_iter().skip(1));
    disk.links.extend(links::by_id(disk, directory));
}

/// Model and serial number of an ATA drive behind a SCSI translation, whose
/// own fields for them are too short. SAT-4 §12.4.2: the page ends with the
/// drive's IDENTIFY DEVICE data, from byte 60; ACS-4 table 45: serial number
/// in words 10 to 19, model in 27 to 46, two characters a word, the first in
/// the upper byte.
fn ata_names(device: &Path) -> Option<(Option<String>, Option<String>)> {
    let page = sysfs::bytes(&device.join("vpd_pg89"))?;
    let words = page.get(60..60 + 512)?;
    let text = |from: usize, to: usize| {
        let mut bytes = words.get(2 * from..2 * to)?.to_vec();
        for pair in bytes.chunks_exact_mut(2) {
            pair.swap(0, 1);
        }
        sysfs::clean(&bytes)
    };
    Some((text(27, 47), text(10, 20)))
}

fn serials(directory: &Path, device: &Path, ata: Option<String>) -> Vec<String> {
    // SPC-4 §7.8.15, unit serial number page: four bytes of header.
    let page = sysfs::bytes(&device.join("vpd_pg80"));
    let unit = page
        .as_deref()
        .and_then(|page| page.get(4..))
        .and_then(sysfs::clean);
    let candidates = [
        ata,
        sysfs::text(&device.join("serial")),
        sysfs::text(&directory.join("serial")),
        unit,
        usb_serial(directory),
    ];
    let mut serials: Vec<String> = Vec::new();
    for serial in candidates.into_iter().flatten() {
        if !serials.contains(&serial) {
            serials.push(serial);
        }
    }
    serials
}

/// The kernel asks no disk behind USB for its pages; the USB device has a
/// number of its own.
fn usb_serial(directory: &Path) -> Option<String> {
    let device = directory
        .ancestors()
        .find(|folder| folder.join("idVendor").exists())?;
    sysfs::text(&device.join("serial"))
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

pub(super) fn is_hctl(name: &str) -> bool {
    let mut parts = 0;
    let numeric = name.split(':').all(|part| {
        parts += 1;
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
    });
    numeric && parts == 4
}

pub(super) fn components(directory: &Path) -> impl Iterator<Item = &str> {
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
pub(super) fn numbered<'a>(part: &'a str, prefix: &str) -> Option<&'a str> {
    let number = part.strip_prefix(prefix)?;
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::fill_wwn;
    use super::transport;
    use crate::disk::Disk;
    use std::path::Path;

    #[test]
    fn how_disks_are_attached() {
        let cases = [
            (
                "pci0000:00/0000:00:1f.2/ata3/host2/target2:0:0/2:0:0:0/block/sda",
                "sata",
            ),
            ("pci0000:00/0000:03:00.0/nvme/nvme0/nvme0n1", "nvme"),
            ("pci0000:00/0000:00:05.0/virtio2/block/vda", "virtio"),
            (
                "pci0000:00/0000:00:05.0/host0/target0:2:1/0:2:1:0/block/sdb",
                "",
            ),
            (
                "pci0000:00/0000:02:00.0/host0/port-0:0/end_device-0:0/target0:0:0/0:0:0:0/block/sdb",
                "sas",
            ),
            (
                "pci0000:00/0000:02:00.0/host1/rport-1:0-0/target1:0:0/1:0:0:0/block/sdb",
                "fc",
            ),
            (
                "platform/host3/session1/target3:0:0/3:0:0:0/block/sdb",
                "iscsi",
            ),
            (
                "pci0000:00/0000:00:14.0/usb1/1-4/1-4:1.0/host6/target6:0:0/6:0:0:0/block/sdc",
                "usb",
            ),
            (
                "pci0000:00/0000:00:1a.0/mmc_host/mmc0/mmc0:0001/block/mmcblk0",
                "mmc",
            ),
        ];
        for (directory, kind) in cases {
            let path = Path::new("/sys/devices").join(directory);
            let name = path.file_name().unwrap().to_str().unwrap();
            assert_eq!(
                transport(name, &path).as_deref().unwrap_or(""),
                kind,
                "{directory}"
            );
        }
    }

    #[test]
    fn an_ata_drive_tells_its_whole_name() {
        let folder = tempfile::tempdir().unwrap();
        let swapped = |text: &str, length: usize| {
            let mut bytes = format!("{text:<length$}").into_bytes();
            for pair in bytes.chunks_exact_mut(2) {
                pair.swap(0, 1);
            }
            bytes
        };
        let mut page = vec![0; 60 + 512];
        page[60 + 20..60 + 40].copy_from_slice(&swapped("S3Z8NB0K123456", 20));
        page[60 + 54..60 + 94].copy_from_slice(&swapped("Samsung SSD 860 EVO 500GB", 40));
        std::fs::write(folder.path().join("vpd_pg89"), page).unwrap();
        let (model, serial) = super::ata_names(folder.path()).unwrap();
        assert_eq!(model.as_deref(), Some("Samsung SSD 860 EVO 500GB"));
        assert_eq!(serial.as_deref(), Some("S3Z8NB0K123456"));
        std::fs::write(folder.path().join("vpd_pg89"), [0; 60]).unwrap();
        assert_eq!(super::ata_names(folder.path()), None);
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

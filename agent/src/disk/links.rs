//! The names below `/dev/disk` that udev would give a disk. The ramdisk has
//! no udev, and operators name disks so: by slot, by serial number.

use std::path::Path;
use std::path::PathBuf;

use crate::disk::device::Disk;
use crate::disk::identity::components;
use crate::disk::identity::is_hctl;
use crate::disk::identity::numbered;
use crate::disk::sysfs;

/// Names by slot, the one that today's udev prefers first. `directory` is
/// the disk's in sysfs, links followed.
pub(super) fn by_path(directory: &Path) -> Vec<String> {
    let directory = behind_subsystem(directory).unwrap_or_else(|| directory.to_owned());
    paths(&directory)
        .into_iter()
        .map(|path| format!("/dev/disk/by-path/{path}"))
        .collect()
}

/// A namespace of an NVMe subsystem lies below no PCI device; its
/// controllers do.
fn behind_subsystem(directory: &Path) -> Option<PathBuf> {
    let subsystem = directory.parent()?;
    let name = subsystem.file_name()?.to_str()?;
    numbered(name, "nvme-subsys")?;
    let controller = sysfs::names(subsystem)
        .into_iter()
        .find(|name| numbered(name, "nvme").is_some())?;
    let controller = std::fs::canonicalize(subsystem.join(controller)).ok()?;
    Some(controller.join(directory.file_name()?))
}

/// As udev's `path_id` does it: the last PCI address and what lies below.
fn paths(directory: &Path) -> Vec<String> {
    let parts: Vec<&str> = components(directory).collect();
    let Some(pci) = parts.iter().rposition(|part| is_pci(part)) else {
        return Vec::new();
    };
    let base = format!("pci-{}", parts[pci]);
    let below = &parts[pci + 1..];
    let folder = |until: usize| -> PathBuf {
        directory
            .components()
            .take(directory.components().count() - below.len() + until + 1)
            .collect()
    };
    let address: Option<Vec<&str>> = below
        .iter()
        .find(|part| is_hctl(part))
        .map(|address| address.split(':').collect());
    let find = |prefix: &str| below.iter().position(|part| part.starts_with(prefix));

    if let Some(at) = below
        .iter()
        .position(|part| numbered(part, "ata").is_some())
    {
        // The port's number on its controller; that in its name is counted
        // over all controllers.
        let port = folder(at).join("ata_port").join(below[at]).join("port_no");
        let port = sysfs::text(&port)
            .or_else(|| numbered(below[at], "ata").map(str::to_owned))
            .unwrap_or_default();
        let device = match address.as_deref() {
            // Behind a port multiplier the bus tells the device apart.
            Some([_, bus, target, _]) if *bus == "0" => (*target).to_owned(),
            Some([_, bus, _, _]) => format!("{bus}.0"),
            _ => "0".to_owned(),
        };
        return vec![
            format!("{base}-ata-{port}.{device}"),
            format!("{base}-ata-{port}"),
        ];
    }
    if let Some(namespace) = below.last().and_then(|name| nvme_namespace(name)) {
        return vec![format!("{base}-nvme-{namespace}")];
    }
    let lun = address.as_ref().and_then(|address| address.get(3).copied());
    let lun = lun.map(lun_text).unwrap_or_default();
    if let Some(at) = find("end_device-") {
        return sas(&folder(at), &base, &lun);
    }
    if let Some(at) = find("rport-") {
        let port = folder(at).join("fc_remote_ports").join(below[at]);
        let name = sysfs::text(&port.join("port_name"));
        return name
            .map(|name| format!("{base}-fc-{name}-{lun}"))
            .into_iter()
            .collect();
    }
    let mut path = base.clone();
    if let Some(interface) = below.iter().rev().find(|part| is_usb_interface(part))
        && let Some((_, port)) = interface.split_once('-')
    {
        path.push_str(&format!("-usb-0:{port}"));
    }
    if let (Some(address), Some(at)) = (address, find("host")) {
        // Counted from the adapter's first host.
        let host = folder(at);
        let hosts = host.parent().unwrap_or(&host);
        let own = numbered(below[at], "host").and_then(|host| host.parse::<u32>().ok());
        let first = sysfs::names(hosts)
            .iter()
            .filter_map(|name| numbered(name, "host")?.parse::<u32>().ok())
            .min()
            .or(own);
        let host = own.unwrap_or(0) - first.unwrap_or(0).min(own.unwrap_or(0));
        path.push_str(&format!("-scsi-{host}:{}", address[1..].join(":")));
    }
    let mut paths = vec![path];
    if below.iter().any(|part| numbered(part, "virtio").is_some()) {
        paths.push(format!("virtio-{}", paths[0]));
    }
    paths
}

/// `lun-0`; larger ones in the form of their eight bytes.
fn lun_text(lun: &str) -> String {
    match lun.parse::<u64>() {
        Ok(number) if number >= 256 => format!(
            "lun-{:#06x}{:04x}00000000",
            number & 0xffff,
            number >> 16 & 0xffff
        ),
        _ => format!("lun-{lun}"),
    }
}

/// A SAS device: by its phy, behind an expander by the expander's address
/// too; one with several phys by its own address.
fn sas(end_device: &Path, base: &str, lun: &str) -> Vec<String> {
    let name = |path: &Path| {
        path.file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default()
            .to_owned()
    };
    let device = end_device.join("sas_device").join(name(end_device));
    let address = sysfs::text(&device.join("sas_address"));
    let phy = sysfs::text(&device.join("phy_identifier"));
    let port = end_device.parent().unwrap_or(end_device);
    let phys = sysfs::number(&port.join("sas_port").join(name(port)).join("num_phys"));
    let path = match (phys, phy, address) {
        (Some(2..), _, Some(address)) => format!("{base}-sas-{address}-{lun}"),
        (_, Some(phy), _) => {
            let above = port.parent().unwrap_or(port);
            let expander = above.join("sas_device").join(name(above));
            match sysfs::text(&expander.join("sas_address")) {
                Some(expander) => format!("{base}-sas-exp{expander}-phy{phy}-{lun}"),
                None => format!("{base}-sas-phy{phy}-{lun}"),
            }
        }
        (_, None, Some(address)) => format!("{base}-sas-{address}-{lun}"),
        (_, None, None) => return Vec::new(),
    };
    vec![path]
}

/// Names by what the disk says of itself, as udev's rules for persistent
/// storage make them.
pub(super) fn by_id(disk: &Disk, directory: &Path) -> Vec<String> {
    let underscored = |text: &str| text.split_whitespace().collect::<Vec<_>>().join("_");
    let model = disk.model.as_deref().map(underscored);
    let serial = disk.serial().map(underscored);
    let mut names = Vec::new();
    match disk.transport.as_deref() {
        Some("nvme") => {
            names.extend(disk.wwn.as_ref().map(|wwn| format!("nvme-{wwn}")));
            if let (Some(model), Some(serial)) = (&model, &serial) {
                names.push(format!("nvme-{model}_{serial}"));
                let namespace = sysfs::number(&directory.join("nsid"));
                names.extend(namespace.map(|id| format!("nvme-{model}_{serial}_{id}")));
            }
        }
        Some("virtio") => names.extend(serial.map(|serial| format!("virtio-{serial}"))),
        _ if disk.hctl.is_some() => {
            let ata = disk.vendor.as_deref() == Some("ATA");
            if let (true, Some(model), Some(serial)) = (ata, &model, &serial) {
                names.push(format!("ata-{model}_{serial}"));
            }
            if let Some(wwn) = &disk.wwn_with_extension {
                names.push(format!("wwn-{wwn}"));
                // scsi_id: 3 for a name by NAA, 2 for one by EUI-64.
                let bare = wwn.strip_prefix("0x").map(|digits| format!("3{digits}"));
                let bare = bare.or_else(|| Some(format!("2{}", wwn.strip_prefix("eui.")?)));
                names.extend(bare.map(|bare| format!("scsi-{bare}")));
            } else if let (false, Some(vendor), Some(model), Some(serial)) =
                (ata, disk.vendor.as_deref(), &model, &serial)
            {
                // 0: by vendor's own words.
                names.push(format!("scsi-0{}_{model}_{serial}", underscored(vendor)));
            }
        }
        _ => {}
    }
    names
        .into_iter()
        .map(|name| format!("/dev/disk/by-id/{name}"))
        .collect()
}

/// Names that the kernel's device has whatever lies behind it: mapped
/// devices by name and UUID, and its number in the order of appearance.
pub(super) fn of_device(directory: &Path) -> Vec<String> {
    let mut names = Vec::new();
    if let Some(name) = sysfs::text(&directory.join("dm/name")) {
        names.push(format!("/dev/mapper/{name}"));
        names.push(format!("/dev/disk/by-id/dm-name-{name}"));
    }
    let uuid = sysfs::text(&directory.join("dm/uuid"));
    names.extend(uuid.map(|uuid| format!("/dev/disk/by-id/dm-uuid-{uuid}")));
    let sequence = sysfs::number(&directory.join("diskseq"));
    names.extend(sequence.map(|number| format!("/dev/disk/by-diskseq/{number}")));
    names
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
mod tests;

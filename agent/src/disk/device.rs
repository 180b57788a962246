//! One disk, as the kernel describes it.

use std::fmt;
use std::path::Path;
use std::path::PathBuf;

use serde_json::Value;
use serde_json::json;

/// Bytes in a GiB, the unit of the `size` hint.
pub const GIB: u64 = 1 << 30;
/// A removable USB disk up to this size may be virtual media.
const VIRTUAL_MEDIA_LIMIT: u64 = 4 * GIB;

/// One partition as the kernel sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Kernel name, such as `sda1`.
    pub name: String,
    /// Number in the table, from 1.
    pub number: u32,
    /// First byte on the disk.
    pub start: u64,
    /// Length in bytes.
    pub size: u64,
}

/// A disk that the kernel knows. Texts that the device does not give are
/// absent, never empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Disk {
    /// Kernel name, such as `nvme0n1`.
    pub name: String,
    /// Device node.
    pub path: PathBuf,
    /// Size in bytes.
    pub size: u64,
    /// Model as the device tells it.
    pub model: Option<String>,
    /// Vendor as the device tells it.
    pub vendor: Option<String>,
    /// All serial numbers it goes by, the best first.
    pub serials: Vec<String>,
    /// World wide name, `0x…` or `eui.…`.
    pub wwn: Option<String>,
    /// The name with its vendor's extension.
    pub wwn_with_extension: Option<String>,
    /// The extension alone.
    pub wwn_vendor_extension: Option<String>,
    /// SCSI address `host:channel:target:lun`.
    pub hctl: Option<String>,
    /// `/dev/disk/by-path/…`, from udev or worked out as udev does.
    pub by_path: Option<String>,
    /// Other links below `/dev/disk` to it.
    pub links: Vec<String>,
    /// How it is attached: `nvme`, `sata`, `sas`, `usb`, `virtio`…
    pub transport: Option<String>,
    /// Whether it turns.
    pub rotational: bool,
    /// Whether the medium can be taken out.
    pub removable: bool,
    /// Whether the kernel refuses writes.
    pub read_only: bool,
    /// Logical sector size in bytes.
    pub logical_sector: u32,
    /// Physical sector size in bytes.
    pub physical_sector: u32,
    /// Partitions, in the order of their numbers.
    pub partitions: Vec<Partition>,
    /// Why it must not be touched: mounted, swap, held by another device.
    pub in_use: Option<String>,
}

impl Disk {
    /// The serial number shown first.
    pub fn serial(&self) -> Option<&str> {
        self.serials.first().map(String::as_str)
    }

    /// Whether this looks like a medium that a BMC puts in: never erased,
    /// never a target.
    pub fn is_virtual_media(&self) -> bool {
        let says_so = |text: &Option<String>| {
            text.as_deref().is_some_and(|text| {
                let text = text.to_lowercase();
                text.contains("virtual media")
                    || text.contains("virtual cd")
                    || text.contains("virtual floppy")
                    || text.contains("vmedia")
            })
        };
        let stick = self.removable
            && self.transport.as_deref() == Some("usb")
            && self.size <= VIRTUAL_MEDIA_LIMIT;
        stick || says_so(&self.model) || says_so(&self.vendor)
    }

    /// Path of a partition's device node: a `p` goes between a name that
    /// ends with a digit and the number.
    pub fn partition_path(&self, number: u32) -> PathBuf {
        partition_path(&self.path, number)
    }

    /// The disk as Ironic's inventory lists it.
    pub fn to_inventory(&self) -> Value {
        json!({
            "name": self.path,
            "model": self.model.clone().unwrap_or_default(),
            "size": self.size,
            "rotational": self.rotational,
            "wwn": self.wwn,
            "serial": self.serial(),
            "vendor": self.vendor,
            "wwn_with_extension": self.wwn_with_extension,
            "wwn_vendor_extension": self.wwn_vendor_extension,
            "hctl": self.hctl,
            "by_path": self.by_path,
            "logical_sectors": self.logical_sector,
            "physical_sectors": self.physical_sector,
            "tran": self.transport,
        })
    }
}

impl fmt::Display for Disk {
    /// One line with all that a hint can be about.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (gib, hundredths) = (self.size / GIB, self.size % GIB * 100 / GIB);
        write!(f, "{} (size {gib}.{hundredths:02} GiB", self.path.display())?;
        let mut text = |key: &str, value: Option<&str>| match value {
            Some(value) => write!(f, ", {key} {value}"),
            None => Ok(()),
        };
        text("model", self.model.as_deref())?;
        text("vendor", self.vendor.as_deref())?;
        text("serial", self.serial())?;
        text("wwn", self.wwn.as_deref())?;
        text("hctl", self.hctl.as_deref())?;
        text("by_path", self.by_path.as_deref())?;
        text("tran", self.transport.as_deref())?;
        write!(f, ", rotational {}", self.rotational)?;
        if self.read_only {
            write!(f, ", read-only")?;
        }
        if let Some(reason) = &self.in_use {
            write!(f, ", in use: {reason}")?;
        }
        write!(f, ")")
    }
}

/// Path of partition `number` of the disk at `path`.
pub(crate) fn partition_path(path: &Path, number: u32) -> PathBuf {
    let mut text = path.as_os_str().to_owned();
    if text
        .as_encoded_bytes()
        .last()
        .is_some_and(u8::is_ascii_digit)
    {
        text.push("p");
    }
    text.push(number.to_string());
    PathBuf::from(text)
}

#[cfg(test)]
mod tests {
    use super::Disk;
    use super::GIB;

    #[test]
    fn partition_names() {
        let disk = Disk {
            path: "/dev/sda".into(),
            ..Disk::default()
        };
        assert_eq!(disk.partition_path(2).to_str(), Some("/dev/sda2"));
        let disk = Disk {
            path: "/dev/nvme0n1".into(),
            ..Disk::default()
        };
        assert_eq!(disk.partition_path(12).to_str(), Some("/dev/nvme0n1p12"));
    }

    #[test]
    fn a_small_removable_usb_disk_is_virtual_media() {
        let mut disk = Disk {
            removable: true,
            transport: Some("usb".into()),
            size: 700 << 20,
            ..Disk::default()
        };
        assert!(disk.is_virtual_media());
        disk.size = 64 * GIB;
        assert!(!disk.is_virtual_media());
        disk.model = Some("Virtual Floppy".into());
        assert!(disk.is_virtual_media());
    }

    #[test]
    fn shows_what_hints_are_about() {
        let disk = Disk {
            path: "/dev/vda".into(),
            size: 10 * GIB + GIB / 2,
            serials: vec!["abc".into()],
            in_use: Some("mounted at /".into()),
            ..Disk::default()
        };
        assert_eq!(
            disk.to_string(),
            "/dev/vda (size 10.50 GiB, serial abc, rotational false, in use: mounted at /)"
        );
    }
}

//! Disks of every kind that QEMU has.

use std::path::PathBuf;

/// How a disk is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bus {
    /// virtio-blk.
    Virtio,
    /// A SCSI disk on virtio-scsi.
    Scsi,
    /// A SCSI disk on a SAS adapter.
    Sas,
    /// A SATA disk on AHCI.
    Sata,
    /// NVMe.
    Nvme,
    /// A removable disk on USB, as a BMC attaches virtual media.
    Usb,
}

/// One disk.
#[derive(Debug, Clone)]
pub struct Drive {
    /// How it is attached.
    pub bus: Bus,
    /// Serial number that the guest sees, also its name here.
    pub serial: String,
    /// The file.
    pub path: PathBuf,
    /// Logical and physical sector size in bytes.
    pub sector: u32,
    /// The guest cannot write it.
    pub read_only: bool,
}

impl Drive {
    /// A writable disk with sectors of 512 bytes.
    pub fn new(bus: Bus, serial: &str, path: PathBuf) -> Self {
        Self {
            bus,
            serial: serial.to_owned(),
            path,
            sector: 512,
            read_only: false,
        }
    }

    /// The same with sectors of 4096 bytes.
    #[must_use]
    pub fn large_sectors(mut self) -> Self {
        self.sector = 4096;
        self
    }

    /// The same for reading only.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }
}

/// The world wide name of the disk with this number, for SCSI disks.
pub fn wwn(number: usize) -> u64 {
    0x5000_c500_0000_0000 + number as u64
}

/// QEMU's arguments for all of them.
pub(super) fn arguments(drives: &[Drive]) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut device = |text: String| arguments.extend(["-device".to_owned(), text]);
    let any = |bus| drives.iter().any(|drive| drive.bus == bus);
    if any(Bus::Scsi) {
        device("virtio-scsi-pci,id=scsi".to_owned());
    }
    if any(Bus::Sas) {
        device("mptsas1068,id=sas".to_owned());
    }
    if any(Bus::Usb) {
        device("qemu-xhci,id=usb".to_owned());
    }
    let mut ports = 0..;
    for (number, drive) in drives.iter().enumerate() {
        let (serial, sector) = (&drive.serial, drive.sector);
        let sectors = format!("logical_block_size={sector},physical_block_size={sector}");
        let common = format!("drive=drive{number},serial={serial}");
        let wwn = wwn(number);
        device(match drive.bus {
            Bus::Virtio => format!("virtio-blk-pci,{common},{sectors}"),
            Bus::Scsi => format!("scsi-hd,bus=scsi.0,{common},{sectors},wwn={wwn:#x}"),
            Bus::Sas => format!("scsi-hd,bus=sas.0,{common},{sectors},wwn={wwn:#x}"),
            Bus::Sata => {
                let port = ports.next().unwrap_or(0);
                format!("ide-hd,bus=ide.{port},{common},{sectors},wwn={wwn:#x},rotation_rate=7200")
            }
            Bus::Nvme => format!("nvme,{common},{sectors}"),
            Bus::Usb => format!("usb-storage,bus=usb.0,{common},removable=on"),
        });
    }
    for (number, drive) in drives.iter().enumerate() {
        let path = drive.path.display().to_string().replace(',', ",,");
        let read_only = if drive.read_only { "on" } else { "off" };
        arguments.extend([
            "-drive".to_owned(),
            format!(
                "if=none,id=drive{number},format=raw,cache=unsafe,discard=unmap,\
                 readonly={read_only},file={path}"
            ),
        ]);
    }
    arguments
}

//! What is on the disks before: a tenant's data, and what makes a disk look
//! used.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::ensure;

use super::BYTES;
use super::GPFS;
use super::SAS;
use super::SATA;
use super::SCSI;
use super::SECRET;
use super::SHARED;
use super::VIRTIO;
use super::VMFS;
use crate::bare::drives::Drive;

/// Gives a disk what makes it look used, over its pattern: superblocks of
/// several systems by hand, at their places.
pub(super) fn dress(drive: &Drive) -> Result<()> {
    if !matches!(drive.serial.as_str(), VIRTIO | VMFS | GPFS) {
        // What blkid sees of the others: of what comes next it wants checksums,
        // or larger disks.
        tool("/usr/sbin/mkswap", &[], &drive.path)?;
    }
    let file = File::options().write(true).open(&drive.path)?;
    let put = |at: u64, bytes: &[u8]| file.write_all_at(bytes, at);
    let sector = u64::from(drive.sector);
    match drive.serial.as_str() {
        // The log and its tables of a gfs2 (magic and type of its superblock).
        SHARED => put(0x1_0000, b"\x01\x16\x19\x70\0\0\0\x01")?,
        // md 1.2, 1.1, 1.0 and 0.90.
        SCSI => {
            let magic = b"\xfc\x4e\x2b\xa9\x01\0\0\0";
            put(4096, magic)?;
            put(0, magic)?;
            put((BYTES / 512 - 16) / 8 * 8 * 512, magic)?;
            put(BYTES / 65536 * 65536 - 65536, &magic[..4])?;
        }
        // Both headers of a LUKS2.
        VIRTIO => {
            put(0, b"LUKS\xba\xbe\0\x02")?;
            put(0x40_0000, b"SKUL\xba\xbe\0\x02")?;
        }
        // ZFS: uberblocks in each of the four labels.
        SATA => {
            for label in [0, 256 << 10, BYTES - (512 << 10), BYTES - (256 << 10)] {
                for slot in 0..8 {
                    let at = label + (128 << 10) + slot * 1024;
                    put(at, b"\x0c\xb1\xba\0\0\0\0\0")?;
                }
            }
        }
        // LVM, and a btrfs with its first mirror out of reach of both ends.
        SAS => {
            put(512, b"LABELONE")?;
            put(0x1_0040, b"_BHRfS_M")?;
        }
        // A partition of VMFS in an MBR.
        VMFS => {
            put(446, &[0; 64])?;
            put(446 + 4, b"\xfb\0\0\0\0\x08\0\0\0\x10\0\0")?;
            put(510, b"\x55\xaa")?;
        }
        // A partition of GPFS in a GPT.
        GPFS => {
            let kind = "--typecode=1:37AFFC90-EF7D-4E96-91C3-2D7AE055B174";
            let arguments = ["--clear", "--new=1:2048:4095", kind];
            tool("/usr/sbin/sgdisk", &arguments, &drive.path)?;
        }
        // Both GPTs, in the places of their sectors.
        _ => {
            put(sector, b"EFI PART")?;
            put(BYTES - sector, b"EFI PART")?;
            put(510, b"\x55\xaa")?;
        }
    }
    Ok(())
}

/// Runs a tool on a disk.
fn tool(program: &str, arguments: &[&str], disk: &Path) -> Result<()> {
    let output = Command::new(program)
        .args(arguments)
        .arg(disk)
        .output()
        .with_context(|| format!("starting {program}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program}: {}", said.trim());
    Ok(())
}

/// What util-linux sees on a disk.
pub(super) fn signatures(disk: &Path) -> Result<String> {
    let output = Command::new("/usr/sbin/wipefs")
        .arg("--no-act")
        .arg(disk)
        .output()
        .context("starting wipefs")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "wipefs: {}", said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A whole disk of the tenant's data.
pub(super) fn pattern() -> Vec<u8> {
    let length = usize::try_from(BYTES).unwrap_or_default();
    SECRET.bytes().cycle().take(length).collect()
}

/// Writes the pattern again, in place: the machine has the file open.
pub(super) fn refill(disk: &Path) -> Result<()> {
    let file = File::options().write(true).open(disk)?;
    file.write_all_at(&pattern(), 0)?;
    Ok(())
}

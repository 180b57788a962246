//! Telling an image's format by its content, never by its name.

use std::fmt;

use thiserror::Error;

/// Container format of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Format {
    /// The bytes of the disk itself.
    Raw,
    /// QEMU copy-on-write, version 2 or 3.
    Qcow2,
    /// ISO 9660 image.
    Iso,
    /// VMware disk.
    Vmdk,
    /// Hyper-V disk, version 2.
    Vhdx,
    /// Hyper-V disk, version 1.
    Vhd,
    /// VirtualBox disk.
    Vdi,
    /// QEMU enhanced disk.
    Qed,
    /// QEMU copy-on-write, version 1.
    Qcow1,
    /// LUKS volume.
    Luks,
    /// gzip stream.
    Gzip,
    /// xz stream.
    Xz,
    /// Zstandard stream.
    Zstd,
    /// bzip2 stream.
    Bzip2,
}

impl Format {
    /// Name as `disk_format` and qemu-img write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Qcow2 => "qcow2",
            Self::Iso => "iso",
            Self::Vmdk => "vmdk",
            Self::Vhdx => "vhdx",
            Self::Vhd => "vpc",
            Self::Vdi => "vdi",
            Self::Qed => "qed",
            Self::Qcow1 => "qcow",
            Self::Luks => "luks",
            Self::Gzip => "gz",
            Self::Xz => "xz",
            Self::Zstd => "zst",
            Self::Bzip2 => "bz2",
        }
    }

    /// Reads a `disk_format` value. `gpt` is the same as `raw` here; an
    /// empty or `unknown` value is the caller's to treat as undeclared.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "raw" | "gpt" => Self::Raw,
            "qcow2" => Self::Qcow2,
            "iso" => Self::Iso,
            "vmdk" => Self::Vmdk,
            "vhdx" => Self::Vhdx,
            "vpc" | "vhd" => Self::Vhd,
            "vdi" => Self::Vdi,
            "qed" => Self::Qed,
            "qcow" => Self::Qcow1,
            "luks" => Self::Luks,
            "gz" | "gzip" => Self::Gzip,
            "xz" => Self::Xz,
            "zst" | "zstd" => Self::Zstd,
            "bz2" | "bzip2" => Self::Bzip2,
            _ => return None,
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Bytes from the start of the file that [`detect`] wants to see, when the
/// file has them: the btrfs and ISO 9660 signatures are the farthest.
pub const HEAD_BYTES: usize = 68 << 10;

/// What the start of a file shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detection {
    /// The container format; [`Format::Raw`] when no other was found.
    pub format: Format,
    /// Partition table in a raw (or hybrid ISO) image.
    pub table: Option<Table>,
    /// A filesystem that fills a raw image from its first byte.
    pub filesystem: Option<&'static str>,
}

/// A partition table in the first sectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// GPT whose header lies at this sector size in bytes.
    Gpt {
        /// 512 or 4096.
        sector_size: u32,
    },
    /// DOS partition table.
    Mbr,
}

/// More than one container signature matched.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "the content looks like {} at once; an image with several signatures is refused",
    .found.iter().map(|format| format.name()).collect::<Vec<_>>().join(" and ")
)]
pub struct Ambiguous {
    /// The formats that matched.
    pub found: Vec<Format>,
}

/// Signatures that decide the container format.
const SIGNATURES: &[(usize, &[u8], Format)] = &[
    (0, b"QFI\xfb\0\0\0\x01", Format::Qcow1),
    (0, b"QED\0", Format::Qed),
    (0, b"KDMV", Format::Vmdk),
    (0, b"COWD", Format::Vmdk),
    (0, b"# Disk DescriptorFile", Format::Vmdk),
    (0, b"vhdxfile", Format::Vhdx),
    (0, b"conectix", Format::Vhd),
    (0x40, b"\x7f\x10\xda\xbe", Format::Vdi),
    (0, b"LUKS\xba\xbe", Format::Luks),
    (0, b"\x1f\x8b\x08", Format::Gzip),
    (0, b"\xfd7zXZ\0", Format::Xz),
    (0, b"\x28\xb5\x2f\xfd", Format::Zstd),
    (0x8001, b"CD001", Format::Iso),
];

/// Signatures of filesystems that fill an image.
const FILESYSTEMS: &[(usize, &[u8], &str)] = &[
    (0x438, b"\x53\xef", "ext2/3/4"),
    (0, b"XFSB", "xfs"),
    (0x1_0040, b"_BHRfS_M", "btrfs"),
    (0, b"hsqs", "squashfs"),
    (0x36, b"FAT1", "vfat"),
    (0x52, b"FAT32", "vfat"),
    (0xff6, b"SWAPSPACE2", "swap"),
    (0x218, b"LVM2 001", "an LVM physical volume"),
];

/// Finds the format of the file that starts with `head`.
///
/// # Errors
/// [`Ambiguous`] when several container signatures match. An ISO with a
/// partition table is one format, not two.
pub fn detect(head: &[u8]) -> Result<Detection, Ambiguous> {
    let has = |at: usize, magic: &[u8]| head.get(at..).is_some_and(|rest| rest.starts_with(magic));
    let mut found: Vec<Format> = SIGNATURES
        .iter()
        .filter(|(at, magic, _)| has(*at, magic))
        .map(|(_, _, format)| *format)
        .collect();
    if has(0, b"QFI\xfb") && !found.contains(&Format::Qcow1) {
        found.push(Format::Qcow2);
    }
    // "BZh", a level digit, and the magic of the first block, or of the end
    // where an empty stream comes first.
    if has(0, b"BZh") && (has(4, b"1AY&SY") || has(4, b"\x17\x72\x45\x38\x50\x90")) {
        found.push(Format::Bzip2);
    }
    if found.is_empty() && crate::zstd::begins_skippable(head) {
        found.push(Format::Zstd);
    }
    let table = table(head);
    match found.as_slice() {
        [] => Ok(Detection {
            format: Format::Raw,
            table,
            filesystem: filesystem(head),
        }),
        // A table beside another container's magic: two readers would see
        // two different disks. A GPT header alone proves nothing: a qcow2
        // image with small clusters may have its guest's in that place.
        [one] if *one != Format::Iso && has_protective_gpt(head, table) => Err(Ambiguous {
            found: vec![*one, Format::Raw],
        }),
        [one] => {
            let table = table.filter(|_| *one == Format::Iso);
            Ok(Detection {
                format: *one,
                table,
                filesystem: None,
            })
        }
        _ => Err(Ambiguous { found }),
    }
}

/// Whether a GPT would be found by a reader of raw disks.
fn has_protective_gpt(head: &[u8], table: Option<Table>) -> bool {
    let protective = || crate::mbr::Mbr::parse(head).is_ok_and(|mbr| mbr.is_protective());
    matches!(table, Some(Table::Gpt { .. })) && protective()
}

/// The partition table at the start of a disk, by signature alone.
fn table(head: &[u8]) -> Option<Table> {
    for sector_size in [512u32, 4096] {
        let at = usize::try_from(sector_size).ok()?;
        if head
            .get(at..)
            .is_some_and(|rest| rest.starts_with(b"EFI PART"))
        {
            return Some(Table::Gpt { sector_size });
        }
    }
    let mbr = crate::mbr::Mbr::parse(head).ok()?;
    (!mbr.is_filesystem_boot_sector() && mbr.partitions().next().is_some()).then_some(Table::Mbr)
}

/// The filesystem that starts at byte 0.
#[must_use]
pub fn filesystem(head: &[u8]) -> Option<&'static str> {
    FILESYSTEMS
        .iter()
        .find(|(at, magic, _)| head.get(*at..).is_some_and(|rest| rest.starts_with(magic)))
        .map(|(_, _, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(parts: &[(usize, &[u8])]) -> Vec<u8> {
        let mut head = vec![0u8; HEAD_BYTES];
        for (at, bytes) in parts {
            head[*at..*at + bytes.len()].copy_from_slice(bytes);
        }
        head
    }

    #[test]
    fn every_signature_alone_is_its_format() {
        for (at, magic, format) in SIGNATURES {
            assert_eq!(detect(&with(&[(*at, magic)])).unwrap().format, *format);
        }
        assert_eq!(detect(b"QFI\xfb\0\0\0\x03").unwrap().format, Format::Qcow2);
        assert_eq!(detect(b"").unwrap().format, Format::Raw);
        let empty_first = b"BZh9\x17\x72\x45\x38\x50\x90\0\0\0\0BZh91AY&SY";
        assert_eq!(detect(empty_first).unwrap().format, Format::Bzip2);
    }

    #[test]
    fn two_signatures_are_refused() {
        let both = with(&[(0, b"QFI\xfb\0\0\0\x03"), (0x8001, b"CD001")]);
        assert_eq!(
            detect(&both).unwrap_err().found,
            [Format::Iso, Format::Qcow2]
        );
        let qcow2 = (0, &b"QFI\xfb\0\0\0\x03"[..]);
        let mbr = *crate::mbr::Mbr::protective(100).bytes();
        let table = with(&[(0, &mbr), qcow2, (512, b"EFI PART")]);
        assert!(detect(&table).is_err());
        // The table of the disk inside, in a small cluster.
        let inside = with(&[qcow2, (4096, b"EFI PART")]);
        assert_eq!(detect(&inside).unwrap().format, Format::Qcow2);
    }

    #[test]
    fn a_hybrid_iso_is_one_format() {
        let hybrid = detect(&with(&[(0x8001, b"CD001"), (512, b"EFI PART")])).unwrap();
        assert_eq!(hybrid.format, Format::Iso);
        assert_eq!(hybrid.table, Some(Table::Gpt { sector_size: 512 }));
    }

    #[test]
    fn tables_and_filesystems_of_raw_images() {
        let gpt = detect(&with(&[(4096, b"EFI PART")])).unwrap();
        assert_eq!(gpt.table, Some(Table::Gpt { sector_size: 4096 }));
        let ext = detect(&with(&[(0x438, b"\x53\xef")])).unwrap();
        assert_eq!((ext.table, ext.filesystem), (None, Some("ext2/3/4")));
        let fat = detect(&with(&[(0, b"\xeb"), (0x52, b"FAT32"), (510, b"\x55\xaa")])).unwrap();
        assert_eq!((fat.table, fat.filesystem), (None, Some("vfat")));
    }
}

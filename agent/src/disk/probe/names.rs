//! The names below `/dev/disk/by-uuid` and `/dev/disk/by-label` that udev would
//! give what lies in a region. The ramdisk has no udev.

use crate::disk::error::Error;
use crate::disk::probe::Region;

/// How a UUID is kept.
#[derive(Debug, Clone, Copy)]
enum Form {
    /// Sixteen bytes.
    Bytes,
    /// Four bytes, little-endian: `XXXX-XXXX`.
    Serial,
    /// Forty characters, with zeroes behind them.
    Text,
}

/// Where a file system, or what is like one, keeps its names.
struct Layout {
    magic: (u64, &'static [u8]),
    uuid: (u64, Form),
    label: (u64, usize),
}

/// Offsets by the formats' own documents: ext4 (super block at 1024), XFS
/// (`xfs_dsb`), Btrfs (super block at 64 KiB), LUKS (both headers), Linux swap
/// (version 1, pages of 4096 bytes), FAT (boot sector).
const LAYOUTS: [Layout; 7] = [
    Layout {
        magic: (0x438, b"\x53\xef"),
        uuid: (0x468, Form::Bytes),
        label: (0x478, 16),
    },
    Layout {
        magic: (0, b"XFSB"),
        uuid: (32, Form::Bytes),
        label: (108, 12),
    },
    Layout {
        magic: (0x1_0040, b"_BHRfS_M"),
        uuid: (0x1_0020, Form::Bytes),
        label: (0x1_012b, 256),
    },
    Layout {
        magic: (0, b"LUKS\xba\xbe"),
        uuid: (168, Form::Text),
        // Version 1 has its cipher's name there, which nobody asks for.
        label: (24, 48),
    },
    Layout {
        magic: (4086, b"SWAPSPACE2"),
        uuid: (0x40c, Form::Bytes),
        label: (0x41c, 16),
    },
    Layout {
        magic: (0x52, b"FAT32   "),
        uuid: (0x43, Form::Serial),
        label: (0x47, 11),
    },
    Layout {
        magic: (0x36, b"FAT1"),
        uuid: (0x27, Form::Serial),
        label: (0x2b, 11),
    },
];

/// A name of what lies on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentName<'a> {
    /// `/dev/disk/by-uuid/…`
    Uuid(&'a str),
    /// `/dev/disk/by-label/…`
    Label(&'a str),
}

impl<'a> ContentName<'a> {
    /// The name, if it is of this kind.
    pub fn parse(path: &'a str) -> Option<Self> {
        let uuid = path.strip_prefix("/dev/disk/by-uuid/").map(Self::Uuid);
        uuid.or_else(|| path.strip_prefix("/dev/disk/by-label/").map(Self::Label))
    }

    /// Whether what lies in the region has it.
    pub fn is_of(self, region: &Region<'_>) -> Result<bool, Error> {
        for layout in &LAYOUTS {
            let (at, magic) = layout.magic;
            let found = region.read(at, magic.len())?;
            if found.is_some_and(|found| found == magic) {
                return self.is_by(layout, region);
            }
        }
        Ok(false)
    }

    fn is_by(self, layout: &Layout, region: &Region<'_>) -> Result<bool, Error> {
        let (found, wanted) = match self {
            Self::Uuid(wanted) => {
                let (at, form) = layout.uuid;
                let bytes = region.read(at, form.length())?;
                (bytes.map(|bytes| form.text(&bytes)), wanted)
            }
            Self::Label(wanted) => {
                let (at, length) = layout.label;
                let bytes = region.read(at, length)?;
                let label = bytes.map(|bytes| encoded(until_zero(&bytes).trim_end()));
                (label, wanted)
            }
        };
        Ok(found.is_some_and(|found| !found.is_empty() && found == wanted))
    }
}

impl Form {
    fn length(self) -> usize {
        match self {
            Self::Bytes => 16,
            Self::Serial => 4,
            Self::Text => 40,
        }
    }

    fn text(self, bytes: &[u8]) -> String {
        match (self, bytes) {
            (Self::Bytes, bytes) => {
                uuid::Uuid::from_slice(bytes).map_or_else(|_| String::new(), String::from)
            }
            (Self::Serial, [a, b, c, d]) => format!("{d:02X}{c:02X}-{b:02X}{a:02X}"),
            (Self::Serial, _) => String::new(),
            (Self::Text, bytes) => until_zero(bytes),
        }
    }
}

fn until_zero(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

/// As udev writes what cannot stand in a name: `\x20` for a blank.
fn encoded(label: &str) -> String {
    label
        .chars()
        .map(|c| match c {
            c if c.is_ascii_alphanumeric() || "#+-.:=@_".contains(c) || !c.is_ascii() => {
                c.to_string()
            }
            c => format!("\\x{:02x}", u32::from(c)),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::ContentName;
    use crate::disk::block::Access;
    use crate::disk::block::BlockFile;
    use crate::disk::probe::Region;

    const UUID: &str = "5f0f7a6e-1c3d-4a8b-9e2f-0123456789ab";

    fn holds(path: &Path, name: &str) -> bool {
        let disk = BlockFile::open(path, Access::Read).unwrap();
        let name = ContentName::parse(name);
        name.is_some_and(|name| name.is_of(&Region::whole(&disk)).unwrap())
    }

    /// Made by the formats' own tools, where they are there.
    #[test]
    fn names_of_what_lies_on_a_whole_disk() {
        let dir = tempfile::tempdir().unwrap();
        for (tool, line, uuid) in [
            ("/usr/sbin/mkfs.ext4", format!("-q -U {UUID} -L"), UUID),
            ("/usr/sbin/mkfs.xfs", format!("-q -m uuid={UUID} -L"), UUID),
            ("/usr/sbin/mkfs.btrfs", format!("-q -U {UUID} -L"), UUID),
            ("/usr/sbin/mkswap", format!("-U {UUID} -L"), UUID),
            (
                "/usr/sbin/mkfs.vfat",
                "-F 16 -i 12ab34CD -n".to_owned(),
                "12AB-34CD",
            ),
            (
                "/usr/sbin/mkfs.vfat",
                "-F 32 -i 12ab34CD -n".to_owned(),
                "12AB-34CD",
            ),
        ] {
            if !Path::new(tool).exists() {
                eprintln!("skipped: no {tool}");
                continue;
            }
            let path = dir.path().join("disk");
            let file = std::fs::File::create(&path).unwrap();
            file.set_len(600 << 20).unwrap();
            let ran = Command::new(tool)
                .args(line.split(' '))
                .arg("MY DATA")
                .arg(&path)
                .output()
                .unwrap();
            assert!(ran.status.success(), "{tool}: {ran:?}");
            for (name, expected) in [
                (format!("/dev/disk/by-uuid/{uuid}"), true),
                ("/dev/disk/by-label/MY\\x20DATA".to_owned(), true),
                (format!("/dev/disk/by-label/{uuid}"), false),
                ("/dev/disk/by-label/MY".to_owned(), false),
                ("/dev/disk/by-label/".to_owned(), false),
                (format!("/dev/disk/by-id/{uuid}"), false),
            ] {
                assert_eq!(holds(&path, &name), expected, "{tool}: {name}");
            }
        }
        let empty = dir.path().join("empty");
        std::fs::write(&empty, [0; 512]).unwrap();
        assert!(!holds(&empty, "/dev/disk/by-label/MY\\x20DATA"));
    }
}

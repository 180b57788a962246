//! Root device hints on this machine's disks; the hints themselves are
//! [`wrought_wire::hints`].

use std::fs;
use std::path::Path;

pub use wrought_wire::hints::Candidate;
pub use wrought_wire::hints::Expression;
pub use wrought_wire::hints::Hint;
pub use wrought_wire::hints::HintError;
pub use wrought_wire::hints::Hints;
pub use wrought_wire::hints::Key;
pub use wrought_wire::hints::NumberOp;
pub use wrought_wire::hints::TextOp;
pub use wrought_wire::hints::parse;

use crate::disk::block::Access;
use crate::disk::block::BlockFile;
use crate::disk::device::Disk;
use crate::disk::probe::ContentName;
use crate::disk::probe::Region;

impl Candidate for Disk {
    fn bytes(&self) -> u64 {
        self.size
    }

    fn rotational(&self) -> Option<bool> {
        Some(self.rotational)
    }

    fn values(&self, key: Key) -> Vec<String> {
        let disk = self;
        let one = |value: &Option<String>| value.iter().cloned().collect();
        match key {
            Key::Model => one(&disk.model),
            Key::Vendor => one(&disk.vendor),
            Key::Serial => disk.serials.clone(),
            Key::Wwn => [&disk.wwn, &disk.wwn_with_extension]
                .into_iter()
                .flatten()
                .cloned()
                .collect(),
            Key::WwnWithExtension => one(&disk.wwn_with_extension),
            Key::WwnVendorExtension => one(&disk.wwn_vendor_extension),
            Key::Hctl => one(&disk.hctl),
            Key::Tran => one(&disk.transport),
            Key::ByPath => {
                let links = disk
                    .links
                    .iter()
                    .filter(|link| link.starts_with("/dev/disk/by-path/"));
                links.chain(&disk.by_path).cloned().collect()
            }
            Key::Name => {
                let path = disk.path.to_string_lossy().into_owned();
                let links = disk.links.iter().chain(&disk.by_path).cloned();
                links.chain([path]).collect()
            }
            Key::Size | Key::Rotational => Vec::new(),
        }
    }

    /// A link that udev made under any other name leads to the disk too. Where
    /// there is no udev, the disk is read for it.
    fn is_called(&self, name: &str) -> bool {
        let wanted = Path::new(name);
        let node = fs::canonicalize(wanted)
            .ok()
            .filter(|_| wanted.starts_with("/dev"));
        match node {
            Some(node) => fs::canonicalize(&self.path).is_ok_and(|own| own == node),
            None => holds(&self.path, name),
        }
    }
}

/// Whether something on the whole disk has this name by UUID or label.
fn holds(path: &Path, name: &str) -> bool {
    let Some(name) = ContentName::parse(name) else {
        return false;
    };
    // A disk that cannot be read has no name.
    BlockFile::open(path, Access::Read)
        .and_then(|disk| name.is_of(&Region::whole(&disk)))
        .unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::json;

    use super::parse;
    use crate::disk::Disk;
    use crate::disk::GIB;

    fn disk() -> Disk {
        Disk {
            name: "sda".into(),
            path: "/dev/sda".into(),
            size: 100 * GIB + GIB / 2,
            model: Some("Samsung SSD 870  EVO".into()),
            vendor: Some("ATA".into()),
            serials: vec!["S1".into(), "s-long-1".into()],
            wwn: Some("0x5000C500".into()),
            wwn_with_extension: Some("0x5000C500AA".into()),
            wwn_vendor_extension: Some("0xAA".into()),
            hctl: Some("2:0:0:0".into()),
            by_path: Some("/dev/disk/by-path/pci-0000:00:1f.2-ata-1".into()),
            transport: Some("sata".into()),
            ..Disk::default()
        }
    }

    fn holds(hints: Value) -> bool {
        parse(&hints).unwrap().matches(&disk())
    }

    #[test]
    fn a_disk_is_called_by_what_lies_on_it() {
        let dir = tempfile::tempdir().unwrap();
        // A swap area of 64 KiB: its magic, then UUID and label (see
        // `probe::names`).
        let mut bytes = vec![0; 64 << 10];
        bytes[4086..4096].copy_from_slice(b"SWAPSPACE2");
        bytes[0x40c..0x41c].fill(0x11);
        bytes[0x41c..0x420].copy_from_slice(b"Data");
        let path = dir.path().join("disk");
        std::fs::write(&path, bytes).unwrap();
        let disk = Disk { path, ..disk() };
        let called = |name: &str| parse(&json!({"name": name})).unwrap().matches(&disk);
        assert!(called("/dev/disk/by-label/Data"));
        assert!(called(
            "/dev/disk/by-uuid/11111111-1111-1111-1111-111111111111"
        ));
        assert!(!called("/dev/disk/by-label/data"));
        assert!(!called("/dev/disk/by-uuid/Data"));
    }

    #[test]
    fn every_key() {
        for hints in [
            json!({"size": ">= 100"}),
            json!({"model": "samsung ssd 870 evo "}),
            json!({"wwn": "0x5000c500"}),
            json!({"serial": "S-LONG-1"}),
            json!({"vendor": "ata"}),
            json!({"wwn_with_extension": "0x5000c500aa"}),
            json!({"wwn_vendor_extension": "0xaa"}),
            json!({"name": "/dev/sda"}),
            json!({"name": "/dev/disk/by-path/pci-0000:00:1f.2-ata-1"}),
            json!({"rotational": false}),
            json!({"rotational": "no"}),
            json!({"hctl": "2:0:0:0"}),
            json!({"by_path": "/dev/disk/by-path/pci-0000:00:1f.2-ata-1"}),
            json!({"tran": "sata"}),
            json!({"tran": "sata", "size": "< 101", "serial": "s1"}),
        ] {
            assert!(holds(hints.clone()), "{hints}");
        }
    }

    #[test]
    fn every_operator() {
        for (hints, expected) in [
            (json!({"size": 100}), false),
            (json!({"size": "100.5"}), true),
            (json!({"size": "= 100"}), true),
            (json!({"size": "== 100"}), false),
            (json!({"size": "!= 100"}), true),
            (json!({"size": "<= 100"}), false),
            (json!({"size": "> 100"}), true),
            (json!({"size": "<or> 50 <or> 100.5"}), true),
            (json!({"size": "<range-in> [ 100 100.5 ]"}), true),
            (json!({"size": "<range-in> [100 100.5)"}), false),
            (json!({"model": "<in> 870"}), true),
            (json!({"model": "<in> 970"}), false),
            (json!({"model": "<all-in> evo samsung"}), true),
            (json!({"model": "<all-in> evo intel"}), false),
            (json!({"serial": "<or> s0 <or> s1"}), true),
            (json!({"serial": "s== s1"}), true),
            (json!({"vendor": "s!= ata"}), false),
            (json!({"hctl": "s>= 2:0:0:0"}), true),
            (json!({"hctl": "s> 2:0:0:0"}), false),
            (json!({"hctl": "s< 3"}), true),
            (json!({"hctl": "s<= 2"}), false),
            (json!({"rotational": true}), false),
        ] {
            assert_eq!(holds(hints.clone()), expected, "{hints}");
        }
    }

    #[test]
    fn a_missing_value_never_matches() {
        let nameless = Disk {
            path: "/dev/sdb".into(),
            ..Disk::default()
        };
        for hints in [json!({"serial": "s!= x"}), json!({"model": "<in> a"})] {
            assert!(!parse(&hints).unwrap().matches(&nameless), "{hints}");
        }
    }
}

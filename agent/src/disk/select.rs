//! The root disk: the one that an image goes to.

use serde_json::Map;
use serde_json::Value;

use crate::disk::device::Disk;
use crate::disk::device::GIB;
use crate::disk::hints::HintError;
use crate::disk::hints::Hints;
use crate::disk::hints::parse;

/// Without hints, a smaller disk is never taken.
pub const SMALLEST_ROOT: u64 = 4 * GIB;

/// What a node says about its disks.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DiskRules {
    /// Hints for the root disk; empty for none.
    pub root: Hints,
    /// Disks that must be left alone.
    pub skip: Vec<Hints>,
}

impl DiskRules {
    /// Reads the rules of a node: `instance_info.root_device`, else
    /// `properties.root_device`; `properties.skip_block_devices`.
    pub fn of_node(
        properties: &Map<String, Value>,
        instance_info: &Map<String, Value>,
    ) -> Result<Self, HintError> {
        let wanted = |map: &Map<String, Value>| {
            map.get("root_device")
                .filter(|hints| !hints.is_null())
                .cloned()
        };
        let root = wanted(instance_info).or_else(|| wanted(properties));
        let root = root.map_or(Ok(Hints::default()), |hints| parse(&hints))?;
        let mut skip = Vec::new();
        if let Some(Value::Array(list)) = properties.get("skip_block_devices") {
            for entry in list {
                // An entry that names a RAID volume is not about disks.
                if entry.get("volume_name").is_none() {
                    skip.push(parse(entry)?);
                }
            }
        }
        Ok(Self { root, skip })
    }

    /// Whether the node's owner wants this disk left alone.
    pub fn skips(&self, disk: &Disk) -> bool {
        self.skip
            .iter()
            .any(|hints| !hints.0.is_empty() && hints.matches(disk))
    }
}

/// Why no root disk was chosen.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NoRootDisk {
    /// The hints name no usable disk. Another one is never taken instead.
    #[error("no disk matches the root device hints ({hints}); {disks}")]
    NoMatch {
        /// The hints as they were written.
        hints: String,
        /// All disks with their values.
        disks: String,
    },
    /// All disks that match are in use, read-only or skipped.
    #[error("the root device hints ({hints}) match only disks that cannot be used; {disks}")]
    NotUsable {
        /// The hints as they were written.
        hints: String,
        /// All disks with their values.
        disks: String,
    },
    /// No hints, and no disk that fits.
    #[error("no disk of at least 4 GiB is free to be the root disk; {disks}")]
    TooSmall {
        /// All disks with their values.
        disks: String,
    },
}

/// Chooses the root disk: with hints, the first that matches them all;
/// without, the smallest of at least 4 GiB, by name among equals.
pub fn root_disk<'a>(disks: &'a [Disk], rules: &DiskRules) -> Result<&'a Disk, NoRootDisk> {
    let usable = |disk: &Disk| {
        disk.in_use.is_none() && !disk.read_only && !disk.is_virtual_media() && !rules.skips(disk)
    };
    if rules.root.0.is_empty() {
        return disks
            .iter()
            .filter(|disk| usable(disk) && disk.size >= SMALLEST_ROOT)
            .min_by_key(|disk| disk.size)
            .ok_or_else(|| NoRootDisk::TooSmall {
                disks: listing(disks),
            });
    }
    let mut matching = disks
        .iter()
        .filter(|disk| rules.root.matches(*disk))
        .peekable();
    let hints = rules.root.to_string();
    if matching.peek().is_none() {
        return Err(NoRootDisk::NoMatch {
            hints,
            disks: listing(disks),
        });
    }
    matching
        .find(|disk| usable(disk))
        .ok_or_else(|| NoRootDisk::NotUsable {
            hints,
            disks: listing(disks),
        })
}

/// All disks in one line.
pub fn listing(disks: &[Disk]) -> String {
    if disks.is_empty() {
        return "this machine shows no disks at all".to_owned();
    }
    let disks: Vec<String> = disks.iter().map(Disk::to_string).collect();
    format!("disks: {}", disks.join("; "))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::json;

    use super::DiskRules;
    use super::NoRootDisk;
    use super::root_disk;
    use crate::disk::Disk;
    use crate::disk::GIB;

    fn disk(name: &str, gib: u64) -> Disk {
        Disk {
            name: name.into(),
            path: format!("/dev/{name}").into(),
            size: gib * GIB,
            serials: vec![format!("serial-{name}")],
            ..Disk::default()
        }
    }

    fn rules(properties: Value, instance_info: Value) -> DiskRules {
        DiskRules::of_node(
            properties.as_object().unwrap(),
            instance_info.as_object().unwrap(),
        )
        .unwrap()
    }

    #[test]
    fn smallest_that_is_large_enough() {
        let disks = [
            disk("sda", 20),
            disk("sdb", 2),
            disk("sdc", 10),
            disk("sdd", 10),
        ];
        assert_eq!(
            root_disk(&disks, &DiskRules::default()).unwrap().name,
            "sdc"
        );
    }

    #[test]
    fn used_read_only_and_skipped_disks_are_left_alone() {
        let mut disks = [
            disk("sda", 20),
            disk("sdb", 8),
            disk("sdc", 10),
            disk("sdd", 30),
        ];
        disks[1].in_use = Some("mounted at /".into());
        disks[2].read_only = true;
        let rules = rules(
            json!({"skip_block_devices": [{"name": "/dev/sda"}, {"volume_name": "x"}]}),
            json!({}),
        );
        assert_eq!(root_disk(&disks, &rules).unwrap().name, "sdd");
    }

    #[test]
    fn instance_hints_replace_those_of_the_node() {
        let disks = [disk("sda", 20), disk("sdb", 8)];
        let rules = rules(
            json!({"root_device": {"serial": "serial-sdb", "size": 1}}),
            json!({"root_device": {"serial": "serial-sda"}}),
        );
        assert_eq!(root_disk(&disks, &rules).unwrap().name, "sda");
    }

    #[test]
    fn hints_that_match_nothing_are_an_error_with_all_disks() {
        let mut disks = [disk("sda", 20), disk("sdb", 8)];
        let nothing = rules(json!({"root_device": {"serial": "other"}}), json!({}));
        let error = root_disk(&disks, &nothing).unwrap_err();
        assert!(matches!(error, NoRootDisk::NoMatch { .. }));
        let text = error.to_string();
        assert!(text.contains("(serial: other)"), "{text}");
        assert!(
            text.contains("/dev/sdb (size 8.00 GiB, serial serial-sdb"),
            "{text}"
        );

        disks[0].in_use = Some("held by md0".into());
        let used = rules(json!({"root_device": {"name": "/dev/sda"}}), json!({}));
        assert!(matches!(
            root_disk(&disks, &used),
            Err(NoRootDisk::NotUsable { .. })
        ));
    }
}

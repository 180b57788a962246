//! Whether a disk is what the hints mean.

use std::fs;
use std::path::Path;

use crate::disk::device::Disk;
use crate::disk::device::GIB;
use crate::disk::hints::Expression;
use crate::disk::hints::Hint;
use crate::disk::hints::Hints;
use crate::disk::hints::Key;
use crate::disk::hints::NumberOp;
use crate::disk::hints::TextOp;
use crate::disk::hints::expression::normalise;

impl Hints {
    /// Whether all hints hold for the disk.
    pub fn matches(&self, disk: &Disk) -> bool {
        self.0.iter().all(|hint| hint.matches(disk))
    }
}

impl Hint {
    /// Whether this hint holds. Where a disk has several values, one is
    /// enough.
    pub fn matches(&self, disk: &Disk) -> bool {
        if let (Key::Rotational, Expression::Flag(wanted)) = (self.key, &self.expression) {
            return disk.rotational == *wanted;
        }
        if self.key == Key::Size {
            return size_matches(&self.expression, disk.size);
        }
        let mut values = values(self.key, disk);
        if self.key == Key::Name {
            // A link that udev made under any other name leads to the disk too.
            let wanted = Path::new(self.written.trim_start_matches("s==").trim());
            let node = fs::canonicalize(wanted)
                .ok()
                .filter(|_| wanted.starts_with("/dev"));
            if node.is_some() && node == fs::canonicalize(&disk.path).ok() {
                values.push(self.written.clone());
            }
        }
        values
            .iter()
            .any(|value| text_matches(&self.expression, &normalise(value)))
    }
}

fn values(key: Key, disk: &Disk) -> Vec<String> {
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

/// Sizes are compared as fractions of a GiB, as Ironic does: `100` is
/// exactly 100 GiB.
fn size_matches(expression: &Expression, bytes: u64) -> bool {
    // Exact up to 2^53 bytes, and a rounding error beyond does not matter.
    let gib = bytes as f64 / GIB as f64;
    match expression {
        Expression::Or(choices) => choices
            .iter()
            .any(|choice| choice.parse::<f64>().is_ok_and(|wanted| wanted == gib)),
        other => number_matches(other, gib),
    }
}

fn number_matches(expression: &Expression, value: f64) -> bool {
    match expression {
        Expression::Number(op, wanted) => match op {
            NumberOp::Equal => value == *wanted,
            NumberOp::NotEqual => value != *wanted,
            NumberOp::AtLeast => value >= *wanted,
            NumberOp::AtMost => value <= *wanted,
            NumberOp::Above => value > *wanted,
            NumberOp::Below => value < *wanted,
        },
        Expression::Range {
            low,
            with_low,
            high,
            with_high,
        } => {
            let above = if *with_low {
                value >= *low
            } else {
                value > *low
            };
            let below = if *with_high {
                value <= *high
            } else {
                value < *high
            };
            above && below
        }
        _ => false,
    }
}

fn text_matches(expression: &Expression, value: &str) -> bool {
    match expression {
        Expression::Text(op, wanted) => {
            let wanted = wanted.as_str();
            match op {
                TextOp::Equal => value == wanted,
                TextOp::NotEqual => value != wanted,
                TextOp::AtLeast => value >= wanted,
                TextOp::AtMost => value <= wanted,
                TextOp::Above => value > wanted,
                TextOp::Below => value < wanted,
            }
        }
        Expression::In(part) => value.contains(part.as_str()),
        Expression::AllIn(words) => words.iter().all(|word| value.contains(word.as_str())),
        Expression::Or(choices) => choices.iter().any(|choice| choice == value),
        Expression::Number(..) | Expression::Range { .. } => value
            .parse()
            .is_ok_and(|value| number_matches(expression, value)),
        Expression::Flag(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::json;

    use crate::disk::Disk;
    use crate::disk::GIB;
    use crate::disk::hints::parse;

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

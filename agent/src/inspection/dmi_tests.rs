//! A table made by hand, and dmidecode as the judge where it is installed.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::decode;
use crate::inventory::smbios::parse;
use crate::inventory::smbios::tests::structure;

/// A machine with a BIOS, a processor, an array of two slots, one of them used.
fn table() -> Vec<u8> {
    let mut bios = vec![1, 2, 0x00, 0xE8, 3, 0xFF];
    bios.extend((1u64 << 7 | 1 << 11 | 1 << 15).to_le_bytes());
    bios.extend([0b11, 0b1_1100, 5, 17, 0xFF, 0xFF, 32, 0]);
    let mut table = structure(0, 0, &bios, &["ACME Firmware", "1.17", "02/03/2026"]);
    let mut cpu = vec![1, 3, 0xB3, 2];
    cpu.extend([0xA6, 0x06, 0x01, 0, 0xFF, 0xFB, 0xEB, 0xBF]);
    cpu.extend([3, 0x80 | 18, 100, 0, 0xA0, 0x0F, 0xC4, 0x09, 0x41, 0x3D]);
    cpu.extend([
        0x10, 0, 0x11, 0, 0xFF, 0xFF, 0, 0, 0, 16, 16, 32, 0, 0, 0xB3, 0,
    ]);
    table.extend(structure(4, 0x400, &cpu, &["CPU 0", "Intel", "Xeon Gold"]));
    let mut array = vec![3, 3, 6];
    array.extend((64u32 << 20).to_le_bytes());
    array.extend([0xFE, 0xFF, 2, 0]);
    table.extend(structure(16, 0x1000, &array, &[]));
    let device = |size: u16, extended: u32| {
        let mut fields = vec![0x00, 0x10, 0xFE, 0xFF, 72, 0, 64, 0];
        fields.extend(size.to_le_bytes());
        fields.extend([9, 0, 1, 2, 0x1A, 0x80, 0x20, 0x80, 0x0C, 3, 4, 0, 5, 2]);
        fields.extend(extended.to_le_bytes());
        fields.extend([0x80, 0x0C]);
        fields
    };
    let strings = ["DIMM A1", "Bank 1", "ACME", "00C0FFEE", "AC32G"];
    table.extend(structure(17, 0x1100, &device(0x7FFF, 32_768), &strings));
    table.extend(structure(17, 0x1101, &device(0, 0), &strings));
    table.extend(structure(127, 0x7F00, &[], &[]));
    table
}

#[test]
fn dmi_has_the_shape_of_the_real_agent() {
    let found = decode(&parse(&table()));
    let at = |pointer: &str| found.pointer(pointer).cloned().unwrap_or_default();
    for (pointer, expected) in [
        ("/bios/Vendor", "ACME Firmware"),
        ("/bios/Release Date", "02/03/2026"),
        ("/bios/ROM Size", "32 MB"),
        ("/bios/BIOS Revision", "5.17"),
        ("/bios/Characteristics/1", "BIOS is upgradeable"),
        ("/cpu/0/Version", "Xeon Gold"),
        ("/cpu/0/Family", "Xeon"),
        ("/cpu/0/Max Speed", "4000 MHz"),
        ("/cpu/0/Thread Count", "32"),
        ("/cpu/0/Status", "Populated, Enabled"),
        ("/memory/Use", "System Memory"),
        ("/memory/Maximum Capacity", "64 GB"),
        ("/memory/devices/0/Size", "32 GB"),
        ("/memory/devices/0/Type", "DDR4"),
        ("/memory/devices/1/Size", "No Module Installed"),
        (
            "/memory/devices/1/Handle",
            "Handle 0x1101, DMI type 17, 34 bytes",
        ),
    ] {
        assert_eq!(at(pointer), expected, "{pointer}: {found}");
    }
    assert_eq!(at("/memory/Number Of Devices"), 2);
    assert_eq!(at("/memory/Handle"), Value::Null);
    // An empty table has the same shape.
    let nothing = decode(&[]);
    assert_eq!(nothing["memory"]["devices"], serde_json::json!([]));
}

/// dmidecode's text, cut as ironic-python-agent does: one object a structure.
fn by_dmidecode(dump: &std::path::Path) -> Option<Vec<Vec<(String, String)>>> {
    let run = Command::new("dmidecode")
        .arg("--from-dump")
        .arg(dump)
        .output()
        .ok()?;
    let text = String::from_utf8(run.stdout).unwrap();
    let lines = |block: &str| {
        let pairs = block
            .lines()
            .filter_map(|line| line.trim().split_once(": "));
        pairs
            .map(|(label, value)| (label.to_owned(), value.trim().to_owned()))
            .collect()
    };
    Some(text.split("\n\n").map(lines).collect())
}

#[test]
fn dmi_says_what_dmidecode_says() {
    let (dir, table) = (tempfile::tempdir().unwrap(), table());
    let dump = dir.path().join("dump");
    // A 64-bit entry point (DSP0134 §5.2.2) whose table is at offset 0x20 of the
    // dump.
    let mut entry = b"_SM3_\0\x18\x03\x03\x00\x01\x00".to_vec();
    entry.extend(u32::try_from(table.len()).unwrap().to_le_bytes());
    entry.extend(0x20u64.to_le_bytes());
    let sum = entry.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    entry[5] = sum.wrapping_neg();
    entry.resize(0x20, 0);
    fs::write(&dump, [entry, table.clone()].concat()).unwrap();
    let Some(blocks) = by_dmidecode(&dump) else {
        eprintln!("skipped: no dmidecode");
        return;
    };
    let found = decode(&parse(&table));
    let mut objects = vec![found["bios"].clone(), found["cpu"][0].clone()];
    objects.push(found["memory"].clone());
    objects.extend(found["memory"]["devices"].as_array().unwrap().clone());
    let mut compared = 0;
    for object in &objects {
        let ours = |label: &str| object[label].as_str().map(str::to_owned);
        let firsts = ["Locator", "Vendor", "Socket Designation", "Location"];
        let first = firsts.iter().find(|label| ours(label).is_some()).unwrap();
        let same = |block: &&Vec<(String, String)>| {
            let has = |label: &str| {
                block
                    .iter()
                    .any(|(l, v)| l == label && Some(v) == ours(label).as_ref())
            };
            has(first) && (ours("Size").is_none() || has("Size"))
        };
        let block = blocks.iter().find(same);
        let block = block.unwrap_or_else(|| panic!("{object} is not in {blocks:?}"));
        for (label, theirs) in block {
            if let Some(ours) = ours(label) {
                assert_eq!(&ours, theirs, "{label}");
                compared += 1;
            }
        }
    }
    assert!(compared > 50, "only {compared} values were compared");
}

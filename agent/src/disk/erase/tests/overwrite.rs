//! Overwriting from outside.

use std::sync::Mutex;

use serde_json::json;
use wrought_wire::progress::Progress;

use super::erase_one;
use super::full_disk;
use super::holds_data;
use crate::disk::DiskRules;
use crate::disk::erase::EraseOptions;
use crate::disk::erase::Method;
use crate::disk::erase::erase_all;

fn options(internal: serde_json::Value) -> EraseOptions {
    EraseOptions::of_node(internal.as_object().unwrap(), Default::default())
}

#[test]
fn passes_of_random_data_then_zeroes() {
    let folder = tempfile::tempdir().unwrap();
    let disk = full_disk(folder.path(), "vda");
    let options = options(json!({"agent_erase_devices_iterations": 2}));
    let seen = Mutex::new(Vec::new());
    let note = |progress: Progress| seen.lock().unwrap().push(progress.percent.unwrap());
    let disks = [disk];
    let report = erase_all(&disks, &DiskRules::default(), &options, &note).unwrap();
    let method = report.disks[0].method;
    assert_eq!(
        method.to_string(),
        "overwritten 2 times with random data, then with zeroes"
    );
    assert!(
        std::fs::read(&disks[0].path)
            .unwrap()
            .iter()
            .all(|byte| *byte == 0)
    );
    // One third each.
    assert_eq!(seen.into_inner().unwrap(), [0, 33, 66, 100]);
}

#[test]
fn random_data_stays_when_zeroes_are_not_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let disk = full_disk(folder.path(), "vda");
    let options = options(json!({
        "agent_erase_devices_iterations": 1,
        "agent_erase_devices_zeroize": false,
    }));
    let report = erase_one(&disk, &options).unwrap();
    let random = Method::Overwritten {
        random: 1,
        zeroes: false,
    };
    assert_eq!(report.disks[0].method, random);
    let content = std::fs::read(&disk.path).unwrap();
    assert!(!holds_data(&disk));
    let zeroes = content.iter().filter(|byte| **byte == 0).count();
    assert!(zeroes < content.len() / 128, "it looks random: {zeroes}");
}

#[test]
fn a_stop_is_heeded_between_pieces() {
    let folder = tempfile::tempdir().unwrap();
    let disk = full_disk(folder.path(), "vda");
    let options = EraseOptions::default();
    options
        .cancel
        .store(true, std::sync::atomic::Ordering::Relaxed);
    let text = erase_one(&disk, &options).unwrap_err().to_string();
    assert!(text.contains("stopped while working on"), "{text}");
    assert!(holds_data(&disk));
}

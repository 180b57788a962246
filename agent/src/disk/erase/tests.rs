//! Erasing plain files that stand for disks.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use serde_json::json;
use wrought_wire::progress::Progress;

use super::EraseError;
use super::EraseOptions;
use super::EraseReport;
use super::Level;
use super::Method;
use super::erase_all;
use super::erase_metadata;
use super::options::Drives;
use crate::disk::Disk;
use crate::disk::DiskRules;
use crate::disk::drive::Passthrough;

mod ata;
mod express;
mod nvme;
mod overwrite;
mod plain;
mod scsi;

const MIB: u64 = 1 << 20;

fn quiet(_: Progress) {}

/// A disk with a GPT, an ext4 in the first partition and a RAID superblock
/// at the end of the second.
fn used_disk(folder: &Path, name: &str) -> Disk {
    let path = folder.join(name);
    let file = File::options()
        .create_new(true)
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    file.set_len(64 * MIB).unwrap();
    let output = Command::new("/usr/sbin/sgdisk")
        .args(["-n", "1:2048:+16M", "-n", "2:0:+16M"])
        .arg(&path)
        .output()
        .unwrap();
    assert!(output.status.success());
    file.write_all_at(b"\x53\xef", MIB + 0x438).unwrap();
    let end = 33 * MIB;
    let raid = (16 * MIB / 512 - 16) & !7;
    file.write_all_at(b"\xfc\x4e\x2b\xa9\x01\0\0\0", end - 16 * MIB + raid * 512)
        .unwrap();
    // In the middle of the second partition, found by no probe.
    file.write_all_at(b"secret", 24 * MIB).unwrap();
    Disk {
        name: name.into(),
        path,
        size: 64 * MIB,
        logical_sector: 512,
        ..Disk::default()
    }
}

/// What wipefs still finds.
fn wipefs(path: &Path) -> String {
    let output = Command::new("/usr/sbin/wipefs")
        .arg("--no-act")
        .arg(path)
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A disk full of something, and nothing that a probe knows.
fn full_disk(folder: &Path, name: &str) -> Disk {
    let path = folder.join(name);
    std::fs::write(&path, b"tenant".repeat(1 << 18)).unwrap();
    Disk {
        name: name.into(),
        size: std::fs::metadata(&path).unwrap().len(),
        path,
        logical_sector: 512,
        ..Disk::default()
    }
}

/// Whether the old content is still to be seen anywhere.
fn holds_data(disk: &Disk) -> bool {
    let content = std::fs::read(&disk.path).unwrap();
    content.windows(6).any(|window| window == b"tenant")
}

/// Options with a made-up drive behind every disk.
fn with_drive<D>(drive: &'static D) -> EraseOptions
where
    &'static D: Passthrough,
    D: Sync,
{
    EraseOptions {
        drives: Drives(std::sync::Arc::new(move |_| Box::new(drive))),
        ..EraseOptions::default()
    }
}

/// Erases one disk with a full erase.
fn erase_one(disk: &Disk, options: &EraseOptions) -> Result<EraseReport, EraseError> {
    erase_all(
        std::slice::from_ref(disk),
        &DiskRules::default(),
        options,
        &quiet,
    )
}

#[test]
fn metadata_goes_data_stays() {
    let folder = tempfile::tempdir().unwrap();
    let disks = [used_disk(folder.path(), "a"), used_disk(folder.path(), "b")];
    assert!(wipefs(&disks[0].path).contains("gpt"));
    let options = EraseOptions {
        concurrency: 2,
        ..EraseOptions::default()
    };
    let report = erase_metadata(&disks, &DiskRules::default(), &options, &quiet).unwrap();
    assert_eq!(report.disks.len(), 2);
    assert!(
        report
            .disks
            .iter()
            .all(|disk| disk.method == Method::Metadata)
    );
    for disk in &disks {
        assert_eq!(wipefs(&disk.path), "");
        let content = std::fs::read(&disk.path).unwrap();
        let left: Vec<usize> = content
            .iter()
            .enumerate()
            .filter(|(_, byte)| **byte != 0)
            .map(|(at, _)| at)
            .collect();
        let secret = usize::try_from(24 * MIB).unwrap();
        assert_eq!(left, (secret..secret + 6).collect::<Vec<_>>());
    }
}

#[test]
fn everything_goes_and_progress_counts_to_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let disks = [used_disk(folder.path(), "a")];
    let seen = Mutex::new(Vec::new());
    let progress = |progress: Progress| seen.lock().unwrap().push(progress);
    let report = erase_all(
        &disks,
        &DiskRules::default(),
        &EraseOptions::default(),
        &progress,
    )
    .unwrap();
    let zeroes = Method::Overwritten {
        random: 0,
        zeroes: true,
    };
    assert_eq!(report.disks[0].method, zeroes);
    assert_eq!(zeroes.level(), Level::Overwrite);
    assert!(
        std::fs::read(&disks[0].path)
            .unwrap()
            .iter()
            .all(|byte| *byte == 0)
    );
    let seen = seen.into_inner().unwrap();
    let last = seen.last().unwrap();
    assert_eq!((last.bytes_out, last.percent), (64 * MIB, Some(100)));
}

#[test]
fn one_failure_does_not_stop_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let missing = Disk {
        path: "/nosuch/disk".into(),
        size: 1,
        ..Disk::default()
    };
    let mut mounted = used_disk(folder.path(), "m");
    mounted.in_use = Some("mounted at /".into());
    let good = used_disk(folder.path(), "g");
    let disks = [missing, mounted, good];
    let error = erase_metadata(
        &disks,
        &DiskRules::default(),
        &EraseOptions::default(),
        &quiet,
    )
    .unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("2 of 3 disks could not be erased: "),
        "{text}"
    );
    assert!(text.contains("is in use: mounted at /"), "{text}");
    assert!(
        text.contains("look at /nosuch/disk: No such file"),
        "{text}"
    );
    assert!(text.contains("done with the others: "), "{text}");
    assert!(text.ends_with("/g (metadata wiped)"), "{text}");
    assert_eq!(wipefs(&disks[2].path), "");
    assert_ne!(wipefs(&disks[1].path), "");
}

#[test]
fn a_backup_table_inside_of_a_grown_disk_goes() {
    let folder = tempfile::tempdir().unwrap();
    let mut disk = used_disk(folder.path(), "a");
    let file = File::options().write(true).open(&disk.path).unwrap();
    file.set_len(128 * MIB).unwrap();
    disk.size = 128 * MIB;
    super::wipe_disk(&disk, true).unwrap();
    let content = std::fs::read(&disk.path).unwrap();
    assert!(!content.windows(8).any(|window| window == b"EFI PART"));
}

#[test]
fn a_stacked_device_is_wiped_by_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let disk = used_disk(folder.path(), "md0");
    super::wipe_stacked(&disk.path, true).unwrap();
    assert_eq!(wipefs(&disk.path), "");
}

#[test]
fn read_only_and_skipped_disks() {
    let folder = tempfile::tempdir().unwrap();
    let mut disk = used_disk(folder.path(), "a");
    disk.read_only = true;
    let disks = [disk];
    let mut options = EraseOptions::default();
    let rules = DiskRules::default();
    let report = erase_metadata(&disks, &rules, &options, &quiet).unwrap();
    assert_eq!(report.disks[0].method, Method::Skipped("read-only"));
    assert!(erase_all(&disks, &rules, &options, &quiet).is_err());
    options.skip_read_only = true;
    let report = erase_all(&disks, &rules, &options, &quiet).unwrap();
    assert_eq!(report.disks[0].method, Method::Skipped("read-only"));

    let name = disks[0].path.to_str().unwrap();
    let properties = json!({"skip_block_devices": [{"name": name}]});
    let rules =
        DiskRules::of_node(properties.as_object().unwrap(), &serde_json::Map::new()).unwrap();
    let report = erase_all(&disks, &rules, &EraseOptions::default(), &quiet).unwrap();
    assert_eq!(
        report.disks[0].method,
        Method::Skipped("listed in skip_block_devices")
    );
}

#[test]
fn members_of_kept_arrays_and_what_stays_stacked() {
    let folder = tempfile::tempdir().unwrap();
    let disks = [used_disk(folder.path(), "a"), used_disk(folder.path(), "b")];
    let reason = "held by md7: no answer".to_owned();
    let options = EraseOptions {
        kept: vec![disks[0].path.clone()],
        stuck: vec![(disks[1].path.clone(), reason)],
        ..EraseOptions::default()
    };
    let rules = DiskRules::default();
    for erase in [erase_metadata, erase_all, super::erase_express] {
        let error = erase(&disks, &rules, &options, &quiet).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("/b is in use: held by md7: no answer"),
            "{text}"
        );
        assert_eq!(
            error.done.disks[0].method,
            Method::Skipped("part of an array that is kept")
        );
    }
    assert_ne!(wipefs(&disks[0].path), "");
}

#[test]
fn shared_file_systems_are_guarded() {
    let folder = tempfile::tempdir().unwrap();
    let disk = used_disk(folder.path(), "a");
    let file = File::options().write(true).open(&disk.path).unwrap();
    file.write_all_at(b"\x01\x16\x19\x70\0\0\0\x01", MIB + 0x1_0000)
        .unwrap();
    let disks = [disk];
    let internal = json!({"disk_erasure_concurrency": 4, "wipe_special_filesystems": true});
    let options = EraseOptions::of_node(internal.as_object().unwrap(), Default::default());
    assert_eq!(options.concurrency, 4);
    let error = erase_all(&disks, &DiskRules::default(), &options, &quiet).unwrap_err();
    assert!(error.to_string().contains("gfs2 at 0x110000"), "{error}");
    let internal = json!({"wipe_special_filesystems": false});
    let options = EraseOptions::of_node(internal.as_object().unwrap(), Default::default());
    assert!(erase_metadata(&disks, &DiskRules::default(), &options, &quiet).is_ok());
}

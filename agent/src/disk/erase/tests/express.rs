//! The quick way: NVMe drives erase themselves, others lose their metadata.

use super::full_disk;
use super::holds_data;
use super::quiet;
use super::used_disk;
use super::wipefs;
use super::with_drive;
use crate::disk::DiskRules;
use crate::disk::drive::double::Nvme;
use crate::disk::drive::sanitize::Action;
use crate::disk::erase::EraseOptions;
use crate::disk::erase::Means;
use crate::disk::erase::Method;
use crate::disk::erase::erase_express;

#[test]
fn nvme_drives_erase_themselves_others_lose_their_metadata() {
    let folder = tempfile::tempdir().unwrap();
    let disks = [
        full_disk(folder.path(), "nvme0n1"),
        used_disk(folder.path(), "sda"),
    ];
    let drive: &'static Nvme = Box::leak(Box::new(Nvme::new(&disks[0].path)));
    let options = with_drive(drive);
    let report = erase_express(&disks, &DiskRules::default(), &options, &quiet).unwrap();
    let crypto = Method::Drive(Means::NvmeSanitize(Action::Crypto));
    assert_eq!(report.disks[0].method, Method::Metadata);
    assert_eq!(report.disks[1].method, crypto);
    assert!(
        report.disks[1].planned.iter().all(|means| !means.is_slow()),
        "nothing that takes hours"
    );
    assert!(!holds_data(&disks[0]));
    assert_eq!(wipefs(&disks[1].path), "");
}

#[test]
fn a_drive_that_cannot_or_fails_loses_its_metadata() {
    let folder = tempfile::tempdir().unwrap();
    let mut disk = used_disk(folder.path(), "nvme0n1");
    disk.name = "nvme0n1".into();
    let mut drive = Nvme::new(&disk.path);
    drive.refuses = vec![(0x80, 0, 6), (0x84, 0, 6)];
    let drive: &'static Nvme = Box::leak(Box::new(drive));
    let options = with_drive(drive);
    let disks = [disk];
    let report = erase_express(&disks, &DiskRules::default(), &options, &quiet).unwrap();
    assert_eq!(report.disks[0].method, Method::Metadata);
    assert_eq!(report.disks[0].failed.len(), 4);
    assert_eq!(wipefs(&disks[0].path), "");
}

#[test]
fn guards_and_skips_hold_here_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut disk = full_disk(folder.path(), "nvme0n1");
    disk.read_only = true;
    let disks = [disk];
    let options = EraseOptions::default();
    let report = erase_express(&disks, &DiskRules::default(), &options, &quiet).unwrap();
    assert_eq!(report.disks[0].method, Method::Skipped("read-only"));
    assert!(holds_data(&disks[0]));
}

//! Devices without commands of their own: secure discard, or nothing.

use super::erase_one;
use super::full_disk;
use super::holds_data;
use super::with_drive;
use crate::disk::drive::double::Medium;
use crate::disk::drive::double::Plain;
use crate::disk::erase::Level;
use crate::disk::erase::Means;
use crate::disk::erase::Method;

#[test]
fn secure_discard_where_there_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let disk = full_disk(folder.path(), "mmcblk0");
    let drive: &'static Plain = Box::leak(Box::new(Plain {
        medium: Medium::new(&disk.path),
        there: true,
        error: None,
    }));
    let report = erase_one(&disk, &with_drive(drive)).unwrap();
    let found = report.disks[0].method;
    assert_eq!(found, Method::Drive(Means::SecureDiscard));
    assert_eq!(found.level(), Level::SecureDiscard);
    assert_eq!(drive.medium.told(), [format!("discard 0 {}", disk.size)]);
    assert!(!holds_data(&disk));
}

#[test]
fn without_one_or_on_an_array_zeroes() {
    for (name, there) in [("vda", false), ("md0", true), ("dm-1", true)] {
        let folder = tempfile::tempdir().unwrap();
        let disk = full_disk(folder.path(), name);
        let drive: &'static Plain = Box::leak(Box::new(Plain {
            medium: Medium::new(&disk.path),
            there,
            error: None,
        }));
        let report = erase_one(&disk, &with_drive(drive)).unwrap();
        assert_eq!(report.disks[0].method.level(), Level::Overwrite, "{name}");
        assert!(drive.medium.told().is_empty());
    }
}

#[test]
fn one_that_fails_is_no_success() {
    let folder = tempfile::tempdir().unwrap();
    let disk = full_disk(folder.path(), "mmcblk0");
    let drive: &'static Plain = Box::leak(Box::new(Plain {
        medium: Medium::new(&disk.path),
        there: true,
        error: Some(libc::EIO),
    }));
    let text = erase_one(&disk, &with_drive(drive))
        .unwrap_err()
        .to_string();
    assert!(
        text.contains(
            "secure discard: the command secure discard could not be sent: Input/output error"
        ),
        "{text}"
    );
}

//! SCSI drives of every kind.

use std::sync::Mutex;

use super::erase_one;
use super::full_disk;
use super::holds_data;
use super::with_drive;
use crate::disk::Disk;
use crate::disk::drive::double::Play;
use crate::disk::drive::double::Scsi;
use crate::disk::drive::sanitize::Action;
use crate::disk::drive::sanitize::Sanitizer;
use crate::disk::drive::sanitize::State;
use crate::disk::drive::scsi::ScsiSanitizer;
use crate::disk::erase::EraseOptions;
use crate::disk::erase::Level;
use crate::disk::erase::Means;
use crate::disk::erase::Method;

fn rig(change: impl FnOnce(&mut Scsi)) -> (tempfile::TempDir, Disk, &'static Scsi, EraseOptions) {
    let folder = tempfile::tempdir().unwrap();
    let mut disk = full_disk(folder.path(), "sda");
    disk.hctl = Some("0:0:0:0".into());
    disk.vendor = Some("SEAGATE".into());
    let mut drive = Scsi::new(&disk.path);
    change(&mut drive);
    let drive: &'static Scsi = Box::leak(Box::new(drive));
    (folder, disk, drive, with_drive(drive))
}

fn method(change: impl FnOnce(&mut Scsi)) -> (Method, Vec<String>) {
    let (_folder, disk, drive, options) = rig(change);
    let report = erase_one(&disk, &options).unwrap();
    assert!(!holds_data(&disk));
    (report.disks[0].method, drive.medium.told())
}

const ZEROES: Method = Method::Overwritten {
    random: 0,
    zeroes: true,
};

#[test]
fn every_kind_of_sanitize() {
    let kinds = [
        (3, Action::Crypto, Level::CryptographicErase),
        (2, Action::Block, Level::BlockErase),
        (1, Action::Overwrite, Level::MediaOverwrite),
    ];
    for (code, action, level) in kinds {
        let (found, told) = method(|drive| drive.actions = vec![code]);
        assert_eq!(found, Method::Drive(Means::ScsiSanitize(action)));
        assert_eq!(found.level(), level);
        assert_eq!(told, [format!("sanitize {code:#x}")]);
    }
}

#[test]
fn progress_is_followed_in_either_form_of_sense() {
    for by_condition in [false, true] {
        let (found, _) = method(|drive| {
            drive.sense_by_condition = by_condition;
            drive.play = Mutex::new(Play {
                progress: vec![0x100, 0x8000],
                ..Play::default()
            });
        });
        assert_eq!(found, Method::Drive(Means::ScsiSanitize(Action::Crypto)));
    }
}

#[test]
fn a_drive_that_does_not_tell_is_overwritten() {
    let (found, told) = method(|drive| drive.tells = false);
    assert_eq!(found, ZEROES);
    assert!(told.is_empty());
    let (found, _) = method(|drive| drive.actions = Vec::new());
    assert_eq!(found, ZEROES);
}

#[test]
fn what_is_refused_is_told_and_the_next_kind_follows() {
    let (_folder, disk, _, options) = rig(|drive| drive.refuses = vec![3]);
    let report = erase_one(&disk, &options).unwrap();
    let block = Means::ScsiSanitize(Action::Block);
    assert_eq!(report.disks[0].method, Method::Drive(block));
    let failed = &report.disks[0].failed;
    assert!(
        failed[0].1.contains("sense key 0x5, code 0x20/0x00"),
        "{failed:?}"
    );
}

#[test]
fn a_failure_is_left_and_never_called_a_success() {
    let (_folder, disk, drive, mut options) = rig(|drive| {
        drive.play = Mutex::new(Play {
            fails: true,
            ..Play::default()
        });
    });
    let text = erase_one(&disk, &options).unwrap_err().to_string();
    assert!(text.contains("SANITIZE COMMAND FAILED"), "{text}");
    assert_eq!(
        drive.medium.told(),
        [
            "sanitize 0x3",
            "sanitize 0x1f",
            "sanitize 0x2",
            "sanitize 0x1f",
            "sanitize 0x1",
            "sanitize 0x1f"
        ]
    );
    assert!(holds_data(&disk));
    options.overwrite_after_failure = true;
    assert_eq!(erase_one(&disk, &options).unwrap().disks[0].method, ZEROES);
}

#[test]
fn one_from_before_a_power_loss_is_waited_for_then_the_drive_is_erased() {
    let (found, told) = method(|drive| {
        drive.play = Mutex::new(Play::interrupted(vec![9, 10], false));
    });
    assert_eq!(found, Method::Drive(Means::ScsiSanitize(Action::Crypto)));
    assert_eq!(told, ["sanitize 0x3"]);
    // One that fails then is told, and the drive erased by the next start.
    let (_folder, disk, drive, options) = rig(|drive| {
        drive.play = Mutex::new(Play::interrupted(vec![9, 10], true));
    });
    assert!(erase_one(&disk, &options).is_err());
    assert_eq!(drive.medium.told()[0], "sanitize 0x1f");
}

#[test]
fn sense_that_means_something_else_is_no_success() {
    // Hardware error, internal target failure.
    let mut sense = vec![0_u8; 18];
    (sense[0], sense[2], sense[12]) = (0x70, 0x4, 0x44);
    for odd in [sense, vec![0; 4]] {
        let (_folder, disk, _, options) = rig(|drive| drive.odd_sense = Some(odd));
        let text = erase_one(&disk, &options).unwrap_err().to_string();
        assert!(text.contains("REQUEST SENSE"), "{text}");
    }
}

#[test]
fn announcements_come_first_and_are_no_answer() {
    for by_condition in [false, true] {
        let (_folder, disk, drive, options) = rig(|drive| {
            drive.sense_by_condition = by_condition;
            drive.announcements = Mutex::new(2);
        });
        // Before the first question, and before each look afterwards.
        let report = erase_one(&disk, &options).unwrap();
        let crypto = Method::Drive(Means::ScsiSanitize(Action::Crypto));
        assert_eq!(report.disks[0].method, crypto);
        let sanitizer = ScsiSanitizer(&drive);
        *drive.announcements.lock().unwrap() = 3;
        assert_eq!(sanitizer.state().unwrap(), State::Succeeded);
        // One that announces for ever is not believed.
        *drive.announcements.lock().unwrap() = u32::MAX;
        assert!(sanitizer.state().is_err());
    }
}

#[test]
fn switched_off_means_are_not_used() {
    let (_folder, disk, drive, mut options) = rig(|_| {});
    options.scsi = false;
    assert_eq!(erase_one(&disk, &options).unwrap().disks[0].method, ZEROES);
    assert!(drive.medium.told().is_empty());
}

#[test]
fn a_drive_behind_usb_is_sent_nothing() {
    let (_folder, mut disk, _, options) = rig(|_| {});
    disk.transport = Some("usb".into());
    // The double has no secure discard and would say so.
    let report = erase_one(&disk, &options).unwrap();
    assert_eq!(report.disks[0].method, ZEROES);
}

//! ATA drives of every kind.

use std::sync::Mutex;

use super::erase_one;
use super::full_disk;
use super::holds_data;
use super::with_drive;
use crate::disk::Disk;
use crate::disk::drive::double::Ata;
use crate::disk::drive::double::Play;
use crate::disk::drive::double::Security;
use crate::disk::drive::double::Wrapping;
use crate::disk::drive::sanitize::Action;
use crate::disk::erase::EraseOptions;
use crate::disk::erase::Level;
use crate::disk::erase::Means;
use crate::disk::erase::Method;

/// Word 59: the feature set with all kinds.
const ALL_SANITIZE: u16 = 0b1111 << 12;
const OURS: [u8; 32] = [0; 32];

fn rig(change: impl FnOnce(&mut Ata)) -> (tempfile::TempDir, Disk, &'static Ata, EraseOptions) {
    let folder = tempfile::tempdir().unwrap();
    let mut disk = full_disk(folder.path(), "sda");
    disk.hctl = Some("0:0:0:0".into());
    disk.vendor = Some("ATA".into());
    let mut drive = Ata::new(&disk.path);
    change(&mut drive);
    let drive: &'static Ata = Box::leak(Box::new(drive));
    (folder, disk, drive, with_drive(drive))
}

fn method(change: impl FnOnce(&mut Ata)) -> (Method, Vec<String>) {
    let (_folder, disk, drive, options) = rig(change);
    let report = erase_one(&disk, &options).unwrap();
    assert!(!holds_data(&disk));
    let security = drive.security.lock().unwrap();
    assert_eq!(security.password, None, "no password is left");
    (report.disks[0].method, drive.medium.told())
}

fn error(change: impl FnOnce(&mut Ata)) -> (String, &'static Ata, bool) {
    let (_folder, disk, drive, options) = rig(change);
    let error = erase_one(&disk, &options).unwrap_err().to_string();
    (error, drive, holds_data(&disk))
}

const ZEROES: Method = Method::Overwritten {
    random: 0,
    zeroes: true,
};
const ENHANCED: Method = Method::Drive(Means::AtaSecurityErase { enhanced: true });
const NORMAL: Method = Method::Drive(Means::AtaSecurityErase { enhanced: false });

#[test]
fn every_kind_of_sanitize() {
    let kinds = [
        (13, Action::Crypto, Level::CryptographicErase, "crypto"),
        (15, Action::Block, Level::BlockErase, "block"),
    ];
    for (bit, action, level, name) in kinds {
        let (found, told) = method(|drive| drive.word59 = 1 << 12 | 1 << bit);
        assert_eq!(found, Method::Drive(Means::AtaSanitize(action)));
        assert_eq!(found.level(), level);
        assert_eq!(told, [format!("sanitize {name}")]);
    }
    // Overwriting by the drive comes after the security erase.
    let (found, told) = method(|drive| {
        drive.word59 = 1 << 12 | 1 << 14;
        drive.security_there = false;
    });
    assert_eq!(found, Method::Drive(Means::AtaSanitize(Action::Overwrite)));
    assert_eq!(found.level(), Level::MediaOverwrite);
    assert_eq!(told, ["sanitize overwrite"]);
}

#[test]
fn all_means_are_told_the_best_first() {
    let (_folder, disk, _, options) = rig(|drive| drive.word59 = ALL_SANITIZE);
    let report = erase_one(&disk, &options).unwrap();
    assert_eq!(
        report.disks[0].planned,
        [
            Means::AtaSanitize(Action::Crypto),
            Means::AtaSanitize(Action::Block),
            Means::AtaSecurityErase { enhanced: true },
            Means::AtaSecurityErase { enhanced: false },
            Means::AtaSanitize(Action::Overwrite),
        ]
    );
}

#[test]
fn security_erase_in_its_enhanced_way() {
    let (found, told) = method(|_| {});
    assert_eq!(found, ENHANCED);
    assert_eq!(found.level(), Level::UserDataErase);
    assert_eq!(told, ["set password", "erase enhanced"]);
}

#[test]
fn the_normal_way_where_there_is_no_other_or_it_fails() {
    let (found, told) = method(|drive| drive.enhanced = false);
    assert_eq!(found, NORMAL);
    assert_eq!(told, ["set password", "erase"]);
    let (found, told) = method(|drive| drive.erase_fails = (true, false));
    assert_eq!(found, NORMAL);
    assert_eq!(
        told,
        [
            "set password",
            "erase enhanced",
            "disable password",
            "set password",
            "erase"
        ]
    );
}

#[test]
fn a_frozen_drive_is_an_error_unless_told_or_sanitized() {
    let frozen = |drive: &mut Ata| drive.security.lock().unwrap().frozen = true;
    let (text, drive, left) = error(frozen);
    assert!(
        text.contains("security is frozen until its next power cycle"),
        "{text}"
    );
    assert!(left && drive.medium.told().is_empty());

    let (_folder, disk, _, mut options) = rig(frozen);
    options.overwrite_after_failure = true;
    assert_eq!(erase_one(&disk, &options).unwrap().disks[0].method, ZEROES);

    let (found, _) = method(|drive| {
        frozen(drive);
        drive.word59 = ALL_SANITIZE;
    });
    assert_eq!(found, Method::Drive(Means::AtaSanitize(Action::Crypto)));
}

#[test]
fn a_drive_locked_by_an_erase_that_lost_power_is_unlocked_and_erased() {
    let mut named = [0; 32];
    named[..4].copy_from_slice(b"NULL");
    for (password, unlocks) in [(OURS, 1), (named, 2)] {
        let (found, told) = method(|drive| {
            *drive.security.lock().unwrap() = Security {
                password: Some(password),
                locked: true,
                ..Security::default()
            };
        });
        assert_eq!(found, ENHANCED);
        let count = |what: &str| told.iter().filter(|told| *told == what).count();
        assert_eq!(count("unlock"), unlocks, "{told:?}");
        assert!(count("disable password") >= 1, "{told:?}");
    }
}

#[test]
fn a_password_of_somebody_else_is_never_overwritten() {
    let foreign = |locked| {
        move |drive: &mut Ata| {
            *drive.security.lock().unwrap() = Security {
                password: Some([7; 32]),
                locked,
                ..Security::default()
            };
        }
    };
    let (_folder, disk, drive, mut options) = rig(foreign(true));
    options.overwrite_after_failure = true;
    let text = erase_one(&disk, &options).unwrap_err().to_string();
    assert!(
        text.contains("locked with an ATA password that is not ours"),
        "{text}"
    );
    assert_eq!(drive.security.lock().unwrap().attempts, 2, "three are left");
    assert!(holds_data(&disk));

    // Set, but not locked: the drive takes writes, if that is wanted.
    let (text, _, _) = error(foreign(false));
    assert!(text.contains("not ours"), "{text}");
    let (_folder, disk, _, mut options) = rig(foreign(false));
    options.overwrite_after_failure = true;
    assert_eq!(erase_one(&disk, &options).unwrap().disks[0].method, ZEROES);
}

#[test]
fn no_password_is_tried_when_the_drive_has_closed() {
    let (text, drive, _) = error(|drive| {
        *drive.security.lock().unwrap() = Security {
            password: Some(OURS),
            locked: true,
            expired: true,
            ..Security::default()
        };
    });
    assert!(
        text.contains("takes no more passwords until its next power cycle"),
        "{text}"
    );
    assert!(drive.medium.told().is_empty());
}

#[test]
fn a_password_that_stays_after_the_erase_is_a_failure() {
    let (text, drive, _) = error(|drive| drive.keeps_password = true);
    assert!(
        text.contains("its password was still set afterwards"),
        "{text}"
    );
    assert_eq!(drive.security.lock().unwrap().password, None);
}

#[test]
fn an_erase_that_fails_leaves_no_password() {
    let (text, drive, left) = error(|drive| drive.erase_fails = (true, true));
    assert!(
        text.contains("ATA security erase: the drive answered SECURITY ERASE UNIT with status 0x51, error 0x04"),
        "{text}"
    );
    assert!(left);
    assert_eq!(drive.security.lock().unwrap().password, None);
}

#[test]
fn a_sanitize_from_before_is_waited_for_then_the_drive_is_erased() {
    // ATA does not tell which it was.
    let (found, told) = method(|drive| {
        drive.word59 = ALL_SANITIZE;
        drive.play = Mutex::new(Play::interrupted(vec![0x1000], false));
    });
    assert_eq!(found, Method::Drive(Means::AtaSanitize(Action::Crypto)));
    assert_eq!(told, ["sanitize crypto"]);
}

#[test]
fn a_sanitize_that_fails_is_cleared_and_followed() {
    let (_folder, disk, drive, options) = rig(|drive| {
        drive.word59 = 1 << 12 | 1 << 15;
        drive.play = Mutex::new(Play {
            progress: vec![1],
            fails: true,
            ..Play::default()
        });
    });
    let report = erase_one(&disk, &options).unwrap();
    assert_eq!(report.disks[0].method, ENHANCED);
    assert_eq!(
        drive.medium.told()[..2],
        ["sanitize block", "clear failure"]
    );
    assert!(report.disks[0].failed[0].1.contains("LBA 0x1"));
}

#[test]
fn frozen_sanitize_commands_leave_the_security_erase() {
    let freeze = |drive: &mut Ata| {
        drive.word59 = ALL_SANITIZE;
        drive.sanitize_frozen = true;
    };
    let (found, _) = method(freeze);
    assert_eq!(found, ENHANCED);
    let (text, _, _) = error(|drive| {
        freeze(drive);
        drive.security_there = false;
    });
    assert!(text.contains("sanitize commands are frozen"), "{text}");
}

#[test]
fn a_controller_that_drops_the_registers() {
    // Security erase needs none; of a sanitize nobody knows how it ends.
    let (found, _) = method(|drive| drive.wrapping = Wrapping::Nothing);
    assert_eq!(found, ENHANCED);
    let (_folder, disk, _, options) = rig(|drive| {
        drive.wrapping = Wrapping::Nothing;
        drive.word59 = 1 << 12 | 1 << 13;
    });
    let report = erase_one(&disk, &options).unwrap();
    assert_eq!(report.disks[0].method, ENHANCED);
    assert!(
        report.disks[0].failed[0]
            .1
            .contains("without the drive's registers")
    );
}

#[test]
fn registers_that_do_not_fit_are_no_success() {
    let (_folder, disk, drive, options) = rig(|drive| {
        drive.wrapping = Wrapping::Fixed;
        drive.word59 = 1 << 12 | 1 << 13;
    });
    // The upper half of the count says whether a sanitize has ended.
    let report = erase_one(&disk, &options).unwrap();
    assert_eq!(report.disks[0].method, ENHANCED);
    assert!(
        report.disks[0].failed[0]
            .1
            .contains("without the drive's registers")
    );
    assert_eq!(drive.medium.told()[0], "sanitize crypto");
    // A refusal is one in this form too.
    let (text, _, _) = error(|drive| {
        drive.wrapping = Wrapping::Fixed;
        drive.erase_fails = (true, true);
    });
    assert!(text.contains("status 0x51, error 0x04"), "{text}");
}

#[test]
fn a_drive_that_cannot_be_asked_is_overwritten() {
    let (found, _) = method(|drive| drive.deaf = true);
    assert_eq!(found, ZEROES);
    let (found, _) = method(|drive| drive.bad_checksum = true);
    assert_eq!(found, ZEROES);
    let (found, told) = method(|drive| drive.security_there = false);
    assert_eq!(found, ZEROES);
    assert!(told.is_empty());
}

#[test]
fn switched_off_means_are_not_used() {
    let (_folder, disk, drive, mut options) = rig(|drive| drive.word59 = ALL_SANITIZE);
    options.ata = false;
    assert_eq!(erase_one(&disk, &options).unwrap().disks[0].method, ZEROES);
    assert!(drive.medium.told().is_empty());
}

#[test]
fn a_drive_that_lies_is_found_out() {
    let (text, _, left) = error(|drive| drive.medium.lies = true);
    assert!(text.contains("still reads back"), "{text}");
    assert!(left);
}

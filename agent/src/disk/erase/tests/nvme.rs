//! NVMe drives of every kind.

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use serde_json::json;
use wrought_wire::progress::Progress;

use super::erase_one;
use super::full_disk;
use super::holds_data;
use super::with_drive;
use crate::disk::Disk;
use crate::disk::DiskRules;
use crate::disk::drive::double::Nvme;
use crate::disk::drive::double::Play;
use crate::disk::drive::nvme::FormatErase;
use crate::disk::drive::sanitize::Action;
use crate::disk::erase::EraseOptions;
use crate::disk::erase::Level;
use crate::disk::erase::Means;
use crate::disk::erase::Method;
use crate::disk::erase::erase_all;

const SANITIZE: u8 = 0x84;
const FORMAT: u8 = 0x80;

/// A disk, the drive behind it, and options that lead there.
fn rig(change: impl FnOnce(&mut Nvme)) -> (tempfile::TempDir, Disk, &'static Nvme, EraseOptions) {
    let folder = tempfile::tempdir().unwrap();
    let disk = full_disk(folder.path(), "nvme0n1");
    let mut drive = Nvme::new(&disk.path);
    change(&mut drive);
    let drive: &'static Nvme = Box::leak(Box::new(drive));
    (folder, disk, drive, with_drive(drive))
}

/// The method that is used, and that the data is gone with it.
fn method(change: impl FnOnce(&mut Nvme)) -> (Method, Vec<String>) {
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
fn the_best_means_first_and_all_of_them_told() {
    let (_folder, disk, drive, options) = rig(|_| {});
    let report = erase_one(&disk, &options).unwrap();
    let crypto = Means::NvmeSanitize(Action::Crypto);
    assert_eq!(report.disks[0].method, Method::Drive(crypto));
    assert_eq!(
        report.disks[0].planned,
        [
            crypto,
            Means::NvmeSanitize(Action::Block),
            Means::NvmeFormat(FormatErase::Crypto),
            Means::NvmeFormat(FormatErase::UserData),
            Means::NvmeSanitize(Action::Overwrite),
        ]
    );
    assert_eq!(drive.medium.told(), ["sanitize 4"]);
    assert!(!holds_data(&disk));
    let value = report.to_value();
    assert_eq!(value[0]["method"], "NVMe sanitize, cryptographic erase");
    assert_eq!(value[0]["level"], "crypto-erase");
    assert_eq!(value[0]["drive_means"][3], "NVMe format, user data erase");
    assert_eq!(value[0]["failed"], json!([]));
}

#[test]
fn block_erase_where_there_is_no_encryption() {
    let (found, told) = method(|drive| drive.sanicap = 0b010);
    assert_eq!(found, Method::Drive(Means::NvmeSanitize(Action::Block)));
    assert_eq!(found.level(), Level::BlockErase);
    assert_eq!(told, ["sanitize 2"]);
}

#[test]
fn without_sanitize_the_key_is_changed_by_a_format() {
    let (found, told) = method(|drive| drive.sanicap = 0);
    assert_eq!(found, Method::Drive(Means::NvmeFormat(FormatErase::Crypto)));
    assert_eq!(found.level(), Level::CryptographicErase);
    assert_eq!(told, ["format ses 2"]);
}

#[test]
fn a_drive_without_crypto_erase_is_never_asked_for_it() {
    let (found, told) = method(|drive| {
        drive.sanicap = 0;
        drive.fna = 0;
    });
    let user_data = Method::Drive(Means::NvmeFormat(FormatErase::UserData));
    assert_eq!(found, user_data);
    assert_eq!(found.level(), Level::UserDataErase);
    assert_eq!(told, ["format ses 1"]);
}

#[test]
fn overwriting_all_flash_is_the_last_of_its_own_means() {
    let (found, told) = method(|drive| {
        drive.sanicap = 0b100;
        drive.format = false;
    });
    assert_eq!(found, Method::Drive(Means::NvmeSanitize(Action::Overwrite)));
    assert_eq!(found.level(), Level::MediaOverwrite);
    assert_eq!(told, ["sanitize 3"]);
}

#[test]
fn a_drive_with_nothing_is_overwritten() {
    let (found, told) = method(|drive| {
        drive.sanicap = 0;
        drive.format = false;
    });
    assert_eq!(found, ZEROES);
    assert!(told.is_empty());
}

#[test]
fn what_is_refused_is_told_and_the_next_means_follows() {
    let (_folder, disk, drive, options) = rig(|drive| {
        // Status 2: invalid field in command.
        drive.refuses = vec![(SANITIZE, 0b100, 2), (SANITIZE, 0b010, 2)];
    });
    let report = erase_one(&disk, &options).unwrap();
    assert_eq!(
        report.disks[0].method,
        Method::Drive(Means::NvmeFormat(FormatErase::Crypto))
    );
    let failed = &report.disks[0].failed;
    assert_eq!(failed.len(), 2);
    assert_eq!(failed[0].0, Means::NvmeSanitize(Action::Crypto));
    assert!(
        failed[0].1.contains("status 0x002 (invalid field"),
        "{failed:?}"
    );
    let value = report.to_value();
    assert_eq!(
        value[0]["failed"][1]["method"],
        "NVMe sanitize, block erase"
    );
    assert_eq!(drive.medium.told().last().unwrap(), "format ses 2");
}

#[test]
fn crypto_format_falls_back_to_user_data() {
    let (_folder, disk, _, options) = rig(|drive| {
        drive.sanicap = 0;
        // SES 2 in bits 11:9.
        drive.refuses = vec![(FORMAT, 0b010 << 9, 1)];
    });
    let report = erase_one(&disk, &options).unwrap();
    let user_data = Means::NvmeFormat(FormatErase::UserData);
    assert_eq!(report.disks[0].method, Method::Drive(user_data));
    assert!(
        report.disks[0].failed[0]
            .1
            .contains("invalid command opcode")
    );
}

#[test]
fn a_sanitize_that_fails_is_left_and_the_next_means_follows() {
    let (_folder, disk, drive, options) = rig(|drive| {
        drive.sanicap = 0b010;
        drive.play = Mutex::new(Play {
            progress: vec![100, 200],
            fails: true,
            ..Play::default()
        });
    });
    let report = erase_one(&disk, &options).unwrap();
    assert_eq!(
        report.disks[0].method,
        Method::Drive(Means::NvmeFormat(FormatErase::Crypto))
    );
    assert!(report.disks[0].failed[0].1.contains("status log says so"));
    assert_eq!(
        drive.medium.told(),
        ["sanitize 2", "sanitize 1", "format ses 2"]
    );
}

#[test]
fn all_own_means_fail_and_nothing_is_called_a_success() {
    let all = |drive: &mut Nvme| drive.refuses = vec![(SANITIZE, 0, 6), (FORMAT, 0, 6)];
    let (_folder, disk, _, mut options) = rig(all);
    let error = erase_one(&disk, &options).unwrap_err().to_string();
    assert!(error.contains("nvme0n1 was not erased: "), "{error}");
    assert!(error.contains("NVMe sanitize, overwrite: "), "{error}");
    assert!(
        error.contains("agent_continue_if_secure_erase_failed"),
        "{error}"
    );
    assert!(holds_data(&disk));
    options.overwrite_after_failure = true;
    let report = erase_one(&disk, &options).unwrap();
    assert_eq!(report.disks[0].method, ZEROES);
    assert_eq!(report.disks[0].failed.len(), 5);
    assert!(!holds_data(&disk));
}

#[test]
fn a_drive_that_lies_is_found_out() {
    let (_folder, disk, _, options) = rig(|drive| drive.medium.lies = true);
    let error = erase_one(&disk, &options).unwrap_err().to_string();
    assert!(
        error.contains("NVMe sanitize, cryptographic erase: ")
            && error.contains("still reads back at offset 0 what was there before"),
        "{error}"
    );
}

#[test]
fn a_sanitize_from_before_a_power_loss_is_waited_for_and_counts() {
    let (_folder, disk, drive, options) = rig(|drive| {
        drive.play = Mutex::new(Play::interrupted(vec![0x4000, 0x8000], false));
        drive.action = Mutex::new(0b010);
    });
    let report = erase_one(&disk, &options).unwrap();
    assert_eq!(
        report.disks[0].method,
        Method::Drive(Means::NvmeSanitize(Action::Block))
    );
    assert!(drive.medium.told().is_empty(), "nothing was started anew");
    assert!(!holds_data(&disk));
}

#[test]
fn one_from_before_that_fails_is_followed_by_the_others() {
    let (_folder, disk, drive, options) = rig(|drive| {
        drive.play = Mutex::new(Play::interrupted(vec![0x4000], true));
        drive.action = Mutex::new(0b100);
        drive.sanicap = 0b100;
        drive.refuses = vec![(SANITIZE, 0b100, 2), (SANITIZE, 0b011, 2)];
    });
    let report = erase_one(&disk, &options).unwrap();
    assert_eq!(
        report.disks[0].method,
        Method::Drive(Means::NvmeFormat(FormatErase::Crypto))
    );
    assert_eq!(drive.medium.told()[0], "sanitize 1", "the failure is left");
}

#[test]
fn other_namespaces_are_not_erased_along() {
    let shared = |drive: &mut Nvme| drive.namespaces = vec![1, 2];
    let (found, _) = method(shared);
    assert_eq!(found, Method::Drive(Means::NvmeFormat(FormatErase::Crypto)));
    for fna in [0b101, 0b110] {
        let (found, told) = method(|drive| {
            shared(drive);
            drive.fna = fna;
        });
        assert_eq!(found, ZEROES);
        assert!(told.is_empty());
    }
    // An old drive without the list says how many there can be.
    let (found, _) = method(|drive| drive.namespaces = Vec::new());
    assert_eq!(found, Method::Drive(Means::NvmeSanitize(Action::Crypto)));
}

#[test]
fn a_drive_that_does_not_answer_is_an_error_unless_told() {
    let (_folder, disk, _, mut options) = rig(|drive| drive.dead = true);
    let error = erase_one(&disk, &options).unwrap_err().to_string();
    assert!(
        error.contains("the command Identify could not be sent: Input/output error"),
        "{error}"
    );
    options.overwrite_after_failure = true;
    assert_eq!(erase_one(&disk, &options).unwrap().disks[0].method, ZEROES);
}

#[test]
fn a_real_ioctl_on_something_else_is_such_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let disk = full_disk(folder.path(), "nvme0n1");
    let error = erase_one(&disk, &EraseOptions::default()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("Inappropriate ioctl for device"), "{text}");
}

#[test]
fn switched_off_means_are_not_used() {
    let (_folder, disk, drive, mut options) = rig(|_| {});
    options.nvme = false;
    assert_eq!(erase_one(&disk, &options).unwrap().disks[0].method, ZEROES);
    assert!(drive.medium.told().is_empty());
}

#[test]
fn a_status_of_no_standard_is_no_success() {
    let (_folder, disk, _, options) = rig(|drive| {
        drive.sanicap = 0b001;
        drive.format = false;
        drive.odd_status = Some(0b111);
    });
    let error = erase_one(&disk, &options).unwrap_err().to_string();
    assert!(
        error.contains("a status that the standard does not know"),
        "{error}"
    );
    // Nor is one that knows of no sanitize after one was started.
    let (_folder, disk, _, options) = rig(|drive| {
        drive.sanicap = 0b001;
        drive.format = false;
        drive.odd_status = Some(0b000);
    });
    let error = erase_one(&disk, &options).unwrap_err().to_string();
    assert!(error.contains("knows of no such operation"), "{error}");
}

#[test]
fn a_forced_deallocation_is_a_success() {
    let (found, _) = method(|drive| {
        drive.sanicap = 0b001;
        drive.format = false;
        drive.odd_status = Some(0b100);
    });
    assert_eq!(found, Method::Drive(Means::NvmeSanitize(Action::Crypto)));
}

#[test]
fn a_stop_leaves_the_drive_to_itself() {
    let (_folder, disk, _, options) = rig(|drive| {
        drive.play = Mutex::new(Play::interrupted(vec![1; 100], false));
        drive.action = Mutex::new(0b100);
    });
    options.cancel.store(true, Ordering::Relaxed);
    let error = erase_one(&disk, &options).unwrap_err().to_string();
    assert!(error.contains("the agent is shutting down"), "{error}");
}

#[test]
fn a_drive_that_does_not_move_is_given_up() {
    let (_folder, disk, _, options) = rig(|drive| {
        drive.sanicap = 0b001;
        drive.format = false;
        drive.play = Mutex::new(Play {
            progress: vec![7; 30_000],
            ..Play::default()
        });
    });
    let error = erase_one(&disk, &options).unwrap_err().to_string();
    assert!(error.contains("no progress for 6 hours"), "{error}");
}

#[test]
fn progress_goes_from_nothing_to_all_and_never_back() {
    let (_folder, disk, _, options) = rig(|drive| {
        drive.play = Mutex::new(Play {
            progress: vec![0x4000, 0x8000, 0xc000],
            ..Play::default()
        });
        // The first fails at its start; the next one begins anew.
        drive.refuses = vec![(SANITIZE, 0b100, 2)];
    });
    let seen = Mutex::new(Vec::new());
    let note = |progress: Progress| seen.lock().unwrap().push(progress.percent.unwrap());
    let disks = [disk];
    erase_all(&disks, &DiskRules::default(), &options, &note).unwrap();
    let seen = seen.into_inner().unwrap();
    assert_eq!(seen, [0, 25, 50, 75, 100]);
}

//! Disks that sgdisk and mkfs.vfat made, variables in a folder.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use super::BootError;
use super::Installed;
use super::check_bios;
use super::install_uefi;
use crate::boot::efivars::EfiVars;
use crate::boot::entries;
use crate::boot::entries::Position;
use crate::boot::load_option::LoadOption;
use crate::disk::Access;
use crate::disk::BlockFile;

const MIB: u64 = 1 << 20;

fn run(tool: &str, arguments: &[&str]) {
    let output = Command::new(tool).args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "{tool}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A GPT disk with a Linux partition and, from 33 MiB on, one of `kind`.
fn disk(folder: &Path, kind: &str, loader: bool) -> PathBuf {
    let path = folder.join("disk");
    File::create(&path).unwrap().set_len(128 * MIB).unwrap();
    let text = path.to_str().unwrap();
    run(
        "/usr/sbin/sgdisk",
        &[
            "-n",
            "1:2048:+32M",
            "-n",
            "15:67584:+16M",
            "-t",
            &format!("15:{kind}"),
            "-u",
            "15:12345678-9abc-def0-1122-334455667788",
            text,
        ],
    );
    if loader {
        let esp = folder.join("esp");
        File::create(&esp).unwrap().set_len(16 * MIB).unwrap();
        let esp_text = esp.to_str().unwrap();
        run("/usr/sbin/mkfs.vfat", &[esp_text]);
        run("mmd", &["-i", esp_text, "::EFI", "::EFI/BOOT"]);
        let file = folder.join("loader");
        std::fs::write(&file, b"MZ").unwrap();
        run(
            "mcopy",
            &[
                "-i",
                esp_text,
                file.to_str().unwrap(),
                "::EFI/BOOT/BOOTX64.EFI",
            ],
        );
        let bytes = std::fs::read(&esp).unwrap();
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .write_all_at(&bytes, 33 * MIB)
            .unwrap();
    }
    path
}

#[test]
fn an_entry_for_the_loader() {
    let folder = tempfile::tempdir().unwrap();
    let path = disk(folder.path(), "ef00", true);
    let firmware = tempfile::tempdir().unwrap();
    let vars = EfiVars::new(firmware.path());
    vars.write("BootOrder", &[3, 0]).unwrap();
    let file = BlockFile::open(&path, Access::Read).unwrap();
    let done = install_uefi(&file, Some(&vars), None, Position::First).unwrap();
    assert_eq!(
        done.to_string(),
        "boot entries set: Boot0000 \"wrought\" \\EFI\\BOOT\\BOOTX64.EFI"
    );
    assert_eq!(entries::order(&vars).unwrap(), [0, 3]);
    let option = LoadOption::decode(&vars.read("Boot0000").unwrap().unwrap()).unwrap();
    // Partition 15, from sector 67584 (0x10800), 32768 (0x8000) sectors.
    let start = [
        4, 1, 42, 0, 15, 0, 0, 0, 0x00, 0x08, 1, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(option.device_paths[..24], start);
    assert_eq!(option.device_paths[24..28], [0x78, 0x56, 0x34, 0x12]);

    // The same again changes nothing.
    install_uefi(&file, Some(&vars), None, Position::First).unwrap();
    assert_eq!(entries::order(&vars).unwrap(), [0, 3]);
    assert!(matches!(
        install_uefi(&file, None, None, Position::First),
        Ok(Installed::Found(_))
    ));
}

#[test]
fn no_system_partition_names_the_partitions() {
    let folder = tempfile::tempdir().unwrap();
    let path = disk(folder.path(), "8300", false);
    let file = BlockFile::open(&path, Access::Read).unwrap();
    let error = install_uefi(&file, None, None, Position::First).unwrap_err();
    assert!(matches!(error, BootError::NoEsp { .. }));
    let text = error.to_string();
    assert!(
        text.contains("15 (type 0fc63daf-8483-4772-8e79-3d69d8477de4, 16 MiB"),
        "{text}"
    );
}

#[test]
fn bios_needs_code_and_something_to_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = disk(folder.path(), "ef02", false);
    let file = BlockFile::open(&path, Access::Exclusive).unwrap();
    let text = check_bios(&file).unwrap_err().to_string();
    assert!(text.contains("no boot code"), "{text}");
    file.write_at(&[0xeb, 0x63], 0).unwrap();
    assert_eq!(check_bios(&file).unwrap(), Installed::BiosReady);

    let path = disk(folder.path(), "8300", false);
    let file = BlockFile::open(&path, Access::Exclusive).unwrap();
    file.write_at(&[0xeb, 0x63], 0).unwrap();
    let text = check_bios(&file).unwrap_err().to_string();
    assert!(text.contains("neither an active partition nor"), "{text}");

    file.zero(0, MIB).unwrap();
    file.zero(127 * MIB, MIB).unwrap();
    assert!(matches!(check_bios(&file), Err(BootError::NoTable(_))));
}

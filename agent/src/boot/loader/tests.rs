//! Loaders in file systems that mkfs.vfat and mtools made.

use std::fs::File;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use super::LoaderError;
use super::find;
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

/// A disk with a FAT of the given kind from 1 MiB on, holding the files.
fn esp(folder: &Path, fat: &str, mib: u64, files: &[(&str, &[u8])]) -> PathBuf {
    let volume = folder.join("esp");
    File::create(&volume).unwrap().set_len(mib * MIB).unwrap();
    let volume_text = volume.to_str().unwrap();
    run("/usr/sbin/mkfs.vfat", &["-F", fat, volume_text]);
    let mut made: Vec<String> = Vec::new();
    for (path, content) in files {
        let mut parent = String::new();
        let parts: Vec<&str> = path.split('/').collect();
        for part in &parts[..parts.len() - 1] {
            parent = format!("{parent}/{part}");
            if !made.contains(&parent) {
                run("mmd", &["-i", volume_text, &format!("::{parent}")]);
                made.push(parent.clone());
            }
        }
        let file = folder.join("content");
        std::fs::write(&file, content).unwrap();
        run(
            "mcopy",
            &[
                "-i",
                volume_text,
                file.to_str().unwrap(),
                &format!("::{path}"),
            ],
        );
    }
    let disk = folder.join("disk");
    let mut bytes = vec![0; usize::try_from(MIB).unwrap()];
    bytes.extend(std::fs::read(&volume).unwrap());
    std::fs::write(&disk, bytes).unwrap();
    disk
}

fn csv(text: &str) -> Vec<u8> {
    [0xff, 0xfe]
        .into_iter()
        .chain(text.encode_utf16().flat_map(u16::to_le_bytes))
        .collect()
}

fn search(
    fat: &str,
    mib: u64,
    files: &[(&str, &[u8])],
) -> Result<Vec<(String, String)>, LoaderError> {
    let folder = tempfile::tempdir().unwrap();
    let path = esp(folder.path(), fat, mib, files);
    let disk = BlockFile::open(&path, Access::Read).unwrap();
    let found = find(&disk, MIB, mib * MIB, "x64")?;
    Ok(found
        .into_iter()
        .map(|loader| (loader.path, loader.label))
        .collect())
}

#[test]
fn the_csv_file_decides() {
    let listed = csv("shimx64.efi,debian,,This is the boot entry for debian\r\n");
    let files: &[(&str, &[u8])] = &[
        ("EFI/BOOT/BOOTX64.EFI", b"MZ"),
        ("EFI/debian/BOOTX64.CSV", &listed),
        ("EFI/debian/grubx64.efi", b"MZ"),
        ("EFI/debian/shimx64.efi", b"MZ"),
    ];
    for (fat, mib) in [("12", 2), ("16", 16), ("32", 64)] {
        let found = search(fat, mib, files).unwrap();
        let expected = ("\\EFI\\debian\\shimx64.efi".to_owned(), "debian".to_owned());
        assert_eq!(found, [expected], "FAT{fat}");
    }
}

#[test]
fn shim_before_the_removable_name_before_grub() {
    let files: &[(&str, &[u8])] = &[
        ("EFI/BOOT/BOOTX64.EFI", b"MZ"),
        ("EFI/fedora/grubx64.efi", b"MZ"),
        ("EFI/fedora/shimx64.efi", b"MZ"),
    ];
    assert_eq!(
        search("16", 16, files).unwrap()[0].0,
        "\\EFI\\fedora\\shimx64.efi"
    );
    assert_eq!(
        search("16", 16, &files[..2]).unwrap()[0].0,
        "\\EFI\\BOOT\\BOOTX64.EFI"
    );
    assert_eq!(
        search("16", 16, &files[1..2]).unwrap()[0].0,
        "\\EFI\\fedora\\grubx64.efi"
    );
}

#[test]
fn a_csv_file_that_names_nothing_real_is_passed_over() {
    let listed = csv("gone.efi,x,,\n");
    let files: &[(&str, &[u8])] = &[
        ("EFI/BOOT/BOOTX64.EFI", b"MZ"),
        ("EFI/x/BOOTX64.CSV", &listed),
    ];
    assert_eq!(
        search("16", 16, files).unwrap()[0].0,
        "\\EFI\\BOOT\\BOOTX64.EFI"
    );
}

#[test]
fn nothing_to_start_is_an_error_that_lists_the_files() {
    let files: &[(&str, &[u8])] = &[("EFI/BOOT/BOOTX64.EFI", b"#!"), ("EFI/x/a.txt", b"a")];
    let text = search("16", 16, files).unwrap_err().to_string();
    assert!(text.contains("no boot loader for x64"), "{text}");
    assert!(text.contains("EFI/BOOT/BOOTX64.EFI, EFI/x/a.txt"), "{text}");
}

#[test]
fn no_file_system() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    File::create(&path).unwrap().set_len(4 * MIB).unwrap();
    let disk = BlockFile::open(&path, Access::Read).unwrap();
    assert!(matches!(
        find(&disk, MIB, MIB, "x64"),
        Err(LoaderError::Read(_))
    ));
}

//! Real block devices: loop devices, where this machine lets us make them.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod support;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use support::MIB;
use support::disk;
use support::ends_are_zero;
use support::put_table;
use support::request;
use wrought_image::DiskState;
use wrought_image::ErrorKind;
use wrought_image::write;

/// A loop device over a file full of ones, detached when dropped.
struct Loop {
    device: PathBuf,
    file: PathBuf,
}

impl Loop {
    fn new(dir: &Path, size: usize, options: &[&str]) -> Option<Self> {
        let file = dir.join("backing");
        fs::write(&file, vec![0xff; size]).unwrap();
        let output = Command::new("losetup")
            .args(["-f", "--show"])
            .args(options)
            .arg(&file)
            .output()
            .ok()
            .filter(|output| output.status.success())?;
        let device = String::from_utf8(output.stdout).unwrap().trim().into();
        Some(Self { device, file })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.device).status();
    }
}

#[test]
fn an_image_arrives_on_a_block_device() {
    let dir = tempfile::tempdir().unwrap();
    let Some(target) = Loop::new(dir.path(), 24 * MIB, &[]) else {
        return;
    };
    let image = disk(9 * MIB + 512, 1);
    let source = dir.path().join("image");
    fs::write(&source, &image).unwrap();
    let mut request = request(source.to_str().unwrap(), &target.device, &image);
    request.verify_after_write = true;
    let report = write(&request).unwrap();
    assert_eq!(report.disk_bytes, 24 * MIB as u64);
    let written = fs::read(&target.file).unwrap();
    assert!(written[MIB..image.len()] == image[MIB..]);
    let verdict = Command::new("sgdisk")
        .arg("-v")
        .arg(&target.device)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&verdict.stdout).into_owned();
    assert!(text.contains("No problems found"), "{text}");
}

#[test]
fn sector_sizes_must_match() {
    let dir = tempfile::tempdir().unwrap();
    let Some(target) = Loop::new(dir.path(), 24 * MIB, &["--sector-size", "4096"]) else {
        return;
    };
    let mut image = disk(9 * MIB, 2);
    let source = dir.path().join("image");
    fs::write(&source, &image).unwrap();
    let error = write(&request(source.to_str().unwrap(), &target.device, &image)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Format);
    assert!(
        error
            .to_string()
            .contains("sectors of 512 bytes but the disk has sectors of 4096")
    );
    assert!(ends_are_zero(&target.file));
    let qcow2 = dir.path().join("image.qcow2");
    let (raw, name) = (source.to_str().unwrap(), qcow2.to_str().unwrap());
    if support::qemu_img(&["convert", "-O", "qcow2", raw, name]) {
        let bytes = fs::read(&qcow2).unwrap();
        let error = write(&request(name, &target.device, &bytes)).unwrap_err();
        assert!(
            error.to_string().contains("the disk has sectors of 4096"),
            "{error}"
        );
        assert!(ends_are_zero(&target.file));
    }

    image[..64 << 10].fill(0);
    put_table(&mut image, 4096, 2);
    fs::write(&source, &image).unwrap();
    // Small clusters, so that parts of a sector are written.
    let qcow2 = dir.path().join("image.qcow2");
    let (raw, name) = (source.to_str().unwrap(), qcow2.to_str().unwrap());
    let convert = [
        "convert",
        "-O",
        "qcow2",
        "-o",
        "cluster_size=512",
        raw,
        name,
    ];
    let mut sources = vec![source.clone()];
    if support::qemu_img(&convert) {
        sources.push(qcow2);
    }
    for source in sources {
        fs::write(&target.file, vec![0xff; 24 * MIB]).unwrap();
        let bytes = fs::read(&source).unwrap();
        let mut request = request(source.to_str().unwrap(), &target.device, &bytes);
        request.verify_after_write = true;
        let report = write(&request).unwrap();
        assert_eq!(
            (report.sector_size, report.table.partitions.len()),
            (4096, 1)
        );
        let written = fs::read(&target.file).unwrap();
        assert!(written[MIB..9 * MIB - (64 << 10)] == image[MIB..9 * MIB - (64 << 10)]);
    }
}

#[test]
fn a_disk_in_use_or_read_only_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let image = disk(3 * MIB, 3);
    let source = dir.path().join("image");
    fs::write(&source, &image).unwrap();
    let refuse = |target: &Loop, word: &str| {
        let before = fs::read(&target.file).unwrap();
        let error = write(&request(source.to_str().unwrap(), &target.device, &image)).unwrap_err();
        assert_eq!(
            (error.kind(), error.disk()),
            (ErrorKind::Target, DiskState::Untouched)
        );
        assert!(error.to_string().contains(word), "{}", error.chain());
        assert!(fs::read(&target.file).unwrap() == before);
    };
    let Some(target) = Loop::new(dir.path(), 8 * MIB, &["-r"]) else {
        return;
    };
    refuse(&target, "is read-only");
    drop(target);

    let Some(target) = Loop::new(dir.path(), 8 * MIB, &[]) else {
        return;
    };
    let made = Command::new("mkfs.ext4")
        .args(["-q", "-F"])
        .arg(&target.device)
        .status();
    let place = dir.path().join("mounted here");
    fs::create_dir(&place).unwrap();
    let mounted = Command::new("mount")
        .arg(&target.device)
        .arg(&place)
        .status();
    if !(made.is_ok_and(|status| status.success()) && mounted.is_ok_and(|s| s.success())) {
        return;
    }
    refuse(&target, "is mounted on");
    assert!(
        Command::new("umount")
            .arg(&place)
            .status()
            .unwrap()
            .success()
    );
    let holder = {
        use std::os::unix::fs::OpenOptionsExt;
        let mut options = fs::OpenOptions::new();
        options
            .read(true)
            .custom_flags(libc::O_EXCL)
            .open(&target.device)
            .unwrap()
    };
    refuse(&target, "is claimed by another program");
    drop(holder);
}

#[test]
fn every_path_to_a_device_leads_there() {
    let dir = tempfile::tempdir().unwrap();
    let Some(target) = Loop::new(dir.path(), 12 * MIB, &[]) else {
        return;
    };
    let image = disk(5 * MIB, 4);
    let source = dir.path().join("image");
    fs::write(&source, &image).unwrap();
    let source = source.to_str().unwrap();

    // As udev makes them: a link, relative, with characters of its own.
    let by_id = dir.path().join("by id");
    fs::create_dir(&by_id).unwrap();
    let link = by_id.join("ata-A DISK_1:2-3");
    std::os::unix::fs::symlink(&target.device, &link).unwrap();
    let mut paths = vec![link];
    // A node of another name, where this user may make one.
    let node = dir.path().join("a disk with blanks");
    let number = fs::metadata(&target.device).unwrap().rdev();
    let (major, minor) = (nix::sys::stat::major(number), nix::sys::stat::minor(number));
    let made = Command::new("mknod")
        .arg(&node)
        .args(["b", &major.to_string(), &minor.to_string()])
        .status();
    if made.is_ok_and(|status| status.success()) {
        paths.push(node);
    }
    for path in paths {
        fs::write(&target.file, vec![0xff; 12 * MIB]).unwrap();
        write(&request(source, &path, &image)).unwrap();
        let written = fs::read(&target.file).unwrap();
        assert!(written[MIB..image.len() - MIB] == image[MIB..image.len() - MIB]);
    }

    // The file behind the device is in use, by every name that it has.
    let linked = dir.path().join("linked");
    fs::hard_link(&target.file, &linked).unwrap();
    let before = fs::read(&target.file).unwrap();
    for path in [&target.file, &linked] {
        let error = write(&request(source, path, &image)).unwrap_err();
        assert_eq!(
            (error.kind(), error.disk()),
            (ErrorKind::Target, DiskState::Untouched)
        );
        let name = target.device.file_name().unwrap().to_str().unwrap();
        assert!(error.to_string().contains(name), "{}", error.chain());
    }
    assert!(fs::read(&target.file).unwrap() == before);
}

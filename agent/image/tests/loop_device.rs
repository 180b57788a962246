//! Real block devices: loop devices, where this machine lets us make them.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod support;

use std::fs;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use support::MIB;
use support::disk;
use support::ends_are_zero;
use support::put_table;
use support::request;
use wrought_formats::gpt;
use wrought_image::DiskState;
use wrought_image::ErrorKind;
use wrought_image::Layout;
use wrought_image::ProgressFn;
use wrought_image::Stage;
use wrought_image::TableKind;
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
        Self::over(file, options)
    }

    fn over(file: PathBuf, options: &[&str]) -> Option<Self> {
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

/// A disk full of ones with one partition, as the kernel sees it, and where
/// that lies.
fn partitioned(dir: &Path) -> Option<(Loop, PathBuf, Range<usize>)> {
    let file = dir.join("backing");
    let mut bytes = vec![0xff; 10 * MIB];
    let sectors = bytes.len() as u64 / 512;
    let mut table = gpt::Gpt::new(512, sectors, uuid::Uuid::from_u128(1)).unwrap();
    let new = gpt::NewPartition {
        kind: gpt::TYPE_LINUX,
        guid: uuid::Uuid::from_u128(2),
        name: "one",
        bytes: 6 * MIB as u64,
        align: MIB as u64,
    };
    table.add_at_end(&new).unwrap();
    for patch in table.encode(None) {
        let at = patch.offset as usize;
        bytes[at..at + patch.bytes.len()].copy_from_slice(&patch.bytes);
    }
    fs::write(&file, bytes).unwrap();
    let place = table.partitions().remove(0);
    let place = place.first_lba as usize * 512..(place.last_lba as usize + 1) * 512;
    let target = Loop::over(file, &["-P"])?;
    let node = PathBuf::from(format!("{}p1", target.device.display()));
    if !node.exists() {
        // A kernel that reads no GPT is told.
        let (start, len) = (place.start / 512, place.len() / 512);
        let _ = Command::new("addpart")
            .arg(&target.device)
            .args(["1", &start.to_string(), &len.to_string()])
            .status();
    }
    node.exists().then_some((target, node, place))
}

/// The kernel would go on with the old table.
#[test]
fn a_disk_with_a_partition_held_open_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let Some((target, node, _)) = partitioned(dir.path()) else {
        return;
    };
    let before = fs::read(&target.file).unwrap();
    let image = disk(5 * MIB, 12);
    let source = dir.path().join("image");
    fs::write(&source, &image).unwrap();
    let request = request(source.to_str().unwrap(), &target.device, &image);
    let held = File::open(&node).unwrap();
    let error = write(&request).unwrap_err();
    assert_eq!(
        (error.kind(), error.disk()),
        (ErrorKind::Target, DiskState::Untouched)
    );
    assert!(error.to_string().contains("holds a partition"), "{error}");
    assert!(fs::read(&target.file).unwrap() == before);
    drop(held);
    write(&request).unwrap();
}

/// A filesystem by its signature, full of other bytes.
fn filesystem(size: usize) -> Vec<u8> {
    let mut bytes = disk(size, 5);
    bytes[..MIB].fill(0);
    bytes[MIB / 2..MIB].fill(7);
    bytes[0x438..0x43a].copy_from_slice(b"\x53\xef");
    bytes[size - MIB..].fill(9);
    bytes
}

/// The image as raw and as several kinds of qcow2.
fn kinds(dir: &Path, name: &str, image: &[u8]) -> Vec<PathBuf> {
    let raw = dir.join(format!("{name}.raw"));
    fs::write(&raw, image).unwrap();
    let mut kinds = vec![raw.clone()];
    for (number, (flag, options)) in [
        ("-q", "cluster_size=65536"),
        ("-c", "cluster_size=65536"),
        ("-c", "compression_type=zstd"),
        ("-q", "cluster_size=512"),
    ]
    .into_iter()
    .enumerate()
    {
        let qcow2 = dir.join(format!("{name}.{number}.qcow2"));
        let (from, to) = (raw.to_str().unwrap(), qcow2.to_str().unwrap());
        if support::qemu_img(&["convert", flag, "-O", "qcow2", "-o", options, from, to]) {
            kinds.push(qcow2);
        }
    }
    kinds
}

#[test]
fn a_partition_takes_a_filesystem_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let Some((target, node, place)) = partitioned(dir.path()) else {
        return;
    };
    let before = fs::read(&target.file).unwrap();
    let image = filesystem(5 * MIB + 512);
    for source in kinds(dir.path(), "filesystem", &image) {
        let bytes = fs::read(&source).unwrap();
        let mut request = request(source.to_str().unwrap(), &node, &bytes);
        request.verify_after_write = true;
        let report = match write(&request) {
            Ok(report) => report,
            Err(error) => panic!("{}: {}", source.display(), error.chain()),
        };
        assert_eq!(
            (report.table.kind, report.filesystem),
            (TableKind::Absent, Some("ext2/3/4"))
        );
        let disk = fs::read(&target.file).unwrap();
        assert!(disk[place.clone()][..image.len()] == image);
        // Its neighbours are as they were.
        assert!(disk[..place.start] == before[..place.start]);
        assert!(disk[place.end..] == before[place.end..]);
        fs::write(&target.file, &before).unwrap();
    }
    // A damaged one is undone at both of its ends.
    let source = dir.path().join("filesystem.raw");
    let mut wrong = request(source.to_str().unwrap(), &node, &image);
    wrong.checksum = Some(support::sha256(b"another"));
    let error = write(&wrong).unwrap_err();
    assert_eq!(
        (error.kind(), error.disk()),
        (ErrorKind::Checksum, DiskState::EndsZeroed)
    );
    let disk = fs::read(&target.file).unwrap();
    let part = &disk[place.clone()];
    assert!(
        part[..MIB]
            .iter()
            .chain(&part[part.len() - MIB..])
            .all(|byte| *byte == 0)
    );
    assert!(disk[..place.start] == before[..place.start]);
    fs::write(&target.file, &before).unwrap();

    let whole = support::disk(4 * MIB, 6);
    for source in kinds(dir.path(), "whole", &whole) {
        let bytes = fs::read(&source).unwrap();
        let mut request = request(source.to_str().unwrap(), &node, &bytes);
        request.zero_on_refusal = false;
        let error = write(&request).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Format);
        assert!(
            error.to_string().contains("is a whole disk with a GPT"),
            "{}",
            error.chain()
        );
        assert_eq!(error.disk(), DiskState::Untouched, "{}", source.display());
        assert!(fs::read(&target.file).unwrap() == before);
    }
}

#[test]
fn a_disk_takes_no_filesystem_and_no_table_for_other_sectors() {
    let dir = tempfile::tempdir().unwrap();
    let Some(target) = Loop::new(dir.path(), 8 * MIB, &["--sector-size", "4096"]) else {
        return;
    };
    let before = fs::read(&target.file).unwrap();
    let refuse = |name: &str, image: &[u8], text: &str| {
        for source in kinds(dir.path(), name, image) {
            let bytes = fs::read(&source).unwrap();
            let mut request = request(source.to_str().unwrap(), &target.device, &bytes);
            request.zero_on_refusal = false;
            let error = write(&request).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Format);
            assert!(error.to_string().contains(text), "{}", error.chain());
            assert_eq!(error.disk(), DiskState::Untouched, "{}", source.display());
            assert!(fs::read(&target.file).unwrap() == before);
        }
    };
    refuse(
        "filesystem",
        &filesystem(5 * MIB),
        "is ext2/3/4 from its first byte",
    );
    let both = "sectors of 512 bytes but the disk has sectors of 4096";
    refuse("gpt", &disk(5 * MIB, 7), both);
    // An MBR whose partition fills the image, counted in small sectors.
    let mut mbr = vec![5; 5 * MIB];
    mbr[..MIB].fill(0);
    mbr[446 + 4] = 0x83;
    mbr[446 + 8..446 + 12].copy_from_slice(&2048u32.to_le_bytes());
    mbr[446 + 12..446 + 16].copy_from_slice(&(4 * 2048u32).to_le_bytes());
    mbr[510..512].copy_from_slice(b"\x55\xaa");
    refuse("mbr", &mbr, both);
    drop(target);

    // The other way round.
    let Some(target) = Loop::new(dir.path(), 8 * MIB, &[]) else {
        return;
    };
    let mut image = disk(5 * MIB, 8);
    image[..64 << 10].fill(0);
    put_table(&mut image, 4096, 8);
    for source in kinds(dir.path(), "large", &image) {
        let bytes = fs::read(&source).unwrap();
        let mut request = request(source.to_str().unwrap(), &target.device, &bytes);
        request.zero_on_refusal = false;
        let error = write(&request).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("sectors of 4096 bytes but the disk has sectors of 512"),
            "{}",
            error.chain()
        );
        assert_eq!(error.disk(), DiskState::Untouched);
    }
}

/// What lies in the page cache is not what lies on the disk: a byte that
/// changes below the device is found, though the cache has the right one.
#[test]
fn reading_back_sees_what_is_below_the_page_cache() {
    let dir = tempfile::tempdir().unwrap();
    let Some(target) = Loop::new(dir.path(), 12 * MIB, &[]) else {
        return;
    };
    let image = disk(9 * MIB, 9);
    let source = dir.path().join("image");
    fs::write(&source, &image).unwrap();
    for changed in [None, Some(MIB as u64), Some(5 * MIB as u64 + 77)] {
        let mut request = request(source.to_str().unwrap(), &target.device, &image);
        request.verify_after_write = true;
        let (device, file) = (target.device.clone(), target.file.clone());
        request.progress = Some(ProgressFn::new(move |progress| {
            // All is written by then, but for the ends.
            if progress.stage != Stage::Flush {
                return;
            }
            let cached = fs::read(&device).unwrap();
            let Some(at) = changed else {
                return;
            };
            let file = fs::OpenOptions::new().write(true).open(&file).unwrap();
            file.write_all_at(&[cached[at as usize] ^ 1], at).unwrap();
            file.sync_all().unwrap();
        }));
        let result = write(&request);
        let Some(at) = changed else {
            assert!(result.unwrap().read_back);
            continue;
        };
        let error = result.unwrap_err();
        assert_eq!(
            (error.kind(), error.stage()),
            (ErrorKind::Target, Stage::ReadBack),
            "{at}: {}",
            error.chain()
        );
        assert!(error.offset().is_some());
        assert_eq!(error.disk(), DiskState::EndsZeroed);
        assert!(ends_are_zero(&target.file));
    }
}

#[test]
fn a_file_is_a_partition_where_the_caller_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let image = filesystem(3 * MIB);
    let source = dir.path().join("image");
    fs::write(&source, &image).unwrap();
    let target = dir.path().join("volume");
    let mut request = request(source.to_str().unwrap(), &target, &image);
    assert!(write(&request).is_err());
    request.layout = Layout::Partition;
    let report = write(&request).unwrap();
    assert_eq!(report.filesystem, Some("ext2/3/4"));
    assert!(fs::read(&target).unwrap() == image);
}

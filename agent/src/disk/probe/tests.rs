//! Probing what real tools made, and what is laid out by hand after the
//! formats' descriptions.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;

use super::Region;
use super::volume_label;
use crate::disk::block::Access;
use crate::disk::block::BlockFile;

struct Image {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

fn image(bytes: u64) -> Image {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    File::create(&path).unwrap().set_len(bytes).unwrap();
    Image {
        _folder: folder,
        path,
    }
}

impl Image {
    fn put(&self, offset: u64, bytes: &[u8]) {
        File::options()
            .write(true)
            .open(&self.path)
            .unwrap()
            .write_all_at(bytes, offset)
            .unwrap();
    }

    /// Runs a tool on the image; false when it is not installed.
    fn run(&self, tool: &str, arguments: &[&str]) -> bool {
        let found = ["/usr/sbin", "/sbin", "/usr/bin"]
            .iter()
            .map(|folder| format!("{folder}/{tool}"));
        let Some(tool) = found
            .into_iter()
            .find(|path| std::path::Path::new(path).exists())
        else {
            return false;
        };
        let output = Command::new(tool)
            .args(arguments)
            .arg(&self.path)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        true
    }

    fn kinds(&self) -> Vec<&'static str> {
        let disk = BlockFile::open(&self.path, Access::Read).unwrap();
        let found = Region::whole(&disk).signatures().unwrap();
        found.iter().map(|signature| signature.kind).collect()
    }
}

#[test]
fn empty_disks_show_nothing() {
    for size in [512, 4096, 70_000, 1 << 20, 8 << 20] {
        assert!(image(size).kinds().is_empty(), "{size}");
    }
}

#[test]
fn real_tools() {
    let disk = image(16 << 20);
    if disk.run("mkfs.ext4", &["-q", "-L", "rootfs"]) {
        assert_eq!(disk.kinds(), ["ext"]);
        let file = BlockFile::open(&disk.path, Access::Read).unwrap();
        assert_eq!(
            volume_label(&Region::whole(&file)).unwrap().as_deref(),
            Some("rootfs")
        );
    }
    let disk = image(16 << 20);
    if disk.run("mkswap", &[]) {
        assert_eq!(disk.kinds(), ["swap"]);
    }
    let disk = image(64 << 20);
    if disk.run("mkfs.vfat", &["-F", "32", "-n", "CONFIG-2"]) {
        assert_eq!(disk.kinds(), ["vfat", "dos"]);
        let file = BlockFile::open(&disk.path, Access::Read).unwrap();
        assert_eq!(
            volume_label(&Region::whole(&file)).unwrap().as_deref(),
            Some("CONFIG-2")
        );
    }
    let disk = image(16 << 20);
    if disk.run("sgdisk", &["-n", "1:2048:4096"]) {
        assert_eq!(disk.kinds(), ["dos", "gpt", "gpt"]);
    }
}

#[test]
fn laid_out_by_hand() {
    let size: u64 = 32 << 20;
    let md0 = size - 0x1_0000;
    let md1 = ((size / 512 - 16) & !7) * 512;
    let cases: [(&str, u64, &[u8]); 14] = [
        ("xfs", 0, b"XFSB"),
        ("btrfs", 0x1_0040, b"_BHRfS_M"),
        ("ntfs", 3, b"NTFS    "),
        ("crypto_LUKS", 0, b"LUKS\xba\xbe\0\x02"),
        ("crypto_LUKS", 0x4000, b"SKUL\xba\xbe\0\x02"),
        ("LVM2_member", 512, b"LABELONE"),
        ("linux_raid_member", md0, b"\xfc\x4e\x2b\xa9"),
        ("linux_raid_member", md1, b"\xfc\x4e\x2b\xa9"),
        ("linux_raid_member", 4096, b"\xfc\x4e\x2b\xa9\x01\0\0\0"),
        ("ddf_raid_member", size - 512, b"\xde\x11\xde\x11"),
        (
            "isw_raid_member",
            size - 1024,
            b"Intel Raid ISM Cfg Sig. 1.3.00",
        ),
        (
            "zfs_member",
            (128 << 10) + 5 * 1024,
            b"\x0c\xb1\xba\0\0\0\0\0",
        ),
        ("zfs_member", size - (128 << 10), b"\x0c\xb1\xba\0\0\0\0\0"),
        ("iso9660", 0x8001, b"CD001"),
    ];
    for (kind, offset, bytes) in cases {
        let disk = image(size);
        disk.put(offset, bytes);
        assert_eq!(disk.kinds(), [kind], "at {offset:#x}");
    }
}

#[test]
fn a_table_for_large_sectors() {
    let disk = image(8 << 20);
    disk.put(4096, b"EFI PART");
    disk.put((8 << 20) - 4096, b"EFI PART");
    assert_eq!(disk.kinds(), ["gpt", "gpt"]);
    let file = BlockFile::open(&disk.path, Access::Read)
        .unwrap()
        .with_sector_size(4096);
    let found = Region::whole(&file).signatures().unwrap();
    assert_eq!(found.len(), 2, "places that coincide are counted once");
}

#[test]
fn a_partition_is_a_region() {
    let disk = image(8 << 20);
    disk.put((1 << 20) + 0x438, b"\x53\xef");
    let file = BlockFile::open(&disk.path, Access::Read).unwrap();
    let region = Region {
        disk: &file,
        start: 1 << 20,
        length: 1 << 20,
    };
    let found = region.signatures().unwrap();
    assert_eq!(
        (found.len(), found[0].kind, found[0].offset),
        (1, "ext", (1 << 20) + 0x438)
    );
    assert!(disk.kinds().is_empty());
}

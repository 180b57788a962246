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
use crate::disk::device::Disk;
use crate::disk::erase::wipe_disk;

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

/// What blkid takes a disk for, by a low-level probe of all kinds; none for
/// one that it does not know.
fn blkid(disk: &Image) -> Vec<String> {
    let output = Command::new("/usr/sbin/blkid")
        .args(["-p", "-o", "export"])
        .arg(&disk.path)
        .env("BLKID_FILE", "/dev/null")
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.split_once('='))
        .filter(|(key, _)| ["TYPE", "PTTYPE"].contains(key))
        .map(|(_, value)| value.to_owned())
        .collect()
}

#[test]
fn as_blkid_has_it_and_nothing_after_a_wipe() {
    const MIB: u64 = 1 << 20;
    let cases: [(&str, &[&str], u64, &str, &str); 21] = [
        ("mkfs.ext2", &["-q", "-F"], 16, "ext2", "ext"),
        ("mkfs.ext3", &["-q", "-F"], 16, "ext3", "ext"),
        ("mkfs.ext4", &["-q", "-F"], 16, "ext4", "ext"),
        ("mkfs.xfs", &["-q", "-f"], 320, "xfs", "xfs"),
        ("mkfs.btrfs", &["-q", "-f"], 128, "btrfs", "btrfs"),
        ("mkfs.vfat", &["-F", "12"], 2, "vfat", "vfat"),
        ("mkfs.vfat", &["-F", "16"], 32, "vfat", "vfat"),
        ("mkfs.vfat", &["-F", "32"], 64, "vfat", "vfat"),
        ("mkfs.exfat", &[], 16, "exfat", "exfat"),
        ("mkfs.ntfs", &["-q", "-F"], 16, "ntfs", "ntfs"),
        ("mkfs.f2fs", &["-q", "-f"], 64, "f2fs", "f2fs"),
        ("mkfs.jfs", &["-q"], 32, "jfs", "jfs"),
        (
            "mkfs.reiserfs",
            &["-q", "-f", "-f"],
            64,
            "reiserfs",
            "reiserfs",
        ),
        ("mkfs.udf", &["-b", "2048"], 16, "udf", "udf"),
        ("mkswap", &[], 16, "swap", "swap"),
        ("make-bcache", &["-B"], 16, "bcache", "bcache"),
        ("sgdisk", &["-n", "1:2048:4096"], 16, "gpt", "gpt"),
        (
            "mkfs.gfs2",
            &["-q", "-O", "-p", "lock_nolock"],
            256,
            "gfs2",
            "gfs2",
        ),
        ("mkfs.ocfs2", &["-q", "-F"], 300, "ocfs2", "ocfs2"),
        (
            "cryptsetup",
            &[
                "luksFormat",
                "--type",
                "luks1",
                "-q",
                "--key-file",
                "/etc/hostname",
                "--iter-time",
                "1",
            ],
            16,
            "crypto_LUKS",
            "crypto_LUKS",
        ),
        (
            "cryptsetup",
            &[
                "luksFormat",
                "--type",
                "luks2",
                "-q",
                "--key-file",
                "/etc/hostname",
                "--pbkdf",
                "pbkdf2",
                "--pbkdf-force-iterations",
                "1000",
            ],
            32,
            "crypto_LUKS",
            "crypto_LUKS",
        ),
    ];
    let mut seen = 0;
    for (tool, arguments, mib, expected, ours) in cases {
        let disk = image(mib * MIB);
        if !disk.run(tool, arguments) {
            continue;
        }
        seen += 1;
        let oracle = blkid(&disk);
        assert!(
            oracle.iter().any(|kind| kind == expected),
            "{tool}: {oracle:?}"
        );
        let kinds = disk.kinds();
        assert!(kinds.contains(&ours), "{tool} {arguments:?}: {kinds:?}");
        let whole = Disk {
            path: disk.path.clone(),
            ..Disk::default()
        };
        // The guard is off: it has a say on gfs2.
        wipe_disk(&whole, false).unwrap();
        assert_eq!(blkid(&disk), [""; 0], "{tool} {arguments:?} after the wipe");
        assert!(disk.kinds().is_empty());
    }
    assert!(
        seen >= 8,
        "e2fsprogs, dosfstools, util-linux and gdisk are there"
    );
}

/// The version 1 superblock of md, as its documentation lays it out: magic
/// 0, major version 4, level 72, size 80, layout and devices, data offset
/// 128, super offset 144, checksum 216.
fn md1(super_sector: u64, size_sectors: u64) -> [u8; 260] {
    let mut sb = [0_u8; 260];
    sb[..4].copy_from_slice(&0xa92b_4efc_u32.to_le_bytes());
    sb[4] = 1;
    sb[16..32].copy_from_slice(&[7; 16]);
    sb[32..40].copy_from_slice(b"host:md0");
    sb[72] = 1;
    sb[80..88].copy_from_slice(&size_sectors.to_le_bytes());
    sb[92] = 2;
    sb[128..136].copy_from_slice(&2048_u64.to_le_bytes());
    sb[136..144].copy_from_slice(&size_sectors.to_le_bytes());
    sb[144..152].copy_from_slice(&super_sector.to_le_bytes());
    sb[220..224].copy_from_slice(&2_u32.to_le_bytes());
    // The sum of all 32-bit words, folded; the roles follow, two of them.
    sb[258] = 1;
    let words = sb.chunks_exact(4).map(|word| {
        let word: [u8; 4] = word.try_into().unwrap();
        u64::from(u32::from_le_bytes(word))
    });
    let sum: u64 = words.sum();
    let sum = ((sum & 0xffff_ffff) + (sum >> 32)) as u32;
    sb[216..220].copy_from_slice(&sum.to_le_bytes());
    sb
}

#[test]
fn md_superblocks_at_all_places_as_blkid_sees_them() {
    let size: u64 = 32 << 20;
    let sectors = size / 512;
    // 1.0 at 8 KiB from the end, 1.1 at the start, 1.2 at 4 KiB.
    for at in [(sectors - 16) & !7, 0, 8] {
        let disk = image(size);
        disk.put(at * 512, &md1(at, sectors - 4096));
        assert_eq!(blkid(&disk), ["linux_raid_member"], "sector {at}");
        assert_eq!(disk.kinds(), ["linux_raid_member"], "sector {at}");
        let whole = Disk {
            path: disk.path.clone(),
            ..Disk::default()
        };
        wipe_disk(&whole, true).unwrap();
        assert_eq!(blkid(&disk), [""; 0]);
    }
    // 0.90: magic, major 0, minor 90 in the last whole 64 KiB.
    let disk = image(size + 70_000);
    let at = (size + 70_000) / 65_536 * 65_536 - 65_536;
    let mut sb = [0_u8; 4096];
    sb[..4].copy_from_slice(&0xa92b_4efc_u32.to_le_bytes());
    sb[8..12].copy_from_slice(&90_u32.to_le_bytes());
    disk.put(at, &sb);
    assert_eq!(blkid(&disk), ["linux_raid_member"]);
    assert_eq!(disk.kinds(), ["linux_raid_member"]);
    let whole = Disk {
        path: disk.path.clone(),
        ..Disk::default()
    };
    wipe_disk(&whole, true).unwrap();
    assert_eq!(blkid(&disk), [""; 0]);
}

#[test]
fn laid_out_by_hand() {
    let size: u64 = 32 << 20;
    let md0 = size - 0x1_0000;
    let md1 = ((size / 512 - 16) & !7) * 512;
    let cases: [(&str, u64, &[u8]); 24] = [
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
        ("VMFS", 0x20_0000, b"\x5e\xf1\xab\x2f"),
        ("VMFS_volume_member", 0x10_0000, b"\x0d\xd0\x01\xc0"),
        ("gfs2", 0x1_0000, b"\x01\x16\x19\x70\0\0\0\x01"),
        (
            "bcachefs",
            0x1018,
            b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef",
        ),
        ("stratis", 0x204, b"!Stra0tis\x86\xff\x02^\x41rh"),
        ("vdo", 0, b"dmvdo001"),
        ("apfs", 32, b"NXSB"),
        ("hfsplus", 1024, b"H+\0\x04"),
        ("ocfs2", 0x2000, b"OCFSV2"),
        ("oracleasm", 32, b"ORCLDISK"),
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

//! Tables against `sgdisk`, which writes and checks them independently.

use super::super::TYPE_LINUX;
use super::super::TYPE_LINUX_RAID;
use super::*;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

const MIB: u64 = 1 << 20;

/// A sparse file in the temporary directory, removed when dropped.
struct Disk(PathBuf);

impl Disk {
    fn new(name: &str, size: u64) -> Self {
        let path = std::env::temp_dir().join(format!("formats-{}-{name}", std::process::id()));
        std::fs::File::create(&path).unwrap().set_len(size).unwrap();
        Self(path)
    }

    fn write(&self, patches: &[Patch]) {
        use std::os::unix::fs::FileExt;
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(&self.0)
            .unwrap();
        for patch in patches {
            file.write_all_at(&patch.bytes, patch.offset).unwrap();
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// `sgdisk`'s answer, or `None` where it is not installed.
fn sgdisk(path: &Path, args: &[&str]) -> Option<String> {
    let path_dirs = ["/usr/sbin/sgdisk", "/sbin/sgdisk", "/usr/bin/sgdisk"];
    let program = path_dirs
        .iter()
        .find(|program| Path::new(program).exists())?;
    let output = Command::new(program).args(args).arg(path).output().unwrap();
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn read(disk: &[u8], sector_size: u32) -> Gpt {
    let size = sector_size as usize;
    let header = Header::parse(&disk[size..2 * size], 1).unwrap();
    let at = header.entries_lba as usize * size;
    let entries = &disk[at..at + header.entries_bytes() as usize];
    Gpt::parse(header, entries, sector_size).unwrap()
}

#[test]
fn a_table_of_sgdisk_is_grown_and_extended() {
    let disk = Disk::new("grow", 64 * MIB);
    let made = [
        "-n",
        "1:2048:+16M",
        "-t",
        "1:ef00",
        "-c",
        "1:boot Ä",
        "-n",
        "2:0:0",
    ];
    let Some(_) = sgdisk(&disk.0, &made) else {
        return;
    };
    std::fs::OpenOptions::new()
        .write(true)
        .open(&disk.0)
        .unwrap()
        .set_len(96 * MIB)
        .unwrap();
    let bytes = std::fs::read(&disk.0).unwrap();
    let mut gpt = read(&bytes, 512);
    let partitions = gpt.partitions();
    assert_eq!(partitions[0].name, "boot Ä");
    assert_eq!(partitions[0].kind, super::super::TYPE_ESP);
    assert_eq!(
        partitions[0].last_lba - partitions[0].first_lba + 1,
        16 * MIB / 512
    );

    assert!(gpt.relocate(96 * MIB / 512).unwrap());
    assert!(!gpt.relocate(96 * MIB / 512).unwrap());
    let new = NewPartition {
        kind: TYPE_LINUX,
        guid: Uuid::from_u128(7),
        name: "config-2",
        bytes: 4 * MIB,
        align: MIB,
    };
    let added = gpt.add_at_end(&new).unwrap();
    assert_eq!((added.number, added.first_lba * 512 % MIB), (3, 0));
    disk.write(&gpt.encode(Mbr::parse(&bytes).ok().as_ref()));
    let verdict = sgdisk(&disk.0, &["-v"]).unwrap();
    assert!(verdict.contains("No problems found"), "{verdict}");
    let listing = sgdisk(&disk.0, &["-p"]).unwrap();
    assert!(listing.contains("config-2"), "{listing}");
    assert_eq!(
        read(&std::fs::read(&disk.0).unwrap(), 512)
            .partitions()
            .len(),
        3
    );
}

#[test]
fn a_table_of_our_own_satisfies_sgdisk() {
    let disk = Disk::new("new", 32 * MIB);
    let mut gpt = Gpt::new(512, 32 * MIB / 512, Uuid::from_u128(42)).unwrap();
    let new = NewPartition {
        kind: TYPE_LINUX,
        guid: Uuid::from_u128(1),
        name: "root",
        bytes: 8 * MIB,
        align: MIB,
    };
    gpt.add_at_end(&new).unwrap();
    disk.write(&gpt.encode(None));
    let Some(verdict) = sgdisk(&disk.0, &["-v"]) else {
        return;
    };
    assert!(verdict.contains("No problems found"), "{verdict}");
}

#[test]
fn four_kib_sectors_round_trip() {
    let sectors = 64 * MIB / 4096;
    let mut gpt = Gpt::new(4096, sectors, Uuid::from_u128(42)).unwrap();
    let new = NewPartition {
        kind: TYPE_LINUX,
        guid: Uuid::from_u128(1),
        name: "root",
        bytes: 8 * MIB + 1,
        align: MIB,
    };
    let added = gpt.add_at_end(&new).unwrap();
    let mut disk = vec![0; 64 << 20];
    for patch in gpt.encode(None) {
        let at = patch.offset as usize;
        disk[at..at + patch.bytes.len()].copy_from_slice(&patch.bytes);
    }
    assert_eq!(read(&disk, 4096).partitions(), [added]);
    // The backup names itself and its own entries.
    let last = sectors - 1;
    let backup = Header::parse(&disk[last as usize * 4096..], last).unwrap();
    assert_eq!((backup.alternate_lba, backup.entries_lba), (1, last - 4));
    let entries = &disk[backup.entries_lba as usize * 4096..][..16384];
    let from_backup = Gpt::parse(backup, entries, 4096).unwrap();
    assert_eq!(from_backup.encode(None), gpt.encode(None));
}

#[test]
fn damage_is_found() {
    let gpt = Gpt::new(512, 1 << 16, Uuid::from_u128(1)).unwrap();
    let patches = gpt.encode(None);
    let mut sector = patches[3].bytes.clone();
    sector[40] ^= 1;
    assert!(matches!(
        Header::parse(&sector, 1),
        Err(Error::Crc { part: "header", .. })
    ));
    assert!(matches!(
        Header::parse(&[0; 512], 1),
        Err(Error::NoHeader { lba: 1 })
    ));
    let header = Header::parse(&patches[3].bytes, 1).unwrap();
    let mut entries = patches[2].bytes.clone();
    entries[0] = 1;
    assert!(matches!(
        Gpt::parse(header, &entries, 512),
        Err(Error::Crc {
            part: "entries",
            ..
        })
    ));
}

#[test]
fn a_smaller_disk_or_a_full_one_is_refused() {
    let mut gpt = Gpt::new(512, 1 << 16, Uuid::from_u128(1)).unwrap();
    let new = |bytes| NewPartition {
        kind: TYPE_LINUX,
        guid: Uuid::from_u128(1),
        name: "x",
        bytes,
        align: MIB,
    };
    gpt.add_at_end(&new(MIB)).unwrap();
    assert!(matches!(
        gpt.add_at_end(&new(MIB)),
        Err(Error::NoRoom { .. })
    ));
    assert!(matches!(
        gpt.relocate(1 << 15),
        Err(Error::DiskTooSmall { .. })
    ));
    let long = "n".repeat(37);
    let named = NewPartition {
        name: &long,
        ..new(1)
    };
    assert!(matches!(gpt.add_at_end(&named), Err(Error::Name(_))));
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_it_panic(edits in proptest::collection::vec((0usize..92, 0u8..), 1..6)) {
        let gpt = Gpt::new(512, 1 << 16, Uuid::from_u128(1)).unwrap();
        let mut sector = gpt.encode(None)[3].bytes.clone();
        for (at, value) in edits {
            sector[at] = value;
        }
        sector[16..20].fill(0);
        let crc = crc32fast::hash(&sector[..92]);
        sector[16..20].copy_from_slice(&crc.to_le_bytes());
        if let Ok(header) = Header::parse(&sector, 1) {
            let entries = vec![0; header.entries_bytes() as usize];
            if let Ok(mut gpt) = Gpt::parse(header, &entries, 512) {
                let _ = gpt.relocate(1 << 20);
                let _ = gpt.encode(None);
            }
        }
    }
}

#[test]
fn partitions_are_put_in_the_first_gap_from_a_place() {
    let mut gpt = Gpt::new(512, 1024 * 2048, Uuid::from_u128(1)).unwrap();
    let new = |name: &'static str, mib: u64| NewPartition {
        kind: TYPE_LINUX_RAID,
        guid: Uuid::from_u128(u128::from(mib)),
        name,
        bytes: mib * MIB,
        align: MIB,
    };
    let raid = gpt.add_from(&new("raid", 100), 551 * MIB).unwrap();
    assert_eq!((raid.number, raid.first_lba), (1, 551 * 2048));
    let esp = gpt.add_from(&new("esp", 550), MIB).unwrap();
    assert_eq!((esp.number, esp.first_lba), (2, 2048));
    assert_eq!(esp.last_lba + 1, raid.first_lba);
    // Nothing is left before it: behind all.
    let next = gpt.add_from(&new("next", 10), 0).unwrap();
    assert_eq!(next.first_lba, 651 * 2048);
    assert!(matches!(
        gpt.add_from(&new("big", 1000), 0),
        Err(Error::NoRoom { .. })
    ));
    let disk = Disk::new("from", 1024 * MIB);
    disk.write(&gpt.encode(None));
    if let Some(verdict) = sgdisk(&disk.0, &["-v"]) {
        assert!(verdict.contains("No problems found"), "{verdict}");
    }
}

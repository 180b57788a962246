//! Taking down, in a sysfs of plain files.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Mutex;

use super::Kernel;
use super::Member;
use super::TearDown;
use super::Tree;
use super::Work;
use crate::disk;
use crate::disk::Disk;
use crate::disk::Uses;

/// A machine with two disks: each has a partition, both carry md0, on which
/// stands a volume group with one volume, encrypted once more.
struct Machine {
    root: tempfile::TempDir,
    log: Mutex<Vec<String>>,
    refuses: Option<&'static str>,
}

impl Machine {
    fn new() -> Self {
        let machine = Self {
            root: tempfile::tempdir().unwrap(),
            log: Mutex::default(),
            refuses: None,
        };
        for (path, text) in [
            ("sys/block/sda/size", "1000"),
            ("sys/block/sda/sda1/partition", "1"),
            ("sys/block/sda/sda1/size", "900"),
            ("sys/block/sda/sda1/holders/md0", ""),
            ("sys/block/sdb/size", "1000"),
            ("sys/block/sdb/sdb1/partition", "1"),
            ("sys/block/sdb/sdb1/size", "900"),
            ("sys/block/sdb/sdb1/holders/md0", ""),
            ("sys/block/md0/size", "900"),
            ("sys/block/md0/md/level", "raid1"),
            ("sys/block/md0/slaves/sda1", ""),
            ("sys/block/md0/slaves/sdb1", ""),
            ("sys/block/md0/md0p1/partition", "1"),
            ("sys/block/md0/md0p1/size", "800"),
            ("sys/block/md0/md0p1/holders/dm-0", ""),
            ("sys/block/dm-0/size", "800"),
            ("sys/block/dm-0/dm/name", "vg-lv"),
            ("sys/block/dm-0/dm/uuid", "LVM-abc"),
            ("sys/block/dm-0/holders/dm-1", ""),
            ("sys/block/dm-1/size", "700"),
            ("sys/block/dm-1/dm/name", "secret"),
            ("sys/block/dm-1/dm/uuid", "CRYPT-LUKS2-abc"),
            ("proc/swaps", "Filename\n"),
            ("proc/self/mountinfo", ""),
        ] {
            machine.write(path, text);
        }
        machine
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn dev(&self, name: &str) -> PathBuf {
        self.root.path().join("dev").join(name)
    }

    fn note(&self, text: &str) -> io::Result<()> {
        self.log.lock().unwrap().push(text.to_owned());
        match self.refuses {
            Some(refused) if text.starts_with(refused) => Err(io::ErrorKind::ResourceBusy.into()),
            _ => Ok(()),
        }
    }

    fn disks(&self) -> Vec<Disk> {
        ["sda", "sdb"]
            .map(|name| Disk {
                name: name.to_owned(),
                path: self.dev(name),
                ..Disk::default()
            })
            .to_vec()
    }

    fn tear_down(&self, keep: &[String]) -> (TearDown, Vec<String>) {
        let path = |name: &str| self.root.path().join(name);
        let tree = Tree::new(&path("sys"), &path("dev"));
        let uses = Uses::read(&path("proc"), &path("sys"));
        let wipe = |node: &Path| {
            let name = node.file_name().unwrap().to_str().unwrap();
            self.note(&format!("wipe {name}"))
                .map_err(|error| disk::Error::Io {
                    action: "wipe",
                    path: node.to_owned(),
                    source: error,
                })
        };
        let work = Work {
            tree: &tree,
            uses: &uses,
            kernel: self,
            keep,
            wipe: &wipe,
            ends: BTreeMap::new(),
            stopped: Vec::new(),
        };
        let done = work.all(&self.disks());
        (done, self.log.lock().unwrap().clone())
    }
}

impl Kernel for Machine {
    fn stop_md(&self, node: &Path) -> io::Result<()> {
        let name = node.file_name().unwrap().to_str().unwrap();
        self.note(&format!("stop {name}"))
    }

    fn remove_dm(&self, name: &str) -> io::Result<()> {
        self.note(&format!("remove {name}"))
    }
}

#[test]
fn what_stands_on_top_goes_first_and_is_wiped_before() {
    let (done, log) = Machine::new().tear_down(&[]);
    assert_eq!(
        log,
        [
            "wipe dm-1",
            "remove secret",
            "wipe dm-0",
            "remove vg-lv",
            "wipe md0p1",
            "wipe md0",
            "stop md0",
        ]
    );
    let stopped = ["mapping secret (dm-1)", "mapping vg-lv (dm-0)", "array md0"];
    assert_eq!(done.stopped, stopped);
    assert!(done.failures.is_empty() && done.kept.is_empty());
}

#[test]
fn what_is_mounted_stays_and_the_disks_are_told() {
    let machine = Machine::new();
    machine.write("sys/block/dm-1/dev", "253:1\n");
    machine.write(
        "proc/self/mountinfo",
        "40 22 253:1 / /srv rw - ext4 /dev/nosuch rw\n",
    );
    let (done, log) = machine.tear_down(&[]);
    assert!(log.is_empty(), "{log:?}");
    let reason = "dm-1 is mounted at /srv".to_owned();
    let failures = [
        (machine.dev("sda"), reason.clone()),
        (machine.dev("sdb"), reason),
    ];
    assert_eq!(done.failures, failures);
}

#[test]
fn a_failure_stops_there_and_names_the_device() {
    let mut machine = Machine::new();
    machine.refuses = Some("remove vg-lv");
    let (done, log) = machine.tear_down(&[]);
    assert_eq!(log.last().unwrap(), "remove vg-lv");
    let reason = &done.failures[1].1;
    assert!(
        reason.starts_with("mapping vg-lv (dm-0) could not be removed: "),
        "{reason}"
    );
    assert_eq!(done.stopped, ["mapping secret (dm-1)"]);

    let mut machine = Machine::new();
    machine.refuses = Some("wipe md0p1");
    let (done, _) = machine.tear_down(&[]);
    let reason = &done.failures[0].1;
    assert!(reason.starts_with("md0p1 could not be wiped: "), "{reason}");
}

#[test]
fn an_array_that_is_kept_keeps_its_disks() {
    let machine = Machine::new();
    let mut superblock = superblock("any:data");
    superblock.resize(900 * 512, 0);
    for name in ["sda1", "sdb1"] {
        let path = machine.root.path().join("dev").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut bytes = vec![0; 4096];
        bytes.extend_from_slice(&superblock);
        fs::write(path, bytes).unwrap();
    }
    let (done, log) = machine.tear_down(&["data".to_owned()]);
    assert!(log.is_empty() && done.failures.is_empty());
    let kept = [machine.dev("sda"), machine.dev("sdb")];
    assert_eq!(done.kept, kept);
}

#[test]
fn a_multipath_disk_is_left_to_itself() {
    let machine = Machine::new();
    machine.write("sys/block/sda/holders/dm-9", "");
    machine.write("sys/block/dm-9/dm/uuid", "mpath-3600");
    machine.write("sys/block/dm-9/dm/name", "mpatha");
    let (done, log) = machine.tear_down(&[]);
    assert!(!log.iter().any(|line| line.contains("mpatha")), "{log:?}");
    assert!(done.failures.is_empty());
}

#[test]
fn what_is_not_known_is_told() {
    let machine = Machine::new();
    machine.write("sys/block/sda/holders/bcache0", "");
    machine.write("sys/block/bcache0/size", "0");
    let (done, _) = machine.tear_down(&[]);
    assert_eq!(
        done.failures[0].1,
        "bcache0 stands on it, and is neither an md array nor a device mapping; stop it by hand"
    );
}

/// A version 1 superblock.
pub(crate) fn superblock(name: &str) -> Vec<u8> {
    let mut bytes = vec![0_u8; 256];
    bytes[..4].copy_from_slice(&0xa92b_4efc_u32.to_le_bytes());
    bytes[4] = 1;
    bytes[16..32].copy_from_slice(&[7; 16]);
    bytes[32..32 + name.len()].copy_from_slice(name.as_bytes());
    bytes[92] = 2;
    bytes
}

#[test]
fn superblocks_tell_of_their_array() {
    let member = Member::parse(&superblock("host:root")).unwrap();
    assert_eq!((member.name.as_str(), member.raid_disks), ("root", 2));
    assert!(member.active);
    let mut spare = superblock("0");
    spare[160] = 5;
    assert!(!Member::parse(&spare).unwrap().active);
    let mut old = superblock("x");
    old[4] = 0;
    assert!(Member::parse(&old).is_none());
    assert!(Member::parse(&[0; 16]).is_none());
}

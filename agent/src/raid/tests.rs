//! Software RAID in a sysfs of plain files, with doubles of mdadm and of the
//! kernel.

use std::fs;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use super::Label;
use super::RaidError;
use super::Site;
use super::Volume;
use super::assemble;
use super::create;
use super::delete;
use super::install_esps;
use super::root_volume;
use crate::command::ProgressSink;
use crate::disk::Access;
use crate::disk::BlockFile;
use crate::disk::Disk;
use crate::disk::DiskRules;
use crate::disk::Enumerator;
use crate::disk::table::Table;
use crate::storage::Kernel;
use crate::tools::double::Double;
use crate::tools::double::failure;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// A machine of plain files.
struct Machine {
    root: tempfile::TempDir,
}

/// The same machine for doubles.
#[derive(Clone)]
struct Files(PathBuf);

impl Files {
    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// The disk of a partition.
    fn disk_of(part: &str) -> &str {
        part.trim_end_matches(|c: char| c.is_ascii_digit())
    }

    /// What the kernel shows when an array is there.
    fn array(&self, device: &str, name: &str, level: &str, parts: &[&str]) {
        self.write(&format!("sys/block/{device}/size"), "8388608");
        self.write(&format!("sys/block/{device}/md/level"), level);
        let node = self.0.join("dev").join(device);
        File::create(node).unwrap().set_len(4 * GIB).unwrap();
        for part in parts {
            self.write(&format!("sys/block/{device}/slaves/{part}"), "");
            let disk = Self::disk_of(part);
            for (file, text) in [("partition", "1"), ("start", "2048"), ("size", "2048")] {
                self.write(&format!("sys/block/{disk}/{part}/{file}"), text);
            }
            self.write(&format!("sys/block/{disk}/{part}/holders/{device}"), "");
            self.member(part, name);
        }
    }

    /// A member's superblock (version 1.2) on its node.
    fn member(&self, part: &str, name: &str) {
        let node = File::create(self.0.join("dev").join(part)).unwrap();
        node.set_len(MIB).unwrap();
        let superblock = superblock(name);
        node.write_all_at(&superblock, 4096).unwrap();
    }

    fn gone(&self, device: &str) {
        fs::remove_dir_all(self.0.join("sys/block").join(device)).unwrap();
        fs::remove_file(self.0.join("dev").join(device)).unwrap();
        for disk in fs::read_dir(self.0.join("sys/block")).unwrap().flatten() {
            fs::remove_file(disk.path().join("holders").join(device)).ok();
            for part in fs::read_dir(disk.path()).unwrap().flatten() {
                fs::remove_file(part.path().join("holders").join(device)).ok();
            }
        }
    }
}

fn superblock(name: &str) -> Vec<u8> {
    let mut bytes = vec![0_u8; 256];
    bytes[..4].copy_from_slice(&0xa92b_4efc_u32.to_le_bytes());
    bytes[4] = 1;
    let id = name.bytes().fold(1_u8, u8::wrapping_add);
    bytes[16..32].copy_from_slice(&[id; 16]);
    let name = format!("any:{name}");
    bytes[32..32 + name.len()].copy_from_slice(name.as_bytes());
    bytes[92] = 2;
    bytes
}

impl Kernel for Files {
    fn stop_md(&self, node: &Path) -> io::Result<()> {
        let device = node.file_name().unwrap().to_str().unwrap();
        let holders = self.0.join("sys/block").join(device).join("holders");
        if fs::read_dir(holders).is_ok_and(|mut holders| holders.next().is_some()) {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        self.gone(device);
        Ok(())
    }

    fn remove_dm(&self, _name: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Machine {
    fn new(disks: &[(&str, u64)]) -> Self {
        let machine = Self {
            root: tempfile::tempdir().unwrap(),
        };
        let files = machine.files();
        for (name, gib) in disks {
            files.write(
                &format!("sys/block/{name}/size"),
                &(gib * GIB / 512).to_string(),
            );
            let node = machine.dev(name);
            fs::create_dir_all(node.parent().unwrap()).unwrap();
            File::create(node).unwrap().set_len(gib * GIB).unwrap();
        }
        files.write("proc/self/mountinfo", "");
        machine
    }

    fn files(&self) -> Files {
        Files(self.root.path().to_owned())
    }

    fn dev(&self, name: &str) -> PathBuf {
        self.root.path().join("dev").join(name)
    }

    /// An mdadm that does what it is told, as far as sysfs shows it.
    fn mdadm(&self) -> Double {
        let files = self.files();
        Double::default().answer("mdadm --create", move |line| {
            let words: Vec<&str> = line.split(' ').collect();
            let after = |flag: &str| {
                let at = words.iter().position(|word| *word == flag).unwrap();
                words[at + 1]
            };
            let base = |path: &&str| path.rsplit('/').next().unwrap().to_owned();
            let parts: Vec<String> = words
                .iter()
                .skip_while(|word| **word != "--raid-devices")
                .skip(2)
                .map(base)
                .collect();
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            let level = format!("raid{}", after("--level"));
            files.array(&base(&after("--create")), after("--name"), &level, &parts);
            Ok(String::new())
        })
    }

    fn with<T>(&self, tools: &Double, properties: &Value, work: impl FnOnce(&Site<'_>) -> T) -> T {
        let properties = properties.as_object().unwrap();
        let rules = DiskRules::of_node(properties, &Map::new()).unwrap();
        let path = |name: &str| self.root.path().join(name);
        let site = Site {
            enumerator: Enumerator {
                sys: path("sys"),
                dev: path("dev"),
                proc: path("proc"),
                only: Vec::new(),
            },
            tools,
            kernel: &self.files(),
            rules: &rules,
            keep: super::kept_volumes(properties),
            guard: true,
            cancel: Arc::default(),
        };
        work(&site)
    }

    fn create(&self, tools: &Double, config: &Value, label: Label) -> Result<Value, RaidError> {
        let config = config.as_object().unwrap();
        self.with(tools, &json!({}), |site| {
            create(site, config, label, false, &ProgressSink::default())
        })
    }

    /// mdadm's calls, without the folder of this machine.
    fn calls(&self, tools: &Double) -> Vec<String> {
        let folder = format!("{}/", self.root.path().display());
        let calls = tools.calls();
        calls
            .iter()
            .map(|call| call.replace(&folder, "/"))
            .collect()
    }

    fn parts(&self, disk: &str) -> Vec<(u32, u64, u64)> {
        let file = BlockFile::open(&self.dev(disk), Access::Read).unwrap();
        let table = Table::read(&file).unwrap();
        let parts = table.map(|table| table.partitions).unwrap_or_default();
        let parts = parts.iter();
        parts
            .map(|part| (part.number, part.start / MIB, part.length / MIB))
            .collect()
    }
}

fn volume(change: &Value) -> Value {
    let mut volume = json!({"controller": "software", "raid_level": "1", "size_gb": "MAX"});
    for (key, value) in change.as_object().unwrap() {
        volume[key] = value.clone();
    }
    volume
}

fn config(volumes: &[Value]) -> Value {
    let volumes: Vec<Value> = volumes.iter().map(volume).collect();
    json!({ "logical_disks": volumes })
}

#[test]
fn a_mirror_for_uefi_leaves_room_for_the_firmware() {
    let machine = Machine::new(&[("sda", 8), ("sdb", 8)]);
    let tools = machine.mdadm();
    let wanted = config(&[json!({"is_root_volume": true, "volume_name": "root"})]);
    let made = machine.create(&tools, &wanted, Label::GptUefi).unwrap();
    assert_eq!(made, wanted);
    assert_eq!(
        machine.calls(&tools),
        [
            "mdadm --create /dev/md0 --force --run --metadata=1 --homehost=any --name root --level 1 \
          --raid-devices 2 /dev/sda1 /dev/sdb1"
        ]
    );
    assert_eq!(machine.parts("sda"), [(1, 551, 8192 - 551 - 1)]);
    assert_eq!(machine.parts("sdb"), machine.parts("sda"));
}

#[test]
fn two_volumes_the_one_that_takes_the_rest_last() {
    let machine = Machine::new(&[("sda", 8), ("sdb", 8), ("sdc", 8), ("sdd", 8)]);
    let tools = machine.mdadm();
    let wanted = config(&[json!({}), json!({"raid_level": "5", "size_gb": 6})]);
    machine.create(&tools, &wanted, Label::Msdos).unwrap();
    let calls = machine.calls(&tools);
    assert!(
        calls[0].contains("/dev/md0 ") && calls[0].contains("--name 0 --level 5"),
        "{calls:?}"
    );
    assert!(
        calls[1].contains("/dev/md1 ") && calls[1].contains("--name 1 --level 1"),
        "{calls:?}"
    );
    // 6 GiB of three disks' data are 2 GiB of each.
    let parts = [(1, 1, 2048), (2, 2049, 8192 - 2049 - 1)];
    assert_eq!(machine.parts("sdd"), parts);
}

#[test]
fn each_level_takes_what_it_needs_of_each_disk() {
    use super::config::Level;
    for (level, disks, share) in [
        (Level::Raid0, 4, 3),
        (Level::Raid1, 4, 12),
        (Level::Raid5, 4, 4),
        (Level::Raid6, 4, 6),
        (Level::Raid10, 4, 6),
    ] {
        assert_eq!(level.share(12, disks), share, "{level:?}");
    }
}

#[test]
fn hints_choose_the_disks_and_skipped_ones_are_left() {
    let machine = Machine::new(&[("sda", 8), ("sdb", 16), ("sdc", 16), ("sdd", 16)]);
    let tools = machine.mdadm();
    let hints = json!([{"size": ">= 16"}, {"size": ">= 16"}]);
    let wanted = config(&[json!({"physical_disks": hints})]);
    let skip = json!({"skip_block_devices": [{"name": machine.dev("sdb")}]});
    machine
        .with(&tools, &skip, |site| {
            let wanted = wanted.as_object().unwrap();
            create(
                site,
                wanted,
                Label::GptBios,
                false,
                &ProgressSink::default(),
            )
        })
        .unwrap();
    assert!(machine.calls(&tools)[0].ends_with("--raid-devices 2 /dev/sdc1 /dev/sdd1"));
    assert_eq!(machine.parts("sdc")[0].1, 8);
    assert!(machine.parts("sda").is_empty() && machine.parts("sdb").is_empty());

    let machine = Machine::new(&[("sda", 8), ("sdb", 8)]);
    let error = machine.create(&tools, &wanted, Label::GptUefi).unwrap_err();
    let error = error.to_string();
    assert!(
        error.starts_with(
            "software RAID: no free disk is left for volume 0 that matches (size: >= 16)"
        ),
        "{error}"
    );
}

#[test]
fn what_cannot_be_is_refused_before_a_disk_is_touched() {
    for (volumes, says) in [
        (vec![], "one or two volumes, found 0"),
        (
            vec![json!({"controller": "raid.0"})],
            "logical disk 0: expected controller software, as for all logical disks, found \"raid.0\"",
        ),
        (
            vec![json!({"raid_level": "5"})],
            "the first logical disk must have raid_level 1",
        ),
        (
            vec![json!({"raid_level": "50"})],
            "expected raid_level 0, 1, 5, 6 or 1+0, found \"50\"",
        ),
        (
            vec![json!({"size_gb": 0})],
            "expected size_gb as a whole number of GiB or MAX, found 0",
        ),
        (
            vec![json!({}), json!({})],
            "only one logical disk can have size_gb MAX",
        ),
        (
            vec![
                json!({"is_root_volume": true}),
                json!({"is_root_volume": true, "size_gb": 1}),
            ],
            "only one logical disk can be the root volume",
        ),
        (
            vec![
                json!({"volume_name": "a"}),
                json!({"volume_name": "a", "size_gb": 1}),
            ],
            "two logical disks have the same volume_name",
        ),
        (
            vec![json!({"volume_name": "a b"})],
            "expected volume_name of 1 to 32 letters",
        ),
        (
            vec![json!({"physical_disks": [{"size": 1}]})],
            "expected physical_disks as a list of at least two hints",
        ),
        (
            vec![json!({"physical_disks": [{"colour": "red"}, {"size": 1}]})],
            "physical_disks: ",
        ),
    ] {
        let config = config(&volumes);
        let error = Volume::list(config.as_object().unwrap()).unwrap_err();
        let error = error.to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn too_few_and_too_small_disks_are_told() {
    let machine = Machine::new(&[("sda", 8), ("sdb", 8)]);
    let tools = machine.mdadm();
    let six = json!({"raid_level": "6", "size_gb": 1});
    let error = machine
        .create(&tools, &config(&[json!({}), six]), Label::GptUefi)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("volume 0 needs at least 4 disks for RAID level 6, found 2"),
        "{error}"
    );
    let error = machine
        .create(&tools, &config(&[json!({"size_gb": 8})]), Label::GptUefi)
        .unwrap_err()
        .to_string();
    assert!(error.contains("volume 0 needs 8192 MiB of "), "{error}");
    assert!(error.ends_with("which has 7640 MiB left"), "{error}");
    assert!(tools.calls().is_empty());
}

#[test]
fn disks_that_hold_something_are_refused_unless_it_may_be_deleted() {
    let machine = Machine::new(&[("sda", 8), ("sdb", 8)]);
    let tools = machine.mdadm();
    let wanted = config(&[json!({})]);
    machine.create(&tools, &wanted, Label::GptUefi).unwrap();
    // The members are held.
    let error = machine.create(&tools, &wanted, Label::GptUefi).unwrap_err();
    assert!(error.to_string().contains("found 0"), "{error}");
    machine.files().gone("md0");
    let error = machine.create(&tools, &wanted, Label::GptUefi).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, RaidError::Taken { .. }), "{text}");
    assert!(text.contains("sda has partitions (gpt): 1"), "{text}");

    machine
        .files()
        .array("md0", "0", "raid1", &["sda1", "sdb1"]);
    let config = wanted.as_object().unwrap();
    machine
        .with(&tools, &json!({}), |site| {
            create(site, config, Label::Msdos, true, &ProgressSink::default())
        })
        .unwrap();
    assert_eq!(machine.parts("sda")[0].1, 1);
}

#[test]
fn a_failure_of_mdadm_is_told_in_its_words() {
    let machine = Machine::new(&[("sda", 8), ("sdb", 8)]);
    let tools = Double::default().answer("mdadm", |line| {
        Err(failure(
            line,
            1,
            "mdadm: cannot open /dev/sda1: Device or resource busy",
        ))
    });
    let error = machine.create(&tools, &config(&[json!({})]), Label::GptUefi);
    let error = crate::command::CommandFailure::chain(&error.unwrap_err());
    assert!(
        error.ends_with("says: mdadm: cannot open /dev/sda1: Device or resource busy"),
        "{error}"
    );
    let machine = Machine::new(&[("sda", 8), ("sdb", 8)]);
    let tools = Double::default().without("mdadm");
    let error = machine.create(&tools, &config(&[json!({})]), Label::GptUefi);
    let error = crate::command::CommandFailure::chain(&error.unwrap_err());
    assert!(
        error.starts_with("software RAID: mdadm is not in this ramdisk"),
        "{error}"
    );
}

#[test]
fn a_member_that_fell_out_is_put_back() {
    let machine = Machine::new(&[("sda", 8), ("sdb", 8)]);
    let files = machine.files();
    let other = files.clone();
    let tools = Double::default()
        .answer("mdadm --create", move |_| {
            files.array("md0", "0", "raid1", &["sda1"]);
            Ok(String::new())
        })
        .answer("mdadm --manage", move |_| {
            other.write("sys/block/md0/slaves/sdb1", "");
            other.write("sys/block/md0/md/sync_action", "idle\n");
            Ok(String::new())
        });
    machine
        .create(&tools, &config(&[json!({})]), Label::GptUefi)
        .unwrap();
    let calls = machine.calls(&tools);
    assert_eq!(calls[1], "mdadm --manage /dev/md0 --add /dev/sdb1");
}

#[test]
fn what_lay_there_before_the_array_is_not_seen_through_it() {
    let machine = Machine::new(&[("sda", 8), ("sdb", 8)]);
    let files = machine.files();
    let tools = Double::default().answer("mdadm --create", move |_| {
        files.array("md0", "0", "raid1", &["sda1", "sdb1"]);
        // A btrfs, at 64 KiB + 64, of the array's last life.
        let array = File::options().write(true).open(files.0.join("dev/md0"));
        array
            .unwrap()
            .write_all_at(b"_BHRfS_M", (64 << 10) + 64)
            .unwrap();
        Ok(String::new())
    });
    machine
        .create(&tools, &config(&[json!({})]), Label::GptUefi)
        .unwrap();
    let mut magic = [0; 8];
    let array = File::open(machine.dev("md0")).unwrap();
    array.read_exact_at(&mut magic, (64 << 10) + 64).unwrap();
    assert_eq!(magic, [0; 8]);
}

#[test]
fn deleting_empties_the_disks_and_keeps_what_is_to_be_kept() {
    let machine = Machine::new(&[("sda", 8), ("sdb", 8), ("sdc", 8), ("sdd", 8)]);
    let tools = machine.mdadm();
    let pair = |one: &str, other: &str| {
        let hint = |name: &str| json!({"name": machine.dev(name)});
        json!([hint(one), hint(other)])
    };
    let wanted = config(&[
        json!({"volume_name": "root", "size_gb": 4, "physical_disks": pair("sda", "sdb")}),
        json!({"volume_name": "data", "physical_disks": pair("sdc", "sdd")}),
    ]);
    machine.create(&tools, &wanted, Label::GptUefi).unwrap();
    let keep = json!({"skip_block_devices": [{"volume_name": "data"}]});
    machine.with(&tools, &keep, delete).unwrap();
    assert!(machine.parts("sda").is_empty() && machine.parts("sdb").is_empty());
    assert_eq!(machine.parts("sdc").len(), 1);
    let left = machine.with(&tools, &keep, |site| site.tree().arrays());
    let left: Vec<&str> = left.iter().map(|array| array.device.as_str()).collect();
    assert_eq!(left, ["md1"]);
    // Only mdadm's two calls: nothing else is needed to delete.
    assert_eq!(tools.calls().len(), 2);

    machine.with(&tools, &json!({}), delete).unwrap();
    assert!(machine.parts("sdc").is_empty());
}

#[test]
fn a_kept_volumes_neighbour_is_forgotten_and_the_disk_stays() {
    let machine = Machine::new(&[("sda", 8), ("sdb", 8)]);
    let tools = machine.mdadm();
    let wanted = config(&[
        json!({"volume_name": "root", "size_gb": 4}),
        json!({"volume_name": "data"}),
    ]);
    machine.create(&tools, &wanted, Label::Msdos).unwrap();
    let member = |write: bool| {
        let mut bytes = superblock("root");
        let disk = File::options()
            .write(true)
            .read(true)
            .open(machine.dev("sda"))
            .unwrap();
        match write {
            true => disk.write_all_at(&bytes, MIB + 4096).unwrap(),
            false => disk.read_exact_at(&mut bytes, MIB + 4096).unwrap(),
        }
        bytes
    };
    member(true);
    let keep = json!({"skip_block_devices": [{"volume_name": "data"}]});
    machine.with(&tools, &keep, delete).unwrap();
    assert_eq!(machine.parts("sda").len(), 2);
    assert_eq!(member(false), [0; 256]);
}

#[test]
fn what_half_of_an_array_is_left_goes_too() {
    let machine = Machine::new(&[("sda", 8), ("sdb", 8)]);
    let tools = machine.mdadm();
    machine
        .create(&tools, &config(&[json!({})]), Label::GptUefi)
        .unwrap();
    machine.files().gone("md0");
    // One member is left on a partition, one on a whole disk.
    let write = |name: &str, at: u64| {
        let disk = File::options().write(true).open(machine.dev(name)).unwrap();
        disk.write_all_at(&superblock("0"), at).unwrap();
    };
    write("sda", 551 * MIB + 4096);
    write("sdb", 0);
    machine.with(&tools, &json!({}), delete).unwrap();
    assert!(machine.parts("sda").is_empty() && machine.parts("sdb").is_empty());
    let mut bytes = [0; 4];
    let disk = File::open(machine.dev("sda")).unwrap();
    disk.read_exact_at(&mut bytes, 551 * MIB + 4096).unwrap();
    assert_eq!(bytes, [0; 4]);
}

#[test]
fn an_array_of_arrays_is_taken_apart_from_the_top() {
    let machine = Machine::new(&[("sda", 8), ("sdb", 8), ("sdc", 8), ("sdd", 8)]);
    let files = machine.files();
    files.array("md0", "left", "raid1", &["sda1", "sdb1"]);
    files.array("md1", "right", "raid1", &["sdc1", "sdd1"]);
    for below in ["md0", "md1"] {
        files.write(&format!("sys/block/{below}/holders/md9"), "");
        files.write(&format!("sys/block/md9/slaves/{below}"), "");
    }
    files.write("sys/block/md9/md/level", "raid0");
    files.write("sys/block/md9/size", "16777216");
    let node = File::create(machine.dev("md9")).unwrap();
    node.set_len(8 * GIB).unwrap();
    machine
        .with(&Double::default(), &json!({}), delete)
        .unwrap();
    let left = machine.with(&Double::default(), &json!({}), |site| site.tree().arrays());
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn an_array_that_is_mounted_is_not_deleted() {
    let machine = Machine::new(&[("sda", 8), ("sdb", 8)]);
    let tools = machine.mdadm();
    machine
        .create(&tools, &config(&[json!({})]), Label::GptUefi)
        .unwrap();
    let files = machine.files();
    files.write("sys/block/md0/dev", "9:0\n");
    files.write(
        "proc/self/mountinfo",
        "40 22 9:0 / /srv rw - ext4 /dev/nosuch rw\n",
    );
    let error = machine.with(&tools, &json!({}), delete).unwrap_err();
    assert_eq!(error.to_string(), "software RAID: md0 is mounted at /srv");
    assert_eq!(machine.parts("sda").len(), 1);
}

#[test]
fn whole_arrays_are_started_and_others_are_left() {
    let machine = Machine::new(&[("sda", 8), ("sdb", 8), ("sdc", 8)]);
    let files = machine.files();
    for part in ["sda1", "sdb1", "sdc1", "sda2", "sdb2"] {
        let disk = Files::disk_of(part);
        files.write(&format!("sys/block/{disk}/{part}/partition"), "1");
    }
    files.member("sda1", "0");
    files.member("sdb1", "0");
    files.member("sda2", "root");
    files.member("sdb2", "root");
    files.member("sdc1", "half");
    let tools = Double::default();
    machine.with(&tools, &json!({}), assemble).unwrap();
    let mut calls = machine.calls(&tools);
    calls.sort_unstable();
    assert_eq!(
        calls,
        [
            "mdadm --assemble /dev/md0 /dev/sda1 /dev/sdb1",
            "mdadm --assemble /dev/md0 /dev/sda2 /dev/sdb2",
        ],
        "the double starts none, so that the number stays free"
    );
}

#[test]
fn an_image_goes_to_the_root_volume() {
    let machine = Machine::new(&[("sda", 8), ("sdb", 8)]);
    let tools = machine.mdadm();
    let wanted = config(&[
        json!({"volume_name": "data"}),
        json!({"is_root_volume": true, "size_gb": 4}),
    ]);
    machine.create(&tools, &wanted, Label::GptUefi).unwrap();
    let root = |config: &Value| {
        machine.with(&tools, &json!({}), |site| {
            let disks = site.disks();
            root_volume(site, config.as_object().unwrap(), &disks)
        })
    };
    // It is the first: the other takes what is left.
    let found: Option<Disk> = root(&wanted).unwrap();
    assert_eq!(found.unwrap().name, "md0");
    let plain = config(&[json!({})]);
    assert_eq!(root(&plain).unwrap(), None);
    let other = config(&[json!({"is_root_volume": true, "volume_name": "gone"})]);
    let error = root(&other).unwrap_err().to_string();
    assert!(
        error.contains("\"gone\" of the node's RAID is not there; arrays: md0 (0, raid1), md1"),
        "{error}"
    );
}

#[test]
fn every_member_gets_the_firmwares_partition() {
    let machine = Machine::new(&[("sda", 8), ("sdb", 8)]);
    let tools = machine.mdadm();
    machine
        .create(&tools, &config(&[json!({})]), Label::GptUefi)
        .unwrap();
    // The image: a GPT with an EFI system partition of 16 MiB.
    let status = std::process::Command::new("/usr/sbin/sgdisk")
        .args(["-n", "1:2048:+16M", "-t", "1:ef00"])
        .arg(machine.dev("md0"))
        .output()
        .unwrap();
    assert!(status.status.success());
    let array = File::options()
        .write(true)
        .open(machine.dev("md0"))
        .unwrap();
    array.write_all_at(b"loader", 2 * MIB).unwrap();
    array.write_all_at(b"fat", MIB).unwrap();
    let bootable = machine.with(&tools, &json!({}), |site| {
        let disks = site.disks();
        let array = disks.iter().find(|disk| disk.name == "md0").unwrap();
        install_esps(site, array)
    });
    let bootable = bootable.unwrap();
    let names: Vec<&str> = bootable.iter().map(|one| one.disk.name.as_str()).collect();
    assert_eq!(names, ["sda", "sdb"]);
    assert!(bootable[0].partition.is_esp());
    assert_eq!(machine.parts("sda")[1], (2, 1, 550));
    assert_eq!(
        machine.calls(&tools)[1],
        "mdadm --create /dev/md127 --force --run --metadata=1.0 --homehost=any --name esp --level \
         1 --raid-devices 2 /dev/sda2 /dev/sdb2"
    );
    let read = |name: &str, at: u64, length: usize| {
        let mut bytes = vec![0; length];
        let file = File::open(machine.dev(name)).unwrap();
        file.read_exact_at(&mut bytes, at).unwrap();
        bytes
    };
    assert_eq!(read("md127", MIB, 6), b"loader");
    assert_eq!(read("md127", 0, 3), b"fat");
    assert_eq!(read("md0", MIB, 3), [0; 3], "one identity, one file system");
    // Again: what is there is used.
    array.write_all_at(b"fat", MIB).unwrap();
    machine.with(&tools, &json!({}), |site| {
        let disks = site.disks();
        let array = disks.iter().find(|disk| disk.name == "md0").unwrap();
        install_esps(site, array).unwrap();
    });
    assert_eq!(machine.parts("sda").len(), 2);
}

//! Who uses a disk, one of its partitions, or a file, as far as the kernel
//! tells.

use std::fs;
use std::fs::Metadata;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;

/// More users than this are counted, not listed.
const MOST: usize = 8;

/// What the kernel says about the system.
#[derive(Debug)]
pub(super) struct System {
    /// `/sys`.
    sys: PathBuf,
    /// `/proc/self/mountinfo`.
    mounts: String,
    /// `/proc/swaps`.
    swaps: String,
}

impl System {
    /// This system.
    pub(super) fn read() -> Self {
        Self {
            sys: PathBuf::from("/sys"),
            mounts: fs::read_to_string("/proc/self/mountinfo").unwrap_or_default(),
            swaps: fs::read_to_string("/proc/swaps").unwrap_or_default(),
        }
    }

    /// Whether the block device `rdev` is a partition of a disk.
    pub(super) fn is_partition(&self, rdev: u64) -> bool {
        self.device(rdev).join("partition").exists()
    }

    /// Users of the block device `rdev`, of its partitions, and of the disk
    /// that it is a partition of.
    pub(super) fn users_of_device(&self, rdev: u64) -> Vec<String> {
        let device = self.device(rdev);
        let mut parts = vec![device.clone()];
        parts.extend(
            entries(&device)
                .into_iter()
                .filter(|entry| entry.join("partition").exists()),
        );
        let mut users = Vec::new();
        for part in parts {
            let Ok(number) = fs::read_to_string(part.join("dev")) else {
                continue;
            };
            let (number, name) = (number.trim(), name_of(&part));
            self.mounts_of(number, &name, &mut users);
            self.swaps_of(&name, &mut users, |found| {
                device_number(found.rdev()) == number
            });
            self.holders_of(&part, &name, &mut users);
        }
        if self.is_partition(rdev)
            && let Ok(real) = fs::canonicalize(&device)
            && let Some(disk) = real.parent()
        {
            self.holders_of(disk, &name_of(disk), &mut users);
        }
        shorten(users)
    }

    /// Users of a plain file: loop devices over it, and swap.
    pub(super) fn users_of_file(&self, file: &Metadata) -> Vec<String> {
        let same = |found: &Metadata| (found.dev(), found.ino()) == (file.dev(), file.ino());
        let mut users = Vec::new();
        for device in entries(&self.sys.join("block")) {
            let attached = fs::read_to_string(device.join("loop/backing_file"))
                .ok()
                .and_then(|path| fs::metadata(path.trim_end_matches('\n')).ok())
                .is_some_and(|found| same(&found));
            if attached {
                users.push(format!("it is the loop device {}", name_of(&device)));
            }
        }
        self.swaps_of("it", &mut users, same);
        shorten(users)
    }

    /// Whether two files are one, one device, or a loop device and the file
    /// behind it.
    pub(super) fn same_storage(&self, one: &Metadata, other: &Metadata) -> bool {
        self.storage(one) == self.storage(other)
    }

    /// Where the bytes are: device number of a block device, else device and
    /// inode of a file.
    fn storage(&self, found: &Metadata) -> (u64, Option<u64>) {
        if !found.file_type().is_block_device() {
            return (found.dev(), Some(found.ino()));
        }
        let behind = fs::read_to_string(self.device(found.rdev()).join("loop/backing_file"))
            .ok()
            .and_then(|path| fs::metadata(path.trim_end_matches('\n')).ok());
        match behind {
            Some(file) if file.is_file() => (file.dev(), Some(file.ino())),
            _ => (found.rdev(), None),
        }
    }

    fn device(&self, rdev: u64) -> PathBuf {
        self.sys.join("dev/block").join(device_number(rdev))
    }

    /// Mounts of a device, by its number; filesystems that have a number of
    /// their own (btrfs) by the device that they name.
    fn mounts_of(&self, number: &str, name: &str, users: &mut Vec<String>) {
        for mount in self.mounts.lines() {
            let fields: Vec<&str> = mount.split(' ').collect();
            let Some(place) = fields.get(4) else {
                continue;
            };
            let source = fields
                .iter()
                .position(|field| *field == "-")
                .and_then(|at| fields.get(at + 2))
                .map(|source| unescape(source))
                .filter(|source| source.starts_with('/'));
            let by_source = || {
                source
                    .and_then(|source| fs::metadata(source).ok())
                    .is_some_and(|found| device_number(found.rdev()) == number)
            };
            if fields.get(2) == Some(&number) || by_source() {
                users.push(format!("{name} is mounted on {}", unescape(place)));
            }
        }
    }

    fn swaps_of(&self, name: &str, users: &mut Vec<String>, same: impl Fn(&Metadata) -> bool) {
        for swap in self.swaps.lines().skip(1) {
            let path = unescape(swap.split_whitespace().next().unwrap_or_default());
            if fs::metadata(path).is_ok_and(|found| same(&found)) {
                users.push(format!("{name} is swap space"));
            }
        }
    }

    fn holders_of(&self, part: &Path, name: &str, users: &mut Vec<String>) {
        for holder in entries(&part.join("holders")) {
            let holder = self.sys.join("block").join(name_of(&holder));
            users.push(format!("{name} is held by {}", kind_of(&holder)));
        }
    }
}

/// What a device on top of another one is, with the name people know it by.
fn kind_of(holder: &Path) -> String {
    let name = name_of(holder);
    let read = |attribute: &str| {
        let text = fs::read_to_string(holder.join(attribute)).unwrap_or_default();
        text.trim().to_owned()
    };
    let (mapped, uuid, level) = (read("dm/name"), read("dm/uuid"), read("md/level"));
    let kind = match uuid.split('-').next().unwrap_or_default() {
        "LVM" => "the LVM volume",
        "mpath" => "the multipath device",
        "CRYPT" => "the encrypted volume",
        _ => "the mapped device",
    };
    if !mapped.is_empty() {
        format!("{kind} {mapped} ({name})")
    } else if !level.is_empty() {
        format!("the RAID {name} ({level})")
    } else {
        name
    }
}

/// Entries of a directory, in order; none where there is no directory.
fn entries(path: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(path)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

/// The kernel's name of the device whose directory this is.
fn name_of(path: &Path) -> String {
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let name = real.file_name().unwrap_or(real.as_os_str());
    name.to_string_lossy().into_owned()
}

fn shorten(mut users: Vec<String>) -> Vec<String> {
    users.dedup();
    let more = users.len().saturating_sub(MOST);
    users.truncate(MOST);
    if more > 0 {
        users.push(format!("and {more} more"));
    }
    users
}

fn device_number(rdev: u64) -> String {
    format!(
        "{}:{}",
        nix::sys::stat::major(rdev),
        nix::sys::stat::minor(rdev)
    )
}

/// The kernel writes blanks and backslashes in its lists as `\040` and so on.
fn unescape(text: &str) -> String {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let octal = after.first_chunk::<3>().filter(|_| *first == b'\\');
        let byte = octal
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        out.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[3..] } else { after };
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_of_the_kernel_are_undone() {
        for (text, plain) in [
            ("/mnt/a\\040b\\134c", "/mnt/a b\\c"),
            ("plain", "plain"),
            ("\\9zz\\04", "\\9zz\\04"),
        ] {
            assert_eq!(unescape(text), plain);
        }
    }

    #[test]
    fn the_disk_below_the_root_is_in_use() {
        // Whatever is mounted on / here, if it is a disk at all.
        let device = fs::metadata("/").unwrap().dev();
        let system = System::read();
        if system.device(device).exists() {
            let users = system.users_of_device(device);
            assert!(users.iter().any(|user| user.contains("is mounted on /")));
        }
    }

    #[test]
    fn holders_are_named_by_what_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let sys = dir.path();
        let put = |path: &str, text: &str| {
            let path = sys.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let disk = sys.join("devices/sda");
        put("devices/sda/dev", "8:0\n");
        put("devices/sda/sda1/dev", "8:1\n");
        put("devices/sda/sda1/partition", "1\n");
        put("devices/sda/sda2/dev", "8:2\n");
        put("devices/sda/sda2/partition", "2\n");
        fs::create_dir_all(sys.join("dev/block")).unwrap();
        std::os::unix::fs::symlink(&disk, sys.join("dev/block/8:0")).unwrap();
        std::os::unix::fs::symlink(disk.join("sda2"), sys.join("dev/block/8:2")).unwrap();
        for (holder, part, attributes) in [
            ("md127", "sda1", &[("md/level", "raid1\n")][..]),
            (
                "dm-0",
                "sda2",
                &[("dm/name", "vg-root\n"), ("dm/uuid", "LVM-abc\n")],
            ),
            (
                "dm-1",
                "",
                &[("dm/name", "mpatha\n"), ("dm/uuid", "mpath-3600\n")],
            ),
        ] {
            put(&format!("devices/sda/{part}/holders/{holder}"), "");
            for (attribute, text) in attributes {
                put(&format!("block/{holder}/{attribute}"), text);
            }
        }
        let system = System {
            sys: sys.to_owned(),
            mounts: "30 1 8:1 / /mnt/a\\040b rw - ext4 /dev/none rw\n".to_owned(),
            swaps: String::new(),
        };
        assert_eq!(
            system.users_of_device(nix::sys::stat::makedev(8, 0)),
            [
                "sda is held by the multipath device mpatha (dm-1)",
                "sda1 is mounted on /mnt/a b",
                "sda1 is held by the RAID md127 (raid1)",
                "sda2 is held by the LVM volume vg-root (dm-0)",
            ]
        );
        let partition = nix::sys::stat::makedev(8, 2);
        assert!(system.is_partition(partition));
        assert_eq!(
            system.users_of_device(partition),
            [
                "sda2 is held by the LVM volume vg-root (dm-0)",
                "sda is held by the multipath device mpatha (dm-1)",
            ]
        );
    }
}

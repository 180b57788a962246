//! Which disks this machine has.

use std::cmp::Ordering;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::path::PathBuf;

use crate::disk::device::Disk;
use crate::disk::device::Partition;
use crate::disk::identity;
use crate::disk::in_use::Uses;
use crate::disk::links;
use crate::disk::sysfs;

/// Sysfs counts in these, whatever the sector size of the device.
const SYSFS_SECTOR: u64 = 512;
/// Kernel name prefixes that are never disks.
const NEVER: [&str; 9] = [
    "ram", "zram", "fd", "sr", "mtdblock", "nbd", "bcache", "drbd", "zd",
];

/// Where the kernel's views are; tests point it at trees of their own.
#[derive(Debug, Clone)]
pub struct Enumerator {
    /// `/sys`
    pub sys: PathBuf,
    /// `/dev`
    pub dev: PathBuf,
    /// `/proc`
    pub proc: PathBuf,
    /// When not empty: only these disks exist. They may be loop devices and
    /// plain files.
    pub only: Vec<PathBuf>,
}

impl Enumerator {
    /// The running machine, restricted to `only` unless that is empty.
    pub fn new(only: &[PathBuf]) -> Self {
        Self {
            sys: PathBuf::from("/sys"),
            dev: PathBuf::from("/dev"),
            proc: PathBuf::from("/proc"),
            only: only.to_vec(),
        }
    }

    /// All disks in a fixed order: by name, numbers and letters counted up
    /// (`sdb` before `sdaa`, `nvme2n1` before `nvme10n1`).
    pub fn disks(&self) -> Vec<Disk> {
        let only: Vec<PathBuf> = self.only.iter().map(|path| resolve(path)).collect();
        let uses = Uses::read(&self.proc, &self.sys);
        let mut disks: Vec<Disk> = sysfs::names(&self.sys.join("block"))
            .into_iter()
            .filter_map(|name| self.disk(&name, &uses, &only))
            .collect();
        if only.is_empty() {
            let paths = self.multipath_members();
            disks.retain(|disk| !paths.contains(&disk.name));
        }
        for path in &only {
            if let Some(disk) = file_as_disk(path) {
                disks.push(disk);
            }
        }
        disks.sort_by(|a, b| natural(&a.name, &b.name));
        disks
    }

    fn disk(&self, name: &str, uses: &Uses, only: &[PathBuf]) -> Option<Disk> {
        let link = self.sys.join("block").join(name);
        let path = self.dev.join(name.replace('!', "/"));
        if only.is_empty() {
            if !is_disk(name, &link) {
                return None;
            }
        } else if !only.contains(&resolve(&path)) {
            return None;
        }
        let size = sysfs::number(&link.join("size"))?.checked_mul(SYSFS_SECTOR)?;
        if size == 0 || sysfs::flag(&link.join("hidden")) {
            return None;
        }
        let sector = |file: &str| {
            let bytes = sysfs::number(&link.join("queue").join(file));
            bytes
                .and_then(|bytes| u32::try_from(bytes).ok())
                .filter(|bytes| *bytes >= 512)
        };
        let logical = sector("logical_block_size").unwrap_or(512);
        let mut disk = Disk {
            name: name.to_owned(),
            size,
            rotational: sysfs::flag(&link.join("queue/rotational")),
            removable: sysfs::flag(&link.join("removable")),
            read_only: sysfs::flag(&link.join("ro")),
            logical_sector: logical,
            physical_sector: sector("physical_block_size").unwrap_or(logical),
            partitions: partitions(&link),
            path,
            ..Disk::default()
        };
        // A multipath device is the disk that its paths lead to.
        let first = is_multipath(&link)
            .then(|| sysfs::names(&link.join("slaves")))
            .and_then(|slaves| slaves.into_iter().next());
        let described = match first {
            Some(slave) => self.sys.join("block").join(slave),
            None => link.clone(),
        };
        identity::fill(&mut disk, &resolve(&described));
        if is_multipath(&link) {
            // The way is not one of them.
            disk.by_path = None;
            disk.links
                .retain(|text| !text.starts_with("/dev/disk/by-path/"));
        }
        disk.links.extend(links::of_device(&link));
        self.fill_links(&mut disk);
        disk.in_use = uses.reason(name, &link).or_else(|| {
            disk.partitions.iter().find_map(|partition| {
                let reason = uses.reason(&partition.name, &link.join(&partition.name))?;
                Some(format!("{} {reason}", partition.name))
            })
        });
        Some(disk)
    }

    /// Links that udev made, where there is a udev. They win over those that
    /// we have worked out.
    fn fill_links(&self, disk: &mut Disk) {
        let node = resolve(&disk.path);
        let root = self.dev.join("disk");
        let mut found = Vec::new();
        for folder in ["by-path", "by-id"] {
            for name in sysfs::names(&root.join(folder)) {
                let link = root.join(folder).join(&name);
                if fs::canonicalize(&link).is_ok_and(|target| target == node) {
                    found.push(format!("/dev/disk/{folder}/{name}"));
                }
            }
        }
        let path = found
            .iter()
            .rev()
            .find(|link| link.starts_with("/dev/disk/by-path/"));
        if let Some(path) = path.cloned() {
            found.extend(disk.by_path.replace(path));
        }
        found.append(&mut disk.links);
        found.dedup();
        disk.links = found;
    }

    /// Names of the disks that are only paths to a multipath device, which
    /// is listed itself: one disk must not be there twice.
    fn multipath_members(&self) -> Vec<String> {
        let block = self.sys.join("block");
        sysfs::names(&block)
            .into_iter()
            .filter(|name| is_multipath(&block.join(name)))
            .flat_map(|name| sysfs::names(&block.join(name).join("slaves")))
            .collect()
    }
}

fn resolve(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn is_multipath(directory: &Path) -> bool {
    sysfs::text(&directory.join("dm/uuid")).is_some_and(|uuid| uuid.starts_with("mpath-"))
}

fn is_disk(name: &str, directory: &Path) -> bool {
    if name.starts_with("loop") {
        return false;
    }
    if name.starts_with("dm-") {
        // Of the device mapper only whole disks: multipath and firmware RAID.
        let uuid = sysfs::text(&directory.join("dm/uuid")).unwrap_or_default();
        return uuid.starts_with("mpath-") || uuid.starts_with("DMRAID-");
    }
    if name.starts_with("mmcblk") && (name.contains("boot") || name.contains("rpmb")) {
        return false;
    }
    let numbered = |prefix: &str| {
        name.strip_prefix(prefix)
            .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    !NEVER.iter().any(|prefix| numbered(prefix))
}

fn partitions(directory: &Path) -> Vec<Partition> {
    let mut partitions: Vec<Partition> = sysfs::names(directory)
        .into_iter()
        .filter_map(|name| {
            let child = directory.join(&name);
            let number = sysfs::number(&child.join("partition"))?;
            Some(Partition {
                number: u32::try_from(number).ok()?,
                start: sysfs::number(&child.join("start"))?.checked_mul(SYSFS_SECTOR)?,
                size: sysfs::number(&child.join("size"))?.checked_mul(SYSFS_SECTOR)?,
                name,
            })
        })
        .collect();
    partitions.sort_by_key(|partition| partition.number);
    partitions
}

/// A plain file that stands in for a disk, when it was named.
fn file_as_disk(path: &Path) -> Option<Disk> {
    let metadata = fs::metadata(path).ok()?;
    if metadata.file_type().is_block_device() || !metadata.is_file() || metadata.len() == 0 {
        return None;
    }
    Some(Disk {
        name: path.file_name()?.to_str()?.to_owned(),
        path: path.to_owned(),
        size: metadata.len(),
        read_only: metadata.permissions().readonly(),
        logical_sector: 512,
        physical_sector: 4096,
        ..Disk::default()
    })
}

/// Order of kernel names: pieces of digits by value, pieces of letters with
/// the same two first letters by length and then by letter.
fn natural(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (pieces(a).into_iter(), pieces(b).into_iter());
    loop {
        let order = match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(a), Some(b)) => compare_pieces(a, b),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

fn pieces(name: &str) -> Vec<&str> {
    name.as_bytes()
        .chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit())
        .filter_map(|piece| std::str::from_utf8(piece).ok())
        .collect()
}

fn compare_pieces(a: &str, b: &str) -> Ordering {
    let number = |text: &str| text.parse::<u64>().ok();
    if let (Some(a), Some(b)) = (number(a), number(b)) {
        return a.cmp(&b);
    }
    if a.get(..2) == b.get(..2) {
        return a.len().cmp(&b.len()).then_with(|| a.cmp(b));
    }
    a.cmp(b)
}

#[cfg(test)]
mod tests;

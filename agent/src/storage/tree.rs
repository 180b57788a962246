//! Which block devices stand on which, as sysfs shows it.

use std::fs;
use std::path::Path;
use std::path::PathBuf;

use super::md::Array;
use crate::disk::sysfs;

/// The kernel's view of block devices, by kernel names.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    sys: PathBuf,
    dev: PathBuf,
}

impl Tree {
    /// Tests have trees of their own.
    pub(crate) fn new(sys: &Path, dev: &Path) -> Self {
        Self {
            sys: sys.to_owned(),
            dev: dev.to_owned(),
        }
    }

    /// A device's directory; of a partition the one in its disk.
    pub(crate) fn directory(&self, name: &str) -> PathBuf {
        let whole = self.sys.join("block").join(name);
        if whole.is_dir() {
            return whole;
        }
        let disks = sysfs::names(&self.sys.join("block"));
        let within = disks.into_iter().find_map(|disk| {
            let child = self.sys.join("block").join(disk).join(name);
            child.join("partition").is_file().then_some(child)
        });
        within.unwrap_or(whole)
    }

    /// A device's node.
    pub(crate) fn node(&self, name: &str) -> PathBuf {
        self.dev.join(name.replace('!', "/"))
    }

    /// Its size in bytes; 0 also when it is not known.
    pub(crate) fn size(&self, name: &str) -> u64 {
        let sectors = sysfs::number(&self.directory(name).join("size"));
        sectors.unwrap_or_default().saturating_mul(512)
    }

    /// The device and its partitions.
    pub(crate) fn with_partitions(&self, name: &str) -> Vec<String> {
        let directory = self.directory(name);
        let mut parts = vec![name.to_owned()];
        parts.extend(
            sysfs::names(&directory)
                .into_iter()
                .filter(|child| directory.join(child).join("partition").is_file()),
        );
        parts
    }

    /// The disk that a partition is of, or the device itself.
    pub(crate) fn whole(&self, name: &str) -> String {
        let directory = self.directory(name);
        if !directory.join("partition").is_file() {
            return name.to_owned();
        }
        let parent = directory.parent().and_then(Path::file_name);
        parent.map_or_else(
            || name.to_owned(),
            |parent| parent.to_string_lossy().into_owned(),
        )
    }

    /// What stands on a device or its partitions, each once.
    pub(crate) fn above(&self, name: &str) -> Vec<String> {
        let mut above: Vec<String> = Vec::new();
        for part in self.with_partitions(name) {
            for holder in sysfs::names(&self.directory(&part).join("holders")) {
                if !above.contains(&holder) {
                    above.push(holder);
                }
            }
        }
        above
    }

    /// What a device stands on.
    pub(crate) fn below(&self, name: &str) -> Vec<String> {
        sysfs::names(&self.directory(name).join("slaves"))
    }

    /// Whether a mapping is a disk of its own: multipath and firmware RAID.
    pub(crate) fn is_whole_disk(&self, name: &str) -> bool {
        let uuid = sysfs::text(&self.directory(name).join("dm/uuid")).unwrap_or_default();
        uuid.starts_with("mpath-") || uuid.starts_with("DMRAID-")
    }

    /// The name of a device mapping.
    pub(crate) fn mapping(&self, name: &str) -> Option<String> {
        sysfs::text(&self.directory(name).join("dm/name"))
    }

    /// An md array, also one that does not run.
    pub(crate) fn array(&self, name: &str) -> Option<Array> {
        let directory = self.directory(name).join("md");
        fs::metadata(&directory).ok()?;
        Some(Array::read(self, name, &directory))
    }

    /// All md arrays that have members, by name.
    pub(crate) fn arrays(&self) -> Vec<Array> {
        sysfs::names(&self.sys.join("block"))
            .into_iter()
            .filter_map(|name| self.array(&name))
            .filter(|array| !array.members.is_empty())
            .collect()
    }
}

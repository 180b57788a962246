//! Storage that is stacked on disks: LVM, dm-crypt and other mappings, md
//! arrays. What stands on top is taken down before what it stands on, by
//! ioctls, without a tool.

mod kernel;
mod md;
mod tree;

pub(crate) use kernel::Kernel;
pub(crate) use kernel::Real;
pub(crate) use md::Array;
pub(crate) use md::Member;
pub(crate) use tree::Tree;

use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;

use crate::disk;
use crate::disk::Disk;
use crate::disk::Uses;

/// What a device on top goes through before it is stopped: whatever lies on it
/// must not come back with it.
pub type Wipe<'a> = &'a (dyn Fn(&Path) -> Result<(), disk::Error> + Sync);

/// What became of the storage that was stacked on some disks.
#[derive(Debug, Default)]
pub struct TearDown {
    /// What was stopped, in order, for people.
    pub stopped: Vec<String>,
    /// Disks that something still stands on, with the reason.
    pub failures: Vec<(PathBuf, String)>,
    /// Disks that were left because a volume on them is to be kept.
    pub kept: Vec<PathBuf>,
}

/// Takes down what is stacked on these whole disks, top-down. Never touches what
/// is mounted or swapped to, nor md arrays whose name is in `keep` and what
/// stands on them. `wipe` is called with each device on top, its partitions
/// first, just before it is stopped.
pub fn tear_down(disks: &[Disk], keep: &[String], wipe: Wipe<'_>) -> TearDown {
    let tree = Tree::new(Path::new("/sys"), Path::new("/dev"));
    let uses = Uses::read(Path::new("/proc"), Path::new("/sys"));
    Work {
        tree: &tree,
        uses: &uses,
        kernel: &Real,
        keep,
        wipe,
        ends: BTreeMap::new(),
        stopped: Vec::new(),
    }
    .all(disks)
}

/// How the look at one device on top ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is no more.
    Stopped,
    /// It stays, as was asked for.
    Kept,
    /// It is a whole disk itself, which goes its own way.
    Disk,
    /// It stays, though it should not.
    Failed(String),
}

/// One round of taking down.
pub(crate) struct Work<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) uses: &'a Uses,
    pub(crate) kernel: &'a dyn Kernel,
    pub(crate) keep: &'a [String],
    pub(crate) wipe: Wipe<'a>,
    /// By kernel name: several disks may carry one device.
    pub(crate) ends: BTreeMap<String, Fate>,
    pub(crate) stopped: Vec<String>,
}

impl Work<'_> {
    /// Takes down what stands on these disks.
    pub(crate) fn all(mut self, disks: &[Disk]) -> TearDown {
        let mut done = TearDown::default();
        for disk in disks {
            // A plain file in a disk's place carries nothing, whatever its name.
            if disk.path != self.tree.node(&disk.name) {
                continue;
            }
            // An array that does not run is told by its members alone.
            let member = |name: &String| Member::of_device(&self.tree.node(name));
            let mut members = self.tree.with_partitions(&disk.name);
            members
                .retain(|name| member(name).is_some_and(|member| self.keep.contains(&member.name)));
            if !members.is_empty() {
                done.kept.push(disk.path.clone());
                continue;
            }
            match self.above(&disk.name) {
                Fate::Stopped | Fate::Disk => {}
                Fate::Kept => done.kept.push(disk.path.clone()),
                Fate::Failed(reason) => done.failures.push((disk.path.clone(), reason)),
            }
        }
        done.stopped = self.stopped;
        done
    }

    /// Takes down all that stands on a device and its partitions. A failure
    /// goes before a volume that is kept.
    pub(crate) fn above(&mut self, name: &str) -> Fate {
        let mut fate = Fate::Stopped;
        for holder in self.tree.above(name) {
            match (self.one(&holder), &fate) {
                (Fate::Failed(reason), _) => return Fate::Failed(reason),
                (Fate::Kept, _) => fate = Fate::Kept,
                (Fate::Disk, Fate::Stopped) => fate = Fate::Disk,
                (Fate::Stopped | Fate::Disk, _) => {}
            }
        }
        fate
    }

    /// Takes down a device with all that stands on it.
    pub(crate) fn one(&mut self, name: &str) -> Fate {
        if let Some(fate) = self.ends.get(name) {
            return fate.clone();
        }
        // A device that stands on itself would go round in a circle.
        let circle = Fate::Failed(format!("{name} stands on itself"));
        self.ends.insert(name.to_owned(), circle);
        let fate = self.look(name);
        self.ends.insert(name.to_owned(), fate.clone());
        fate
    }

    fn look(&mut self, name: &str) -> Fate {
        if self.tree.is_whole_disk(name) {
            return Fate::Disk;
        }
        let array = self.tree.array(name);
        if let Some(array) = &array
            && array.is_named(self.keep)
        {
            return Fate::Kept;
        }
        match self.above(name) {
            Fate::Stopped => {}
            Fate::Kept => return Fate::Kept,
            Fate::Disk => return Fate::Failed(format!("{name} is part of a multipath disk")),
            Fate::Failed(reason) => return Fate::Failed(reason),
        }
        for part in self.tree.with_partitions(name) {
            if let Some(reason) = self.uses.mounted(&part, &self.tree.directory(&part)) {
                return Fate::Failed(format!("{part} is {reason}"));
            }
        }
        match self.stop(name, array.as_ref()) {
            Ok(what) => {
                tracing::info!("{what} stopped");
                self.stopped.push(what);
                Fate::Stopped
            }
            Err(reason) => Fate::Failed(reason),
        }
    }

    fn stop(&self, name: &str, array: Option<&Array>) -> Result<String, String> {
        let mut parts = self.tree.with_partitions(name);
        // The device itself comes last.
        parts.rotate_left(1);
        // An array that never ran has no size and nothing on it.
        if self.tree.size(name) > 0 {
            for part in &parts {
                let path = self.tree.node(part);
                (self.wipe)(&path).map_err(|error| {
                    let cause = crate::command::CommandFailure::chain(&error);
                    format!("{part} could not be wiped: {cause}")
                })?;
            }
        }
        if array.is_some() {
            let path = self.tree.node(name);
            self.kernel
                .stop_md(&path)
                .map_err(|error| format!("array {name} could not be stopped: {error}"))?;
            return Ok(format!("array {name}"));
        }
        let Some(mapping) = self.tree.mapping(name) else {
            return Err(format!(
                "{name} stands on it, and is neither an md array nor a device mapping; stop it by \
                 hand"
            ));
        };
        self.kernel
            .remove_dm(&mapping)
            .map_err(|error| format!("mapping {mapping} ({name}) could not be removed: {error}"))?;
        Ok(format!("mapping {mapping} ({name})"))
    }
}

#[cfg(test)]
mod tests;

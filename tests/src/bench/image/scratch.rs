//! Folders for what a benchmark leaves behind while it runs.

use std::fs;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;
use nix::sys::statvfs::statvfs;

/// Where files lie in memory.
pub(super) const MEMORY: &str = "/dev/shm";
/// What downloads need there.
const NEEDED: u64 = 2 << 30;
const PREFIX: &str = "wrought-bench-";

/// A folder that goes with its owner; one whose owner was killed goes when
/// the next is made.
#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// A new folder below `parent`.
    pub(super) fn new(parent: &Path) -> Result<Self> {
        sweep(parent);
        let name = format!("{PREFIX}{}", std::process::id());
        let path = parent.join(name);
        fs::create_dir_all(&path).with_context(|| format!("creating {}", path.display()))?;
        Ok(Self(path))
    }

    /// A new folder in memory, where there is room.
    pub(super) fn in_memory() -> Option<Self> {
        let about = statvfs(MEMORY).ok()?;
        let free = about.blocks_available() * about.fragment_size();
        (free >= NEEDED)
            .then(|| Self::new(Path::new(MEMORY)).ok())
            .flatten()
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Removes the folders of processes that are gone.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if let Some(Ok(pid)) = owner.map(str::parse::<u32>)
            && !Path::new("/proc").join(pid.to_string()).exists()
        {
            fs::remove_dir_all(entry.path()).ok();
        }
    }
}

//! What images are written to: a loop device or a file, as empty before each
//! run as before the first, and gone with the benchmark.

use std::fs;
use std::fs::File;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;

use super::plan::Place;
use crate::bench::loop_device::Loop;
use crate::bench::loop_device::settle;

/// A place to write to.
#[derive(Debug)]
pub(super) enum Target {
    Loop(Loop),
    File { path: PathBuf, size: u64 },
}

impl Target {
    /// Makes one of `size` bytes in `folder`.
    pub(super) fn new(place: Place, folder: &Path, size: u64) -> Result<Self> {
        let path = folder.join("target");
        Ok(match place {
            Place::Loop => Self::Loop(Loop::new(&path, size)?),
            Place::File => Self::File { path, size },
        })
    }

    /// What a command writes to.
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Loop(device) => device.path(),
            Self::File { path, .. } => path,
        }
    }

    /// Empties it, and has what earlier runs left in caches written out.
    pub(super) fn reset(&self) -> Result<()> {
        match self {
            Self::Loop(device) => device.reset(),
            Self::File { path, size } => {
                fs::remove_file(path).ok();
                let file =
                    File::create(path).with_context(|| format!("making {}", path.display()))?;
                file.set_len(*size)?;
                settle(&file)
            }
        }
    }
}

//! Files out of unpacked distribution packages.

use std::fs;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;

/// Folders of unpacked packages, searched in order.
#[derive(Debug, Clone)]
pub struct Parts {
    dirs: Vec<PathBuf>,
}

impl Parts {
    /// Packages are unpacked in `dirs`.
    pub fn new(dirs: Vec<PathBuf>) -> Self {
        Self { dirs }
    }

    /// Names of the folders: they carry the packages' versions.
    pub(crate) fn versions(&self) -> Vec<String> {
        let name = |dir: &PathBuf| dir.file_name().map(|n| n.to_string_lossy().into_owned());
        self.dirs.iter().filter_map(name).collect()
    }

    /// Where the file or folder `path` of one of the packages lies.
    pub(crate) fn find(&self, path: &str) -> Result<PathBuf> {
        let found = self
            .dirs
            .iter()
            .map(|dir| dir.join(path))
            .find(|p| p.exists());
        found.with_context(|| {
            format!(
                "none of the packages {} has {path}",
                self.versions().join(", ")
            )
        })
    }

    /// Content of the file `path` of one of the packages.
    pub(crate) fn read(&self, path: &str) -> Result<Vec<u8>> {
        let path = self.find(path)?;
        fs::read(&path).with_context(|| format!("reading {}", path.display()))
    }

    /// The one kernel: its version and image.
    pub(crate) fn kernel(&self) -> Result<(String, Vec<u8>)> {
        for dir in &self.dirs {
            if let Some(version) = kernel_version(&dir.join("boot")) {
                let image = self.read(&format!("boot/vmlinuz-{version}"))?;
                return Ok((version, image));
            }
        }
        anyhow::bail!(
            "none of the packages {} has a kernel",
            self.versions().join(", ")
        )
    }
}

/// Version of the first `vmlinuz-*` in a folder.
pub(crate) fn kernel_version(boot: &Path) -> Option<String> {
    let names = fs::read_dir(boot).ok()?.flatten().map(|e| e.file_name());
    names
        .filter_map(|n| n.to_str()?.strip_prefix("vmlinuz-").map(str::to_owned))
        .min()
}

//! Where things lie: the project's artefacts, this build's binaries, tools.

use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;

use crate::Unavailable;

/// The folders that a run reads from and writes to.
#[derive(Debug, Clone)]
pub struct Paths {
    /// The checkout.
    pub root: PathBuf,
    /// Kernel, initramfs, ESP image.
    pub ramdisk: PathBuf,
    /// Deployable images with their checksum files.
    pub images: PathBuf,
    /// Runs of the harness, one folder each.
    pub runs: PathBuf,
    /// The private virtualenv that `cargo xtask setup` fills.
    pub venv: PathBuf,
    binaries: PathBuf,
}

impl Paths {
    /// Finds everything from where this crate was built and where this
    /// binary runs.
    pub fn find() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .context("the crate has no parent folder")?
            .to_owned();
        let target = root.join("target");
        let own = std::env::current_exe().context("asking for the path of this binary")?;
        let binaries = own
            .parent()
            .context("this binary has no parent folder")?
            .to_owned();
        Ok(Self {
            ramdisk: target.join("ramdisk"),
            images: target.join("images"),
            runs: target.join("harness"),
            venv: target.join("tools/venv"),
            root,
            binaries,
        })
    }

    /// A binary of this build, which lies beside the harness.
    pub fn binary(&self, name: &str) -> Result<PathBuf> {
        existing(self.binaries.join(name), &format!("cargo build -p {name}"))
    }

    /// A program of the virtualenv.
    pub fn tool(&self, name: &str) -> Result<PathBuf> {
        existing(self.venv.join("bin").join(name), "cargo xtask setup")
    }

    /// A file of the ramdisk.
    pub fn ramdisk_file(&self, name: &str) -> Result<PathBuf> {
        existing(self.ramdisk.join(name), "cargo xtask ramdisk")
    }

    /// An image by its short name, such as `debian`.
    pub fn image(&self, name: &str) -> Result<PathBuf> {
        existing(
            self.images.join(format!("{name}.qcow2")),
            &format!("cargo xtask image {name}"),
        )
    }
}

/// The path if something is there, else an error that says how to make it.
pub fn existing(path: PathBuf, made_by: &str) -> Result<PathBuf> {
    if path.exists() {
        return Ok(path);
    }
    Err(Unavailable(format!(
        "{} is missing; `{made_by}` makes it",
        path.display()
    ))
    .into())
}

/// A system file from the first of several places, or an error that names
/// the package.
pub fn system_file(places: &[&str], package: &str) -> Result<PathBuf> {
    places
        .iter()
        .map(PathBuf::from)
        .find(|path| path.exists())
        .ok_or_else(|| {
            Unavailable(format!(
                "none of {} is there; install the package {package}, or run `cargo xtask setup`",
                places.join(", ")
            ))
            .into()
        })
}

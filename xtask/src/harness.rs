//! Runs the harness (`wrought-harness` of the `tests` crate) on what it needs:
//! server, agent, ramdisk and images, each built when it is not up to date.

use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;

/// Builds the server, the harness, the agent, the ramdisk and the named images.
pub fn prepare(root: &Path, images: &[&str]) -> Result<()> {
    build_host(root)?;
    crate::ramdisk::build(root)?;
    for image in images {
        crate::image::build(root, image)?;
    }
    Ok(())
}

/// Builds the programs that run on this machine.
fn build_host(root: &Path) -> Result<()> {
    let status = Command::new("cargo")
        .args(["build", "--quiet", "--workspace", "--bins"])
        .current_dir(root)
        .status()
        .context("running cargo build")?;
    if !status.success() {
        bail!("`cargo build --workspace --bins` failed ({status}); see above");
    }
    Ok(())
}

/// Runs the harness with its output inherited; its exit code becomes ours when
/// it is not zero.
pub fn run(root: &Path, args: &[&str]) -> Result<()> {
    let program = binary(root, "wrought-harness");
    let status = Command::new(&program)
        .args(args)
        .current_dir(root)
        .status()
        .with_context(|| format!("running {}", program.display()))?;
    match status.code() {
        Some(0) => Ok(()),
        Some(code) => Err(crate::Exit(code).into()),
        None => bail!("{} was ended by a signal ({status})", program.display()),
    }
}

/// Where cargo puts a program of the development profile.
fn binary(root: &Path, name: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    target.join("debug").join(name)
}

//! GRUB's image for CDs, which a BIOS starts: made by the distribution's
//! `grub-mkimage` of the modules in its package.

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;

use crate::disc::GRUB_MODULES;

/// Makes the image out of unpacked packages: `grub-common`, `grub-pc-bin` and
/// the library that the former needs. It reads `GRUB.CFG` in the root of its
/// disc.
pub(crate) fn bios_image(packages: &[PathBuf], work: &Path) -> Result<Vec<u8>> {
    let out = work.join("bios.img.partial");
    let program = find(packages, "usr/bin/grub-mkimage")?;
    let mut command = Command::new(&program);
    command
        .args(["-O", "i386-pc-eltorito", "-p", "/", "-d"])
        .arg(find(packages, "usr/lib/grub/i386-pc")?)
        .arg("-o")
        .arg(&out)
        .args(GRUB_MODULES)
        .env("LD_LIBRARY_PATH", find(packages, "lib/x86_64-linux-gnu")?);
    let output = command
        .output()
        .with_context(|| format!("starting {}", program.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{}: {}", program.display(), said.trim());
    }
    let image = fs::read(&out).with_context(|| format!("reading {}", out.display()))?;
    let _ = fs::remove_file(&out);
    Ok(image)
}

fn find(packages: &[PathBuf], path: &str) -> Result<PathBuf> {
    packages
        .iter()
        .map(|package| package.join(path))
        .find(|path| path.exists())
        .with_context(|| format!("no package given as --grub has {path}"))
}

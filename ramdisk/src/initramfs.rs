//! The ramdisk itself: agent, modules and the few files around them.
//!
//! It is two compressed archives, one behind the other; the kernel unpacks
//! both. Modules change with the kernel alone, and compressing them takes
//! most of the time.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use anyhow::Result;
use wrought_formats::cpio::Archive;

use crate::modules::Modules;

/// zstd's level: the slowest without extra memory for the one who unpacks.
const LEVEL: i32 = 19;

/// What `/etc/os-release` says.
pub(crate) const OS_RELEASE: &str = concat!(
    "NAME=\"Wrought ramdisk\"\nID=wrought\nVERSION_ID=",
    env!("CARGO_PKG_VERSION"),
    "\nPRETTY_NAME=\"Wrought ramdisk ",
    env!("CARGO_PKG_VERSION"),
    "\"\n"
);

/// The archive with modules and firmware, uncompressed.
pub(crate) fn modules(
    kernel_version: &str,
    modules: &Modules,
    firmware: &[(String, Vec<u8>)],
) -> Result<Vec<u8>> {
    let mut archive = Archive::new();
    let base = Path::new("lib/modules").join(kernel_version);
    for (path, content) in modules.files() {
        let path = base.join(path);
        let path = path.to_str().context("module path is not UTF-8")?;
        archive
            .file(path, 0o644, content.into_owned())
            .with_context(|| path.to_owned())?;
    }
    for (name, content) in firmware {
        archive.file(&format!("lib/firmware/{name}"), 0o644, content.clone())?;
    }
    bytes(&archive)
}

/// The archive with everything else, uncompressed. The kernel runs `/init`,
/// which is the agent.
pub(crate) fn system(agent: Vec<u8>) -> Result<Vec<u8>> {
    let mut archive = Archive::new();
    archive.file("init", 0o755, agent)?;
    archive.link("bin/wrought-agent", "init")?;
    for mount_point in ["dev", "proc", "sys", "run", "root"] {
        archive.directory(mount_point, 0o755)?;
    }
    archive.directory("tmp", 0o1777)?;
    // Before the agent has mounted /dev, its output needs somewhere to go.
    archive.char_device("dev/console", 0o600, 5, 1)?;
    archive.char_device("dev/null", 0o666, 1, 3)?;
    archive.file("etc/os-release", 0o644, OS_RELEASE.into())?;
    archive.file("etc/hostname", 0o644, b"wrought\n".to_vec())?;
    bytes(&archive)
}

/// What decides the outcome of [`compress`] besides its input.
pub(crate) fn compressor() -> String {
    format!("{LEVEL}-{}", zstd::zstd_safe::version_number())
}

/// Compresses an archive. One thread and no date: equal input gives equal
/// bytes.
pub(crate) fn compress(archive: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = zstd::Encoder::new(Vec::new(), LEVEL).context("starting zstd")?;
    encoder
        .set_pledged_src_size(Some(archive.len() as u64))
        .context("starting zstd")?;
    encoder.include_checksum(true).context("starting zstd")?;
    encoder
        .write_all(archive)
        .context("compressing the initramfs")?;
    encoder.finish().context("compressing the initramfs")
}

fn bytes(archive: &Archive) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    archive.write_to(&mut out)?;
    Ok(out)
}

//! The ramdisk itself: agent, modules and the few files around them.
//!
//! It is two compressed archives, one behind the other; the kernel unpacks
//! both. Modules change with the kernel alone, and compressing them takes
//! most of the time.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;
use wrought_formats::cpio::Archive;

use crate::build::read;
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

/// Accounts of a ramdisk where somebody can log in. Nobody can before the
/// agent has put a password there.
const ACCOUNTS: [(&str, u32, &str); 4] = [
    (
        "etc/passwd",
        0o644,
        "root:x:0:0:root:/root:/bin/sh\nrescue:x:0:0:rescue:/root:/bin/sh\n",
    ),
    (
        "etc/shadow",
        0o600,
        "root:*:19000:0:99999:7:::\nrescue:*:19000:0:99999:7:::\n",
    ),
    ("etc/group", 0o644, "root:x:0:\n"),
    ("etc/shells", 0o644, "/bin/sh\n"),
];
/// Where the agent puts the password; a ramdisk without it has no login.
const RESCUE_FOLDER: &str = "etc/ipa-rescue-config";

/// The archive with everything else, uncompressed. The kernel runs `/init`,
/// which is the agent. `shell` is the program that a login starts, in a ramdisk
/// that has logins; `added` are files by path.
pub(crate) fn system(
    agent: Vec<u8>,
    shell: Option<&str>,
    added: &[(String, PathBuf)],
) -> Result<Vec<u8>> {
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
    if let Some(program) = shell {
        archive.symlink("bin/sh", &format!("/{program}"))?;
        archive.directory(RESCUE_FOLDER, 0o700)?;
        for (path, mode, content) in ACCOUNTS {
            archive.file(path, mode, content.into())?;
        }
    }
    for (path, file) in added {
        let meta = fs::metadata(file).with_context(|| format!("reading {}", file.display()))?;
        let runs = meta.permissions().mode() & 0o111 != 0;
        archive
            .file(path, if runs { 0o755 } else { 0o644 }, read(file)?)
            .with_context(|| format!("adding {} as /{path}", file.display()))?;
    }
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

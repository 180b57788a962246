//! More files for a ramdisk. The kernel unpacks one archive after the other,
//! so that nothing of the first has to be understood.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;

use crate::paths::Paths;

/// A file of the ramdisk.
#[derive(Debug, Clone)]
pub struct Extra {
    /// Path without a slash in front.
    pub path: String,
    /// Permission bits.
    pub mode: u32,
    /// What is in it.
    pub content: Vec<u8>,
}

impl Extra {
    /// A program.
    pub fn program(path: &str, content: impl Into<Vec<u8>>) -> Self {
        Self {
            path: path.to_owned(),
            mode: 0o755,
            content: content.into(),
        }
    }
}

/// A static busybox as `/bin/sh` and under its own name, for scripts.
pub fn shell(paths: &Paths) -> Result<Vec<Extra>> {
    let store = paths.root.join("target/debs");
    let folders = std::fs::read_dir(&store).with_context(|| store.display().to_string())?;
    let busybox = folders
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            name.to_string_lossy().starts_with("busybox-static_")
        })
        .map(|entry| entry.path().join("bin/busybox"))
        .find(|path| path.is_file());
    let busybox =
        busybox.context("no busybox-static is unpacked; `cargo xtask image tiny` does it")?;
    let content = std::fs::read(&busybox).with_context(|| busybox.display().to_string())?;
    let names = ["bin/sh", "bin/busybox"];
    Ok(names
        .map(|name| Extra::program(name, content.clone()))
        .into())
}

/// Copies a ramdisk to `folder` with more files in it.
pub fn extend(paths: &Paths, folder: &Path, files: &[Extra]) -> Result<PathBuf> {
    for name in ["vmlinuz", "initramfs", "uki.efi", "esp.img"] {
        let (from, to) = (paths.ramdisk_file(name)?, folder.join(name));
        std::fs::copy(&from, &to).with_context(|| format!("copying {}", from.display()))?;
    }
    let path = folder.join("initramfs");
    let mut bytes = std::fs::read(&path).with_context(|| path.display().to_string())?;
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes.extend(archive(files));
    std::fs::write(&path, bytes).with_context(|| format!("writing {}", path.display()))?;
    Ok(folder.to_owned())
}

/// A cpio archive of the kind `newc` (initramfs buffer format of the kernel's
/// documentation).
fn archive(files: &[Extra]) -> Vec<u8> {
    const DIRECTORY: u32 = 0o040_000;
    const FILE: u32 = 0o100_000;
    let mut out = Vec::new();
    let mut number = 0;
    let mut entry = |path: &str, mode: u32, content: &[u8]| {
        number += 1;
        let name = path.len() + 1;
        let fields = [
            number,
            mode as usize,
            0,
            0,
            1,
            0,
            content.len(),
            0,
            0,
            0,
            0,
            name,
            0,
        ];
        let mut header = String::from("070701");
        for field in fields {
            // Writing to a String does not fail.
            write!(header, "{field:08x}").ok();
        }
        out.extend_from_slice(header.as_bytes());
        out.extend_from_slice(path.as_bytes());
        out.push(0);
        out.resize(out.len().next_multiple_of(4), 0);
        out.extend_from_slice(content);
        out.resize(out.len().next_multiple_of(4), 0);
    };
    let mut folders = BTreeSet::new();
    for file in files {
        for (at, _) in file.path.match_indices('/') {
            if folders.insert(&file.path[..at]) {
                entry(&file.path[..at], DIRECTORY | 0o755, &[]);
            }
        }
        entry(&file.path, FILE | file.mode, &file.content);
    }
    entry("TRAILER!!!", 0, &[]);
    out
}

#[cfg(test)]
mod tests {
    use super::Extra;
    use super::archive;

    #[test]
    fn folders_come_before_their_files() {
        let bytes = archive(&[Extra::program("etc/x/run", "abc")]);
        let text = String::from_utf8_lossy(&bytes);
        let at = |what: &str| text.find(what).unwrap();
        assert!(at("etc\0") < at("etc/x\0") && at("etc/x\0") < at("etc/x/run\0"));
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(&bytes[at("etc/x/run\0") - 110..][..6], b"070701");
        assert!(
            text.trim_end_matches('\0').ends_with("TRAILER!!!"),
            "{text:?}"
        );
    }
}

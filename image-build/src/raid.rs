//! The RAID image: what the tiny image does, from a root file system that is
//! made for an md array. Its initramfs starts the arrays that it finds, whole
//! or not.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Context;
use anyhow::Result;
use wrought_formats::cpio::Archive;

use crate::disk;
use crate::disk::Plan;
use crate::disk::Root;
use crate::disk::guid;
use crate::grub::Config;
use crate::parts::Parts;
use crate::tiny;

pub(crate) const INIT: &str = include_str!("../files/raid/init");
/// Size of the EFI system partition.
const ESP_MIB: u64 = 40;
/// Size of the root file system.
const ROOT_MIB: u64 = 24;
/// Modules beside those of the tiny image.
const MORE: &[&str] = &["md_mod", "raid1", "ext4", "crc32c_generic"];
/// What mdadm is made of, in its package and in those of its libraries.
const MDADM: [(&str, u32); 4] = [
    ("sbin/mdadm", 0o755),
    ("lib/x86_64-linux-gnu/libc.so.6", 0o755),
    ("usr/lib/x86_64-linux-gnu/libudev.so.1", 0o644),
    ("lib64/ld-linux-x86-64.so.2", 0o755),
];

/// Modules that the system loads, in this order.
pub fn modules() -> Vec<&'static str> {
    tiny::MODULES.iter().chain(MORE).copied().collect()
}

/// Builds the raw image `path`.
pub(crate) fn build(
    parts: &Parts,
    modules: &Path,
    seed: [u8; 16],
    work: &Path,
    path: &Path,
) -> Result<()> {
    let (_, kernel) = parts.kernel()?;
    let busybox = parts.read("bin/busybox")?;
    let root = work.join("root");
    tree(&root, &busybox)?;
    let mut archive = Archive::new();
    tiny::fill(&mut archive, INIT, busybox, &self::modules(), modules)?;
    for (name, mode) in MDADM {
        archive.file(name, mode, parts.read(name)?)?;
    }
    let plan = Plan {
        config: Config::Text(tiny::GRUB.to_owned()),
        esp_files: vec![
            ("tiny/vmlinuz".to_owned(), kernel),
            ("tiny/initramfs".to_owned(), tiny::compress(&archive)?),
        ],
        esp_mib: ESP_MIB,
        esp_id: u32::from_le_bytes([seed[0], seed[1], seed[2], seed[3]]),
        root: Some(Root {
            tree: root,
            mib: ROOT_MIB,
            uuid: guid(seed, 0x40),
        }),
        seed,
    };
    disk::compose(&plan, parts, work, path)
}

/// The root file system: busybox, and the tiny image's one program.
fn tree(root: &Path, busybox: &[u8]) -> Result<()> {
    for dir in ["bin", "dev", "etc", "mnt", "proc", "sbin", "sys"] {
        let dir = root.join(dir);
        fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
    }
    let files: [(&str, u32, &[u8]); 4] = [
        ("bin/busybox", 0o755, busybox),
        ("sbin/init", 0o755, tiny::INIT.as_bytes()),
        ("etc/modules", 0o644, b""),
        ("etc/marker", 0o644, b"root on an array\n"),
    ];
    for (name, mode, content) in files {
        let path = root.join(name);
        let write = || {
            fs::write(&path, content)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(mode))
        };
        write().with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

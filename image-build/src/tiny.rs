//! The tiny image: kernel and busybox, all of it in the EFI system
//! partition. It boots in seconds and does one thing: it reads the config
//! drive and says what it found.

use std::fs;
use std::path::Path;

use anyhow::Context;
use anyhow::Result;
use wrought_formats::cpio::Archive;

use crate::disk;
use crate::disk::Plan;
use crate::grub::Config;
use crate::parts::Parts;

pub(crate) const INIT: &str = include_str!("../files/tiny/init");
/// Size of the EFI system partition, and so nearly of the image.
const ESP_MIB: u64 = 32;
/// GRUB's whole configuration.
pub(crate) const GRUB: &str = "\
search --no-floppy --set=root --file /tiny/vmlinuz
linux /tiny/vmlinuz console=tty0 console=ttyS0,115200 quiet panic=10 no_timer_check
initrd /tiny/initramfs
boot
";

/// Modules that the system loads, in this order; they and what they need
/// must be in the folder of reduced modules given to the build.
pub const MODULES: &[&str] = &[
    "virtio_pci",
    "virtio_blk",
    "virtio_scsi",
    "nvme",
    "ahci",
    "ata_piix",
    "sd_mod",
    "vfat",
    "nls_cp437",
    "nls_ascii",
];

/// Builds the raw image `path`.
pub(crate) fn build(
    parts: &Parts,
    modules: &Path,
    seed: [u8; 16],
    work: &Path,
    path: &Path,
) -> Result<()> {
    let (_, kernel) = parts.kernel()?;
    let initramfs = initramfs(parts.read("bin/busybox")?, modules)?;
    let plan = Plan {
        config: Config::Text(GRUB.to_owned()),
        esp_files: vec![
            ("tiny/vmlinuz".to_owned(), kernel),
            ("tiny/initramfs".to_owned(), initramfs),
        ],
        esp_mib: ESP_MIB,
        esp_id: u32::from_le_bytes([seed[0], seed[1], seed[2], seed[3]]),
        root: None,
        seed,
    };
    disk::compose(&plan, parts, work, path)
}

fn initramfs(busybox: Vec<u8>, modules: &Path) -> Result<Vec<u8>> {
    let mut archive = Archive::new();
    fill(&mut archive, INIT, busybox, MODULES, modules)?;
    compress(&archive)
}

/// Puts the program, busybox and modules into an initramfs.
pub(crate) fn fill(
    archive: &mut Archive,
    init: &str,
    busybox: Vec<u8>,
    names: &[&str],
    modules: &Path,
) -> Result<()> {
    archive.file("init", 0o755, init.into())?;
    archive.file("bin/busybox", 0o755, busybox)?;
    for dir in ["dev", "mnt", "proc", "sys"] {
        archive.directory(dir, 0o755)?;
    }
    archive.char_device("dev/console", 0o600, 5, 1)?;
    let names = names.join("\n") + "\n";
    archive.file("etc/modules", 0o644, names.into_bytes())?;
    add_tree(archive, modules, "lib/modules")
}

/// The archive as the kernel takes it.
pub(crate) fn compress(archive: &Archive) -> Result<Vec<u8>> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    archive.write_to(&mut out)?;
    out.finish().context("compressing the initramfs")
}

fn add_tree(archive: &mut Archive, dir: &Path, name: &str) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))? {
        let path = entry
            .with_context(|| format!("reading {}", dir.display()))?
            .path();
        let leaf = path
            .file_name()
            .and_then(|n| n.to_str())
            .context("a name is not UTF-8")?;
        let name = format!("{name}/{leaf}");
        if path.is_dir() {
            add_tree(archive, &path, &name)?;
        } else {
            let content = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
            archive.file(&name, 0o644, content)?;
        }
    }
    Ok(())
}

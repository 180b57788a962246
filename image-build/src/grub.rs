//! The boot loaders of an image: shim and signed GRUB for UEFI, a GRUB core
//! image for BIOS.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;

use crate::command::run;
use crate::parts::Parts;

/// What the BIOS core image can do before it has found its modules.
const BIOS_MODULES: &[&str] = &[
    "biosdisk",
    "part_gpt",
    "ext2",
    "fat",
    "search",
    "search_fs_uuid",
    "search_label",
    "linux",
    "normal",
    "configfile",
    "echo",
    "test",
    "serial",
    "terminal",
];
/// Offsets in `boot.img`: sector of the core image, and the jump that is
/// replaced so that the BIOS's drive number is trusted.
const BOOT_CORE_SECTOR: usize = 0x5c;
const BOOT_DRIVE_CHECK: usize = 0x66;
/// Offset in the core image of the first block list: sector of its rest.
const CORE_REST_SECTOR: usize = 0x1f4;
/// Bytes of the first sector that belong to boot code, not to partitions.
pub(crate) const BOOT_CODE: usize = 440;

/// How GRUB finds its configuration.
pub(crate) enum Config {
    /// `/boot/grub/grub.cfg` on the file system with this UUID.
    FileSystem(String),
    /// This text.
    Text(String),
}

impl Config {
    fn text(&self) -> String {
        match self {
            Self::FileSystem(uuid) => format!(
                "search.fs_uuid {uuid} root\nset prefix=($root)/boot/grub\nconfigfile $prefix/grub.cfg\n"
            ),
            Self::Text(text) => text.clone(),
        }
    }
}

/// Files of the EFI system partition: path and content.
///
/// The removable-media path starts shim, which, with the fall-back program
/// beside it, makes a boot entry from `BOOTX64.CSV` and starts that.
pub(crate) fn esp(parts: &Parts, config: &Config) -> Result<Vec<(String, Vec<u8>)>> {
    let shim = parts.read("usr/lib/shim/shimx64.efi.signed")?;
    let manager = parts.read("usr/lib/shim/mmx64.efi.signed")?;
    let grub = parts.read("usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed")?;
    Ok([
        ("EFI/BOOT/BOOTX64.EFI", shim.clone()),
        (
            "EFI/BOOT/fbx64.efi",
            parts.read("usr/lib/shim/fbx64.efi.signed")?,
        ),
        ("EFI/BOOT/mmx64.efi", manager.clone()),
        ("EFI/debian/shimx64.efi", shim),
        ("EFI/debian/mmx64.efi", manager),
        ("EFI/debian/grubx64.efi", grub),
        (
            "EFI/debian/BOOTX64.CSV",
            parts.read("usr/lib/shim/BOOTX64.CSV")?,
        ),
        ("EFI/debian/grub.cfg", config.text().into_bytes()),
    ]
    .map(|(path, content)| (path.to_owned(), content))
    .to_vec())
}

/// First-sector boot code and core image for BIOS; the core image goes to
/// sector `core_sector`.
pub(crate) fn bios(
    parts: &Parts,
    config: &Config,
    core_sector: u64,
    work: &Path,
) -> Result<(Vec<u8>, Vec<u8>)> {
    let modules = parts.find("usr/lib/grub/i386-pc")?;
    let early = work.join("grub-early.cfg");
    fs::write(&early, config.text()).with_context(|| format!("writing {}", early.display()))?;
    let core_path = work.join("core.img");
    // Its one library that not every system has comes in a package as well.
    let libraries = parts.find("lib/x86_64-linux-gnu")?;
    run(Command::new(parts.find("usr/bin/grub-mkimage")?)
        .args(["-O", "i386-pc", "-p", "/boot/grub", "-d"])
        .arg(&modules)
        .arg("-c")
        .arg(&early)
        .arg("-o")
        .arg(&core_path)
        .args(BIOS_MODULES)
        .env("LD_LIBRARY_PATH", libraries))?;
    let mut core =
        fs::read(&core_path).with_context(|| format!("reading {}", core_path.display()))?;
    let mut boot = parts.read("usr/lib/grub/i386-pc/boot.img")?;
    patch(&mut boot, &mut core, core_sector)?;
    boot.truncate(BOOT_CODE);
    Ok((boot, core))
}

fn patch(boot: &mut [u8], core: &mut [u8], core_sector: u64) -> Result<()> {
    ensure!(
        boot.len() == 512,
        "boot.img has {} bytes, expected 512",
        boot.len()
    );
    ensure!(
        core.len() > 1024,
        "core.img has {} bytes, expected more than 1024",
        core.len()
    );
    boot[BOOT_CORE_SECTOR..BOOT_CORE_SECTOR + 8].copy_from_slice(&core_sector.to_le_bytes());
    boot[BOOT_DRIVE_CHECK..BOOT_DRIVE_CHECK + 2].copy_from_slice(&[0x90, 0x90]);
    core[CORE_REST_SECTOR..CORE_REST_SECTOR + 8].copy_from_slice(&(core_sector + 1).to_le_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::patch;

    #[test]
    fn boot_code_points_at_the_core_and_the_core_at_its_rest() {
        let mut boot = vec![0xff; 512];
        let mut core = vec![0; 2048];
        patch(&mut boot, &mut core, 2048).unwrap();
        assert_eq!(boot[0x5c..0x64], 2048u64.to_le_bytes());
        assert_eq!(boot[0x66..0x68], [0x90, 0x90]);
        assert_eq!(core[0x1f4..0x1fc], 2049u64.to_le_bytes());
        assert!(patch(&mut [0; 100], &mut core, 1).is_err());
    }
}

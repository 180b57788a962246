//! A FAT file system with the UKI where firmware looks for it: the boot
//! image of virtual media.

use std::io::Cursor;
use std::io::Write;

use anyhow::Context;
use anyhow::Result;
use fatfs::FileSystem;
use fatfs::FormatVolumeOptions;
use fatfs::FsOptions;

/// Room for the file system's own structures, in bytes.
const OVERHEAD: u64 = 512 * 1024;
/// Fixed, so that equal input gives equal bytes.
const VOLUME_ID: u32 = 0x5752_4754;

/// What firmware of PCs looks for.
pub(crate) const X86_64: &str = "BOOTX64.EFI";
/// What firmware of 64-bit ARM machines looks for.
pub(crate) const AARCH64: &str = "BOOTAA64.EFI";

/// Builds the image with the UKI under the name `name`.
pub(crate) fn build(uki: &[u8], name: &str) -> Result<Vec<u8>> {
    let len = (uki.len() as u64 + OVERHEAD).next_multiple_of(1 << 16);
    let mut image = vec![0; len as usize];
    fatfs::format_volume(
        Cursor::new(&mut image),
        FormatVolumeOptions::new()
            .volume_id(VOLUME_ID)
            .volume_label(*b"WROUGHT    "),
    )
    .context("formatting the boot image")?;
    {
        let fs = FileSystem::new(Cursor::new(&mut image), FsOptions::new())
            .context("opening the boot image")?;
        let dir = fs.root_dir().create_dir("EFI").context("creating EFI")?;
        let dir = dir.create_dir("BOOT").context("creating EFI/BOOT")?;
        let mut file = dir
            .create_file(name)
            .with_context(|| format!("creating {name}"))?;
        file.write_all(uki)
            .with_context(|| format!("writing {name}"))?;
        file.flush().with_context(|| format!("writing {name}"))?;
    }
    Ok(image)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::io::Read;

    use super::X86_64;
    use super::build;

    #[test]
    fn the_program_is_where_firmware_looks() {
        let uki: Vec<u8> = (0..1_000_000u32).map(|i| (i % 253) as u8).collect();
        let mut image = build(&uki, X86_64).unwrap();
        assert_eq!(
            image,
            build(&uki, X86_64).unwrap(),
            "equal input, equal bytes"
        );
        let fs = fatfs::FileSystem::new(Cursor::new(&mut image), fatfs::FsOptions::new()).unwrap();
        let mut found = Vec::new();
        let mut file = fs.root_dir().open_file("EFI/BOOT/BOOTX64.EFI").unwrap();
        file.read_to_end(&mut found).unwrap();
        assert!(found == uki);
    }
}

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

/// Builds the image.
pub(crate) fn build(uki: &[u8]) -> Result<Vec<u8>> {
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
            .create_file("BOOTX64.EFI")
            .context("creating BOOTX64.EFI")?;
        file.write_all(uki).context("writing BOOTX64.EFI")?;
        file.flush().context("writing BOOTX64.EFI")?;
    }
    Ok(image)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::io::Read;

    use super::build;

    #[test]
    fn the_program_is_where_firmware_looks() {
        let uki: Vec<u8> = (0..1_000_000u32).map(|i| (i % 253) as u8).collect();
        let mut image = build(&uki).unwrap();
        assert_eq!(image, build(&uki).unwrap(), "equal input, equal bytes");
        let fs = fatfs::FileSystem::new(Cursor::new(&mut image), fatfs::FsOptions::new()).unwrap();
        let mut found = Vec::new();
        let mut file = fs.root_dir().open_file("EFI/BOOT/BOOTX64.EFI").unwrap();
        file.read_to_end(&mut found).unwrap();
        assert!(found == uki);
    }
}

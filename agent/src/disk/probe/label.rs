//! Labels of file systems, as far as a config drive may carry one.

use crate::disk::error::Error;
use crate::disk::probe::Region;

/// The label of a FAT, ISO 9660 or ext file system, trimmed.
pub fn volume_label(region: &Region<'_>) -> Result<Option<String>, Error> {
    let field = |offset: u64, length: usize, magic_at: u64, magic: &[u8]| {
        let magic_found = region
            .read(magic_at, magic.len())?
            .is_some_and(|found| found == magic);
        let label = if magic_found {
            region.read(offset, length)?
        } else {
            None
        };
        Ok::<_, Error>(label.and_then(|bytes| text(&bytes)))
    };
    // Offsets: FAT boot sector (BS_VolLab), ISO 9660 §8.4.7 in the primary
    // descriptor at sector 16, ext4 s_volume_name.
    let places: [(u64, usize, u64, &[u8]); 5] = [
        (0x47, 11, 0x52, b"FAT32   "),
        (0x2b, 11, 0x36, b"FAT16   "),
        (0x2b, 11, 0x36, b"FAT12   "),
        (0x8028, 32, 0x8001, b"CD001"),
        (0x478, 16, 0x438, b"\x53\xef"),
    ];
    for (offset, length, magic_at, magic) in places {
        if let Some(label) = field(offset, length, magic_at, magic)? {
            return Ok(Some(label));
        }
    }
    Ok(None)
}

fn text(bytes: &[u8]) -> Option<String> {
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(&bytes[..end]).trim().to_owned();
    (!text.is_empty() && text != "NO NAME").then_some(text)
}

//! The structures of an image as bytes.

use super::SECTOR;
use super::STANDARD_ID;

/// El Torito platform identifier of PCs with a BIOS.
const PLATFORM_BIOS: u8 = 0;
/// El Torito platform identifier of UEFI.
const PLATFORM_EFI: u8 = 0xef;
/// Header of the last section of a catalogue.
const SECTION_LAST: u8 = 0x91;
/// What a BIOS reads of its boot image, in sectors of 512 bytes: one of the
/// disc's.
const BIOS_SECTORS: u16 = 4;
/// Unit of the sector count in a boot catalogue entry.
const VIRTUAL_SECTOR: u64 = 512;
/// Longest boot image whose size fits the catalogue's 16-bit count.
const COUNTED_BOOT_MAX: u64 = u16::MAX as u64 * VIRTUAL_SECTOR;

/// What a directory record stands for.
pub(super) enum Kind {
    File,
    Directory,
}

/// A 32-bit number in both byte orders, as ECMA-119 §7.3.3 wants it.
fn both32(value: u32) -> [u8; 8] {
    let mut out = [0; 8];
    out[..4].copy_from_slice(&value.to_le_bytes());
    out[4..].copy_from_slice(&value.to_be_bytes());
    out
}

/// A 16-bit number in both byte orders, as ECMA-119 §7.2.3 wants it.
fn both16(value: u16) -> [u8; 4] {
    let mut out = [0; 4];
    out[..2].copy_from_slice(&value.to_le_bytes());
    out[2..].copy_from_slice(&value.to_be_bytes());
    out
}

/// Length of the record of a file with an identifier of `id` bytes.
pub(super) fn record_len(id: usize) -> usize {
    (33 + id).next_multiple_of(2)
}

/// A directory record, ECMA-119 §9.1.
pub(super) fn record(id: &[u8], extent: u32, len: u32, kind: Kind) -> Vec<u8> {
    let mut out = vec![0; record_len(id.len())];
    out[0] = out.len() as u8;
    out[2..10].copy_from_slice(&both32(extent));
    out[10..18].copy_from_slice(&both32(len));
    // 18..25: no recording date, so that equal input gives equal bytes.
    out[25] = match kind {
        Kind::File => 0,
        Kind::Directory => 2,
    };
    out[28..32].copy_from_slice(&both16(1));
    out[32] = id.len() as u8;
    out[33..33 + id.len()].copy_from_slice(id);
    out
}

/// The one record of a path table: the root, ECMA-119 §9.4.
pub(super) fn path_table(extent: [u8; 4], parent: [u8; 2]) -> [u8; 10] {
    let mut out = [0; 10];
    out[0] = 1;
    out[2..6].copy_from_slice(&extent);
    out[6..8].copy_from_slice(&parent);
    out
}

fn descriptor(kind: u8) -> Vec<u8> {
    let mut out = vec![0; SECTOR as usize];
    out[0] = kind;
    out[1..6].copy_from_slice(STANDARD_ID);
    out[6] = 1;
    out
}

/// The volume descriptor set terminator, ECMA-119 §8.3.
pub(super) fn terminator() -> Vec<u8> {
    descriptor(255)
}

/// The primary volume descriptor, ECMA-119 §8.4.
pub(super) fn primary(
    volume: &str,
    sectors: u32,
    path_l: u32,
    path_m: u32,
    root: &[u8],
) -> Vec<u8> {
    let mut out = descriptor(1);
    out[8..72].fill(b' ');
    out[40..40 + volume.len()].copy_from_slice(volume.as_bytes());
    out[80..88].copy_from_slice(&both32(sectors));
    out[120..124].copy_from_slice(&both16(1));
    out[124..128].copy_from_slice(&both16(1));
    out[128..132].copy_from_slice(&both16(SECTOR as u16));
    out[132..140].copy_from_slice(&both32(10));
    out[140..144].copy_from_slice(&path_l.to_le_bytes());
    out[148..152].copy_from_slice(&path_m.to_be_bytes());
    out[156..190].copy_from_slice(root);
    // Identifiers of set, publisher, preparer, application and files: blank.
    out[190..813].fill(b' ');
    for date in [813, 830, 847, 864] {
        out[date..date + 16].fill(b'0');
    }
    out[881] = 1;
    out
}

/// The boot record volume descriptor, El Torito §2.0.
pub(super) fn boot_descriptor(catalogue: u32) -> Vec<u8> {
    let mut out = descriptor(0);
    out[7..30].copy_from_slice(b"EL TORITO SPECIFICATION");
    out[71..75].copy_from_slice(&catalogue.to_le_bytes());
    out
}

/// A boot image in the catalogue: its first sector and length in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Boot {
    pub(super) start: u32,
    pub(super) len: u64,
}

/// The boot catalogue, El Torito §2.1 to §2.5: the first entry is that of the
/// validation entry's platform, another platform has a section of its own.
pub(super) fn boot_catalogue(bios: Option<Boot>, uefi: Option<Boot>) -> Vec<u8> {
    let mut out = vec![0; SECTOR as usize];
    out[0] = 1;
    out[1] = match bios {
        Some(_) => PLATFORM_BIOS,
        None => PLATFORM_EFI,
    };
    out[30] = 0x55;
    out[31] = 0xaa;
    let sum = out[..32].chunks_exact(2).fold(0u16, |sum, w| {
        sum.wrapping_add(u16::from_le_bytes([w[0], w[1]]))
    });
    out[28..30].copy_from_slice(&sum.wrapping_neg().to_le_bytes());
    match (bios, uefi) {
        (Some(bios), uefi) => {
            // The BIOS reads the first part alone, which reads the rest.
            entry(&mut out[32..64], bios.start, BIOS_SECTORS);
            if let Some(uefi) = uefi {
                out[64] = SECTION_LAST;
                out[65] = PLATFORM_EFI;
                out[66] = 1;
                entry(&mut out[96..128], uefi.start, counted(uefi.len));
            }
        }
        (None, Some(uefi)) => entry(&mut out[32..64], uefi.start, counted(uefi.len)),
        (None, None) => {}
    }
    out
}

/// An entry for a bootable image without emulation.
fn entry(out: &mut [u8], start: u32, count: u16) {
    out[0] = 0x88;
    out[6..8].copy_from_slice(&count.to_le_bytes());
    out[8..12].copy_from_slice(&start.to_le_bytes());
}

/// A count of 0 makes firmware take everything to the disc's end.
fn counted(len: u64) -> u16 {
    if len > COUNTED_BOOT_MAX {
        0
    } else {
        len.div_ceil(VIRTUAL_SECTOR) as u16
    }
}

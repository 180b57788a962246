//! GPT and MBR: any disk is refused or judged, and what would be written to
//! fit the table to the disk lies on it and reads as the same table.
//!
//! The first byte of the input asks for checksums to be made right, so that
//! the fuzzer gets past them; the second for the disk's size.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wrought_formats::gpt::Header;
use wrought_formats::mbr::Mbr;
use wrought_fuzz::expanded;
use wrought_image::fuzzing::fit_table;

fuzz_target!(|bytes: &[u8]| {
    let bytes = &expanded(bytes)[..];
    let [flags, size, disk @ ..] = bytes else {
        return;
    };
    let mut disk = disk.to_vec();
    let sector_size = if flags & 2 == 0 { 512 } else { 4096 };
    if flags & 1 != 0 {
        repair(&mut disk, sector_size);
    }
    let told = (flags & 4 != 0).then_some(sector_size as u32);
    let size = disk.len() as u64 + u64::from(*size) * 256;
    if let Ok(mbr) = Mbr::parse(&disk) {
        let mut other = mbr.clone();
        other.resize_protective(size / 512);
        assert_eq!(mbr.is_protective(), other.is_protective());
        let used = other.partitions().count();
        if let Ok(added) = other.add_at_end(0x83, u64::from(*flags) + 1, size / 512, 8) {
            assert_eq!(other.partitions().count(), used + 1);
            assert!(u64::from(added.start) + u64::from(added.sectors) <= size / 512);
        }
    }
    let Ok((report, patches)) = fit_table(&disk, size, told) else {
        return;
    };
    assert!(!report.partitions.is_empty() || patches.is_empty());
    for partition in &report.partitions {
        assert!(partition.start + partition.size <= size);
    }
    if patches.is_empty() {
        return;
    }
    // At most 4 MiB in an input of the usual size.
    disk.resize(size as usize, 0);
    for (at, bytes) in patches {
        let at = at as usize;
        disk[at..at + bytes.len()].copy_from_slice(&bytes);
    }
    let (again, patches) = fit_table(&disk, size, told).expect("a fitted table is a table");
    assert!(patches.is_empty() && !again.backup_moved);
    assert_eq!(again.partitions.len(), report.partitions.len());
});

/// Makes the CRCs of the primary header and its entries right.
fn repair(disk: &mut [u8], sector: usize) {
    let Some(header) = disk.get(sector..sector + 92) else {
        return;
    };
    let mut fixed = header.to_vec();
    let number = |at: usize| {
        let mut value = [0; 8];
        value.copy_from_slice(&header[at..at + 8]);
        u64::from_le_bytes(value)
    };
    let start = number(72).saturating_mul(sector as u64);
    let entries = (number(80) & 0xffff_ffff).saturating_mul(number(80) >> 32);
    let range = usize::try_from(start).ok().and_then(|start| {
        let end = start.checked_add(usize::try_from(entries).ok()?)?;
        disk.get(start..end)
    });
    if let Some(entries) = range {
        fixed[88..92].copy_from_slice(&crc32fast::hash(entries).to_le_bytes());
    }
    fixed[12..16].copy_from_slice(&92u32.to_le_bytes());
    fixed[16..20].fill(0);
    let crc = crc32fast::hash(&fixed);
    fixed[16..20].copy_from_slice(&crc.to_le_bytes());
    disk[sector..sector + 92].copy_from_slice(&fixed);
    let _ = Header::parse(&fixed, 1);
}

//! Memory: what the kernel has, and what is plugged in (SMBIOS types 16 and 17,
//! DSP0134 §7.17 and §7.18).

use serde_json::Value;
use serde_json::json;

use super::Roots;
use super::smbios;
use super::smbios::Structure;
use crate::disk::sysfs;

/// Types of structures.
const ARRAY: u8 = 16;
const DEVICE: u8 = 17;
/// What an array is for: system memory.
const SYSTEM_MEMORY: u8 = 3;
/// Size field: unknown, and "see the extended size".
const UNKNOWN: u16 = 0xFFFF;
const EXTENDED: u16 = 0x7FFF;

/// What the inventory tells of it.
pub(super) fn read(roots: Roots<'_>) -> Value {
    let total = total(roots);
    let plugged = plugged_mb(&smbios::read(roots.sys)).filter(|mb| *mb > 0);
    json!({
        "total": total,
        "physical_mb": plugged.or(total.map(|bytes| bytes >> 20)),
    })
}

/// Bytes that the kernel has.
fn total(roots: Roots<'_>) -> Option<u64> {
    let info = sysfs::listing(&roots.proc.join("meminfo"));
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// MiB of all memory devices; none where the firmware lists none. Those that
/// belong to an array for something else (video, flash) do not count.
fn plugged_mb(table: &[Structure]) -> Option<u64> {
    let others: Vec<u16> = table
        .iter()
        .filter(|one| one.kind == ARRAY && one.byte(5).is_some_and(|usage| usage != SYSTEM_MEMORY))
        .map(|one| one.handle)
        .collect();
    let sizes: Vec<u64> = table
        .iter()
        .filter(|one| one.kind == DEVICE)
        .filter(|one| one.word(4).is_none_or(|array| !others.contains(&array)))
        .filter_map(device_mb)
        .collect();
    (!sizes.is_empty()).then(|| sizes.iter().sum())
}

/// MiB of one memory device; 0 for an empty slot.
fn device_mb(device: &Structure) -> Option<u64> {
    Some(match device.word(0x0C)? {
        UNKNOWN => return None,
        EXTENDED => u64::from(device.double(0x1C)? & 0x7FFF_FFFF),
        // Bit 15: the unit is KiB.
        size if size & 0x8000 != 0 => u64::from(size & 0x7FFF) >> 10,
        size => u64::from(size),
    })
}

#[cfg(test)]
mod tests {
    use super::plugged_mb;
    use crate::inventory::smbios::parse;
    use crate::inventory::smbios::tests::structure;

    fn device(array: u16, size: u16, extended: u32) -> Vec<u8> {
        let mut fields = vec![0; 0x1E];
        fields[..2].copy_from_slice(&array.to_le_bytes());
        fields[8..10].copy_from_slice(&size.to_le_bytes());
        fields[0x18..0x1C].copy_from_slice(&extended.to_le_bytes());
        structure(17, 9, &fields, &[])
    }

    fn sum(parts: &[Vec<u8>]) -> Option<u64> {
        plugged_mb(&parse(&parts.concat()))
    }

    #[test]
    fn sizes_in_each_unit() {
        assert_eq!(sum(&[device(1, 0, 0)]), Some(0));
        assert_eq!(sum(&[device(1, 16_384, 0)]), Some(16_384));
        assert_eq!(sum(&[device(1, 0x8000 | 2048, 0)]), Some(2));
        assert_eq!(sum(&[device(1, 0x7FFF, 65_536)]), Some(65_536));
        assert_eq!(sum(&[device(1, 0xFFFF, 0)]), None);
        assert_eq!(sum(&[structure(17, 9, &[], &[])]), None);
        assert_eq!(sum(&[]), None);
    }

    #[test]
    fn memory_of_other_use_does_not_count() {
        let (system, flash) = (
            structure(16, 1, &[3, 3], &[]),
            structure(16, 2, &[3, 5], &[]),
        );
        let devices = [device(1, 8192, 0), device(2, 16, 0), device(1, 8192, 0)].concat();
        assert_eq!(sum(&[system, flash, devices]), Some(16_384));
    }
}

//! Memory: what the kernel has, and what is plugged in (SMBIOS type 17, DSP0134
//! §7.18).

use serde_json::Value;
use serde_json::json;

use super::Roots;
use crate::disk::sysfs;

/// Size field: unknown, and "see the extended size".
const UNKNOWN: u16 = 0xFFFF;
const EXTENDED: u16 = 0x7FFF;

/// What the inventory tells of it.
pub(super) fn read(roots: Roots<'_>) -> Value {
    let total = total(roots);
    let plugged = plugged_mb(roots).filter(|mb| *mb > 0);
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

/// MiB of all memory devices; none where the firmware lists none.
fn plugged_mb(roots: Roots<'_>) -> Option<u64> {
    let folder = roots.sys.join("firmware/dmi/entries");
    let entries = sysfs::names(&folder);
    let devices = entries.iter().filter(|name| name.starts_with("17-"));
    let sizes: Vec<u64> = devices
        .filter_map(|name| device_mb(&sysfs::bytes(&folder.join(name).join("raw"))?))
        .collect();
    (!sizes.is_empty()).then(|| sizes.iter().sum())
}

/// MiB of one memory device; 0 for an empty slot.
fn device_mb(raw: &[u8]) -> Option<u64> {
    let word = |at: usize| raw.get(at..at + 2)?.try_into().ok().map(u16::from_le_bytes);
    let double = |at: usize| raw.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
    Some(match word(0x0C)? {
        UNKNOWN => return None,
        EXTENDED => u64::from(double(0x1C)? & 0x7FFF_FFFF),
        // Bit 15: the unit is KiB.
        size if size & 0x8000 != 0 => u64::from(size & 0x7FFF) >> 10,
        size => u64::from(size),
    })
}

#[cfg(test)]
mod tests {
    use super::device_mb;

    fn device(size: u16, extended: u32) -> Vec<u8> {
        let mut raw = vec![0; 0x22];
        raw[0x0C..0x0E].copy_from_slice(&size.to_le_bytes());
        raw[0x1C..0x20].copy_from_slice(&extended.to_le_bytes());
        raw
    }

    #[test]
    fn sizes_in_each_unit() {
        assert_eq!(device_mb(&device(0, 0)), Some(0));
        assert_eq!(device_mb(&device(16_384, 0)), Some(16_384));
        assert_eq!(device_mb(&device(0x8000 | 2048, 0)), Some(2));
        assert_eq!(device_mb(&device(0x7FFF, 65_536)), Some(65_536));
        assert_eq!(device_mb(&device(0xFFFF, 0)), None);
        assert_eq!(device_mb(&[17, 3]), None);
        assert_eq!(device_mb(&device(0x7FFF, 0)[..0x1D]), None);
    }
}

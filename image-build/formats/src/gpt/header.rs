//! The GPT header of one sector.

use uuid::Uuid;

use super::error::Error;

/// Bytes of the header that are defined.
pub(super) const HEADER_BYTES: usize = 92;
/// Most bytes an entry array may have here; the usual one has 16 KiB.
const MAX_ENTRIES_BYTES: u64 = 1 << 20;

/// A checked header, primary or backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Sector of this header.
    pub my_lba: u64,
    /// Sector of the other header.
    pub alternate_lba: u64,
    /// First sector that partitions may use.
    pub first_usable: u64,
    /// Last sector that partitions may use.
    pub last_usable: u64,
    /// GUID of the disk.
    pub disk_guid: Uuid,
    /// First sector of the entries.
    pub entries_lba: u64,
    /// Number of entries.
    pub entry_count: u32,
    /// Bytes of one entry.
    pub entry_size: u32,
    /// CRC-32 of the entries.
    pub entries_crc: u32,
}

impl Header {
    /// Reads the header in `sector`, which was read from sector `lba`.
    ///
    /// # Errors
    /// [`Error::NoHeader`], [`Error::Crc`] or [`Error::Field`].
    pub fn parse(sector: &[u8], lba: u64) -> Result<Self, Error> {
        if !sector.starts_with(b"EFI PART") || sector.len() < HEADER_BYTES {
            return Err(Error::NoHeader { lba });
        }
        let size = u64::from(u32_at(sector, 12));
        let Some(covered) = usize::try_from(size)
            .ok()
            .filter(|size| *size >= HEADER_BYTES)
            .and_then(|size| sector.get(..size))
        else {
            return Err(field("size", size, "92 to one sector"));
        };
        let mut crc = crc32fast::Hasher::new();
        crc.update(&covered[..16]);
        crc.update(&[0; 4]);
        crc.update(&covered[20..]);
        let (found, expected) = (crc.finalize(), u32_at(sector, 16));
        if found != expected {
            return Err(Error::Crc {
                part: "header",
                found,
                expected,
            });
        }
        let header = Self {
            my_lba: u64_at(sector, 24),
            alternate_lba: u64_at(sector, 32),
            first_usable: u64_at(sector, 40),
            last_usable: u64_at(sector, 48),
            disk_guid: guid_at(sector, 56),
            entries_lba: u64_at(sector, 72),
            entry_count: u32_at(sector, 80),
            entry_size: u32_at(sector, 84),
            entries_crc: u32_at(sector, 88),
        };
        if header.my_lba != lba {
            return Err(field(
                "own sector",
                header.my_lba,
                "the sector it was read from",
            ));
        }
        if header.entry_size < 128 || !header.entry_size.is_power_of_two() {
            return Err(field(
                "entry size",
                header.entry_size.into(),
                "128 or a power of two more",
            ));
        }
        if header.entry_count == 0 || header.entries_bytes() > MAX_ENTRIES_BYTES {
            return Err(field("entry count", header.entry_count.into(), "1 to 8192"));
        }
        // Keeps later arithmetic in range: 2^50 sectors are past any disk.
        let lbas = [header.last_usable, header.alternate_lba, header.entries_lba];
        if let Some(lba) = lbas.into_iter().find(|lba| *lba >= 1 << 50) {
            return Err(field("sector number", lba, "below 2^50"));
        }
        if header.first_usable > header.last_usable {
            return Err(field(
                "first usable sector",
                header.first_usable,
                "before the last",
            ));
        }
        Ok(header)
    }

    /// Bytes of all entries, at most 1 MiB.
    #[must_use]
    pub fn entries_bytes(&self) -> u64 {
        u64::from(self.entry_count) * u64::from(self.entry_size)
    }

    /// One sector with this header, its CRC computed.
    pub(super) fn encode(&self, sector_size: usize) -> Vec<u8> {
        let mut sector = vec![0; sector_size.max(HEADER_BYTES)];
        let mut put = |at: usize, bytes: &[u8]| {
            sector[at..at + bytes.len()].copy_from_slice(bytes);
        };
        put(0, b"EFI PART");
        put(8, &0x0001_0000u32.to_le_bytes());
        put(12, &92u32.to_le_bytes());
        put(24, &self.my_lba.to_le_bytes());
        put(32, &self.alternate_lba.to_le_bytes());
        put(40, &self.first_usable.to_le_bytes());
        put(48, &self.last_usable.to_le_bytes());
        put(56, &self.disk_guid.to_bytes_le());
        put(72, &self.entries_lba.to_le_bytes());
        put(80, &self.entry_count.to_le_bytes());
        put(84, &self.entry_size.to_le_bytes());
        put(88, &self.entries_crc.to_le_bytes());
        let crc = crc32fast::hash(&sector[..HEADER_BYTES]);
        sector[16..20].copy_from_slice(&crc.to_le_bytes());
        sector
    }
}

fn field(field: &'static str, found: u64, expected: &'static str) -> Error {
    Error::Field {
        field,
        found,
        expected,
    }
}

/// Little-endian number inside the 92 bytes (or a 128-byte entry) that the
/// caller has checked to be there.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(value)
}

/// As [`u32_at`].
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(value)
}

/// As [`u32_at`], for a GUID in its mixed byte order.
pub(super) fn guid_at(bytes: &[u8], at: usize) -> Uuid {
    let mut value = [0; 16];
    value.copy_from_slice(&bytes[at..at + 16]);
    Uuid::from_bytes_le(value)
}

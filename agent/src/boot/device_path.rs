//! Device paths of the two kinds that boot entries for a disk need: a
//! partition and a file on it (UEFI 2.10, §10.3).

use uuid::Uuid;

/// UEFI 2.10 §10.3.5: media device path.
const MEDIA: u8 = 4;
/// §10.3.5.1.
const HARD_DRIVE: u8 = 1;
const HARD_DRIVE_LENGTH: u16 = 42;
/// §10.3.5.4.
const FILE_PATH: u8 = 4;
/// §10.3.1: end of the entire device path.
const END: [u8; 4] = [0x7f, 0xff, 4, 0];

/// How a partition is told from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionSignature {
    /// GPT: the partition's own GUID.
    Guid(Uuid),
    /// MBR: the disk's signature.
    Mbr(u32),
}

/// A partition as the firmware finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HardDrive {
    /// Number in the table, from 1.
    pub number: u32,
    /// First logical block.
    pub start_lba: u64,
    /// Size in logical blocks.
    pub size_lba: u64,
    /// How it is told from others.
    pub signature: PartitionSignature,
}

/// The device path of a file on a partition; `file` with backslashes from
/// the root, `\EFI\debian\shimx64.efi`.
pub fn file_on_partition(drive: &HardDrive, file: &str) -> Vec<u8> {
    let mut path = Vec::with_capacity(64 + 2 * file.len());
    path.extend([MEDIA, HARD_DRIVE]);
    path.extend(HARD_DRIVE_LENGTH.to_le_bytes());
    path.extend(drive.number.to_le_bytes());
    path.extend(drive.start_lba.to_le_bytes());
    path.extend(drive.size_lba.to_le_bytes());
    match drive.signature {
        PartitionSignature::Guid(guid) => {
            path.extend(guid.to_bytes_le());
            // Partition format GPT, signature type GUID.
            path.extend([2, 2]);
        }
        PartitionSignature::Mbr(signature) => {
            path.extend(signature.to_le_bytes());
            path.extend([0; 12]);
            path.extend([1, 1]);
        }
    }
    let name = utf16(file);
    path.extend([MEDIA, FILE_PATH]);
    let length = u16::try_from(4 + name.len()).unwrap_or(u16::MAX);
    path.extend(length.to_le_bytes());
    path.extend(name);
    path.extend(END);
    path
}

/// Little-endian UTF-16 with a terminating zero.
pub(super) fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16()
        .chain([0])
        .flat_map(u16::to_le_bytes)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::HardDrive;
    use super::PartitionSignature;
    use super::file_on_partition;
    use uuid::uuid;

    /// The device path that `efibootmgr -c -d /dev/sda -p 1 -l
    /// '\EFI\a.efi'` makes for a partition from 2048 of 1048576 sectors,
    /// put together by hand after the specification.
    #[test]
    fn bytes_of_the_specification() {
        let drive = HardDrive {
            number: 1,
            start_lba: 2048,
            size_lba: 1_048_576,
            signature: PartitionSignature::Guid(uuid!("12345678-9abc-def0-1122-334455667788")),
        };
        let mut expected: Vec<u8> = vec![
            0x04, 0x01, 0x2a, 0x00, // hard drive, 42 bytes
            0x01, 0x00, 0x00, 0x00, // partition 1
            0x00, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // start
            0x00, 0x00, 0x10, 0x00, 0x00, 0x00, 0x00, 0x00, // size
            0x78, 0x56, 0x34, 0x12, 0xbc, 0x9a, 0xf0, 0xde, // GUID, its first
            0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, // fields swapped
            0x02, 0x02, // GPT, GUID
            0x04, 0x04, 0x1a, 0x00, // file path, 4 + 2 * 11 bytes
        ];
        for byte in b"\\EFI\\a.efi\0" {
            expected.extend([*byte, 0]);
        }
        expected.extend([0x7f, 0xff, 0x04, 0x00]);
        assert_eq!(file_on_partition(&drive, "\\EFI\\a.efi"), expected);
    }

    #[test]
    fn mbr_signature() {
        let signature = PartitionSignature::Mbr(0xa1b2_c3d4);
        let drive = HardDrive {
            number: 2,
            start_lba: 1,
            size_lba: 2,
            signature,
        };
        let path = file_on_partition(&drive, "\\x");
        assert_eq!(path[24..28], [0xd4, 0xc3, 0xb2, 0xa1]);
        assert_eq!(path[40..42], [1, 1]);
    }
}

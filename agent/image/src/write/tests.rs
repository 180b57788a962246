//! Targets that fail at any byte: the disk is right, or both ends are zero.

use std::fs;

use proptest::prelude::ProptestConfig;
use proptest::prop_assert;
use proptest::prop_assert_eq;
use sha2::Digest;
use sha2::Sha256;
use wrought_formats::gpt;

use super::*;
use crate::error::DiskState;
use crate::error::ErrorKind;

const MIB: usize = 1 << 20;
const IMAGE: usize = 6 * MIB;
const DISK: usize = 8 * MIB;

/// A disk image with a table; its bytes all differ from those of the disk.
fn image() -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..IMAGE).map(|at| (at / 512 % 200) as u8).collect();
    bytes[3 * MIB..4 * MIB].fill(0);
    let uuid = uuid::Uuid::from_u128;
    let mut table = gpt::Gpt::new(512, IMAGE as u64 / 512, uuid(5)).unwrap();
    let new = gpt::NewPartition {
        kind: gpt::TYPE_LINUX,
        guid: uuid(6),
        name: "root",
        bytes: MIB as u64,
        align: 4096,
    };
    table.add_at_end(&new).unwrap();
    for patch in table.encode(None) {
        let at = patch.offset as usize;
        bytes[at..at + patch.bytes.len()].copy_from_slice(&patch.bytes);
    }
    bytes
}

proptest::proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn a_failing_disk_never_boots(
        start in 0..DISK as u64,
        len in 1..(64u64 << 10),
        times in 1u32..4,
        full in proptest::bool::ANY,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let (source, path) = (dir.path().join("image"), dir.path().join("disk"));
        let image = image();
        fs::write(&source, &image).unwrap();
        fs::write(&path, vec![0xff; DISK]).unwrap();
        let target = Target::claim(&path).unwrap();
        let errno = if full { libc::ENOSPC } else { libc::EIO };
        target.faults.set(start..start + len, times, errno);
        let mut request = WriteRequest::new(source.to_str().unwrap(), &path);
        let hex: String = Sha256::digest(&image).iter().map(|b| format!("{b:02x}")).collect();
        request.checksum = Some(hex);
        let result = write_to(&request, &target);
        let disk = fs::read(&path).unwrap();
        match result {
            Ok(_) => {
                prop_assert!(disk[MIB..IMAGE] == image[MIB..]);
                prop_assert!(disk[512..].starts_with(b"EFI PART"));
            }
            Err(error) => {
                prop_assert_eq!(error.kind(), ErrorKind::Target);
                prop_assert!(error.offset().is_some());
                let zeroes = vec![0; MIB];
                let zero = disk.starts_with(&zeroes) && disk.ends_with(&zeroes);
                prop_assert!(zero || error.disk() == DiskState::Unknown, "{}", error);
                // Whatever else: no table of the image is left.
                prop_assert!(zero || !disk[512..].starts_with(b"EFI PART"), "{}", error);
            }
        }
    }
}

//! Targets that fail at any byte: the disk is right, or both ends are zero.

use std::fs;
use std::process::Command;
use std::sync::Mutex;

use proptest::prelude::ProptestConfig;
use proptest::prop_assert;
use proptest::prop_assert_eq;
use sha2::Digest;
use sha2::Sha256;
use wrought_formats::gpt;

use super::*;
use crate::control::lock;
use crate::error::DiskState;
use crate::error::ErrorKind;
use crate::target::fault::Failing;

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

/// How the image is published.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Raw,
    /// In qcow2, compressed this way; raw where there is no `qemu-img`.
    Qcow2(&'static str),
}

const KINDS: [Kind; 3] = [
    Kind::Raw,
    Kind::Qcow2("compression_type=zlib"),
    Kind::Qcow2("compression_type=zstd"),
];

/// The image as it is published; made once.
fn published(kind: Kind) -> Vec<u8> {
    static MADE: Mutex<Vec<(Kind, Vec<u8>)>> = Mutex::new(Vec::new());
    let mut made = lock(&MADE);
    if let Some((_, bytes)) = made.iter().find(|(other, _)| *other == kind) {
        return bytes.clone();
    }
    let dir = tempfile::tempdir().unwrap();
    let (raw, qcow2) = (dir.path().join("raw"), dir.path().join("qcow2"));
    let mut bytes = image();
    fs::write(&raw, &bytes).unwrap();
    if let Kind::Qcow2(options) = kind {
        let converted = Command::new("qemu-img")
            .args(["convert", "-c", "-O", "qcow2", "-o", options])
            .args([&raw, &qcow2])
            .status();
        if converted.is_ok_and(|status| status.success()) {
            bytes = fs::read(&qcow2).unwrap();
        }
    }
    made.push((kind, bytes.clone()));
    bytes
}

/// A used disk and a request to write the image to it.
struct Case {
    dir: tempfile::TempDir,
    target: Target,
    request: WriteRequest,
    image: Vec<u8>,
}

impl Case {
    fn new(ring: bool, kind: Kind) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (source, path) = (dir.path().join("image"), dir.path().join("disk"));
        let (image, published) = (image(), published(kind));
        fs::write(&source, &published).unwrap();
        fs::write(&path, vec![0xff; DISK]).unwrap();
        let target = Target::claim(&path).unwrap();
        if !ring {
            target.use_no_ring();
        }
        let mut request = WriteRequest::new(source.to_str().unwrap(), &path);
        let hex: String = Sha256::digest(&published)
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        request.checksum = Some(hex);
        Self {
            dir,
            target,
            request,
            image,
        }
    }

    fn disk(&self) -> Vec<u8> {
        fs::read(self.dir.path().join("disk")).unwrap()
    }

    fn holds_the_image(&self) -> bool {
        let disk = self.disk();
        disk[MIB..IMAGE] == self.image[MIB..] && disk[512..].starts_with(b"EFI PART")
    }

    fn ends_are_zero(&self) -> bool {
        let (disk, zeroes) = (self.disk(), vec![0; MIB]);
        disk.starts_with(&zeroes) && disk.ends_with(&zeroes)
    }
}

proptest::proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]
    #[test]
    fn a_failing_disk_never_boots(
        start in 0..DISK as u64,
        len in 1..(64u64 << 10),
        before in 0u32..4,
        times in 1u32..4,
        full in proptest::bool::ANY,
        ring in proptest::bool::ANY,
        short in proptest::option::of(1usize..200),
        kind in proptest::sample::select(&KINDS[..]),
    ) {
        let case = Case::new(ring, kind);
        let errno = if full { libc::ENOSPC } else { libc::EIO };
        case.target.faults.fail(Failing { range: start..start + len, before, times, errno });
        if let Some(sectors) = short {
            case.target.faults.shorten(sectors * 512);
        }
        match write_to(&case.request, &case.target) {
            Ok(_) => prop_assert!(case.holds_the_image()),
            Err(error) => {
                prop_assert_eq!(error.kind(), ErrorKind::Target);
                prop_assert_eq!(error.stage(), Stage::Write);
                // Where the refused piece starts: none is longer than a MiB.
                let offset = error.offset().unwrap();
                prop_assert!(offset < start + len && start < offset + MIB as u64, "{}", error);
                let zero = case.ends_are_zero();
                prop_assert!(zero || error.disk() == DiskState::Unknown, "{}", error);
                // Whatever else: no table of the image is left.
                let table = case.disk()[512..].starts_with(b"EFI PART");
                prop_assert!(zero || !table, "{}", error);
            }
        }
    }
}

#[test]
fn short_writes_are_continued() {
    for (most, kind) in [512, 4096, 3 * 4096, 100_000]
        .into_iter()
        .zip(KINDS.into_iter().cycle())
    {
        for ring in [true, false] {
            let mut case = Case::new(ring, kind);
            case.target.faults.shorten(most);
            case.request.verify_after_write = true;
            write_to(&case.request, &case.target).unwrap();
            assert!(case.holds_the_image(), "{most}, {kind:?}");
        }
    }
}

#[test]
fn a_failing_flush_is_not_overlooked() {
    // Of the zeroed ends, the data, the tail, the head.
    for before in 0..4 {
        let case = Case::new(true, Kind::Raw);
        case.target.faults.fail_flush(before, libc::EIO);
        let error = write_to(&case.request, &case.target).unwrap_err();
        assert_eq!(
            (error.kind(), error.stage()),
            (ErrorKind::Target, Stage::Flush)
        );
        assert!(error.offset().is_some());
        assert_eq!(error.disk(), DiskState::EndsZeroed);
        assert!(case.ends_are_zero());
    }
    let case = Case::new(true, Kind::Raw);
    case.target.faults.fail_flush(4, libc::EIO);
    write_to(&case.request, &case.target).unwrap();
}

#[test]
fn a_bad_sector_keeps_no_other_from_being_zeroed() {
    let case = Case::new(true, Kind::Raw);
    case.target.faults.fail(Failing {
        range: 8192..8193,
        before: 0,
        times: u32::MAX,
        errno: libc::EIO,
    });
    let error = write_to(&case.request, &case.target).unwrap_err();
    assert_eq!(error.disk(), DiskState::Unknown);
    let mut disk = case.disk();
    assert!(disk[8192..12288].iter().all(|byte| *byte == 0xff));
    disk[8192..12288].fill(0);
    assert!(
        disk[..MIB]
            .iter()
            .chain(&disk[DISK - MIB..])
            .all(|byte| *byte == 0)
    );
}

#[test]
fn a_disk_that_changes_bytes_is_found_out() {
    for at in [MIB, 3 * MIB + 5, IMAGE - MIB - 1] {
        let mut case = Case::new(true, Kind::Raw);
        case.target.faults.change(at as u64);
        case.request.verify_after_write = true;
        let error = write_to(&case.request, &case.target).unwrap_err();
        assert_eq!(
            (error.kind(), error.stage()),
            (ErrorKind::Target, Stage::ReadBack)
        );
        assert!(error.offset().is_some());
        assert!(case.ends_are_zero());
    }
}

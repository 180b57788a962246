//! What the tests of this crate share: images and a server with faults.

#![allow(dead_code, reason = "each test binary uses a part")]

pub(crate) mod qcow2;
pub(crate) mod recipe;
pub(crate) mod server;

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use sha2::Digest;
use sha2::Sha256;
use wrought_formats::gpt;
use wrought_image::Retry;
use wrought_image::WriteRequest;

pub(crate) const MIB: usize = 1 << 20;

/// A small fast generator, so that images are the same in every run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let value = self.next().to_ne_bytes();
            chunk.copy_from_slice(&value[..chunk.len()]);
        }
    }
}

/// A disk of `size` bytes with a GPT of two partitions, filled with random
/// bytes, text and zeroes in turn.
pub(crate) fn disk(size: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; size];
    let mut random = Random::new(seed);
    let mut at = MIB;
    while at < size {
        let len = (4096 << random.below(8)).min((size - at) as u64) as usize;
        match random.below(3) {
            0 => random.fill(&mut bytes[at..at + len]),
            1 => {
                for line in bytes[at..at + len].chunks_mut(36) {
                    line.copy_from_slice(&b"a line of text that compresses well\n"[..line.len()]);
                }
            }
            _ => {}
        }
        at += len;
    }
    put_table(&mut bytes, 512, seed);
    bytes
}

/// Puts a GPT with one EFI system partition on a disk.
pub(crate) fn put_table(bytes: &mut [u8], sector_size: u32, seed: u64) {
    let sectors = bytes.len() as u64 / u64::from(sector_size);
    let mut table = gpt::Gpt::new(sector_size, sectors, uuid(seed)).unwrap();
    let new = gpt::NewPartition {
        kind: gpt::TYPE_ESP,
        guid: uuid(1),
        name: "esp",
        bytes: MIB as u64,
        align: 4096,
    };
    table.add_at_end(&new).unwrap();
    for patch in table.encode(None) {
        let at = patch.offset as usize;
        bytes[at..at + patch.bytes.len()].copy_from_slice(&patch.bytes);
    }
}

/// Puts an MBR with one partition of 1 MiB on a disk.
pub(crate) fn put_mbr(bytes: &mut [u8], seed: u64) {
    let mut mbr = [0; 512];
    mbr[440..444].copy_from_slice(&(seed as u32).to_le_bytes());
    mbr[450] = 0x83;
    mbr[454..458].copy_from_slice(&1u32.to_le_bytes());
    mbr[458..462].copy_from_slice(&2048u32.to_le_bytes());
    mbr[510..].copy_from_slice(&[0x55, 0xaa]);
    bytes[..512].copy_from_slice(&mbr);
}

fn uuid(seed: u64) -> uuid::Uuid {
    uuid::Uuid::from_u128(u128::from(seed) + 77)
}

/// `sha256:HEX` of some bytes.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("sha256:{hex}")
}

/// A request with short pauses.
pub(crate) fn request(source: &str, target: &Path, image: &[u8]) -> WriteRequest {
    let mut request = WriteRequest::new(source, target);
    request.checksum = Some(sha256(image));
    request.retry = Retry {
        attempts: 4,
        delay: Duration::from_millis(20),
        stall: Duration::from_millis(500),
        connect: Duration::from_secs(5),
    };
    request
}

/// A file that is used as a disk, full of ones, so that what is not written
/// is seen.
pub(crate) fn used_disk(dir: &Path, size: usize) -> PathBuf {
    let path = dir.join("disk");
    fs::write(&path, vec![0xff; size]).unwrap();
    path
}

/// Whether the first and last MiB are zero.
pub(crate) fn ends_are_zero(path: &Path) -> bool {
    let disk = fs::read(path).unwrap();
    let end = MIB.min(disk.len());
    disk[..end]
        .iter()
        .chain(&disk[disk.len() - end..])
        .all(|byte| *byte == 0)
}

/// Runs `qemu-img`; false where it is not installed.
pub(crate) fn qemu_img(args: &[&str]) -> bool {
    match Command::new("qemu-img").args(args).output() {
        Ok(output) => {
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "qemu-img {args:?}: {error}");
            true
        }
        Err(_) => false,
    }
}

/// A temporary directory in memory, where there is one: for images that
/// QEMU makes, which would otherwise wait for the disk most of the time.
pub(crate) fn memory_dir() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

//! What the fuzz targets share.

pub mod naive;

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::path::PathBuf;

use sha2::Digest;
use sha2::Sha256;

/// A file in memory that has no name, so that nothing is left behind however
/// the fuzzer ends; and a path by which it can be opened again.
///
/// # Panics
/// There is no room.
#[must_use]
pub fn file() -> (File, PathBuf) {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() {
        tempfile::tempfile_in(memory)
    } else {
        tempfile::tempfile()
    };
    let file = made.expect("a temporary file");
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    (file, path)
}

/// `sha256:HEX` of some bytes.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("sha256:{hex}")
}

/// How a sparse input starts.
const SPARSE: &[u8; 4] = b"\0SP\0";
/// Zeroes that are worth a new piece.
const GAP: usize = 16;
/// Most bytes that a sparse input stands for.
const MOST: usize = 256 << 10;

/// The bytes that an input stands for: itself, or, where it starts with a
/// mark, pieces of bytes on zeroes. So the fuzzer gets at tables that lie
/// clusters apart without carrying the zeroes between them.
#[must_use]
pub fn expanded(input: &[u8]) -> Vec<u8> {
    let Some(mut rest) = input.strip_prefix(SPARSE) else {
        return input.to_vec();
    };
    let mut bytes = Vec::new();
    while let [a, b, c, len, more @ ..] = rest {
        let at = u32::from_le_bytes([*a, *b, *c, 0]) as usize % MOST;
        let (piece, after) = more.split_at((*len as usize).min(more.len()));
        let end = at + piece.len();
        bytes.resize(bytes.len().max(end), 0);
        bytes[at..end].copy_from_slice(piece);
        rest = after;
    }
    bytes
}

/// An input that stands for `bytes`: the shorter of both kinds.
#[must_use]
pub fn sparse(bytes: &[u8]) -> Vec<u8> {
    let mut input = SPARSE.to_vec();
    let mut put = |at: usize, piece: &[u8]| {
        input.extend_from_slice(&(at as u32).to_le_bytes()[..3]);
        input.push(piece.len() as u8);
        input.extend_from_slice(piece);
    };
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == 0 {
            at += 1;
            continue;
        }
        let rest = &bytes[at..bytes.len().min(at + 255)];
        let gap = rest.windows(GAP).position(|zeroes| zeroes == [0; GAP]);
        let len = gap.unwrap_or(rest.len());
        put(at, &rest[..len]);
        at += len;
    }
    if let Some(0) = bytes.last() {
        put(bytes.len() - 1, &[0]);
    }
    if input.len() < bytes.len() {
        input
    } else {
        bytes.to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparse_input_stands_for_its_bytes() {
        for len in [0, 1, 300, 5000, 100_000] {
            let mut bytes = vec![0; len];
            for at in (0..len).step_by(777) {
                let end = len.min(at + at % 400);
                bytes[at..end].fill(3);
            }
            assert_eq!(expanded(&sparse(&bytes)), bytes);
        }
    }
}

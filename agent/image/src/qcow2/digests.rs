//! Digests of blocks that may be needed again.

use std::hash::BuildHasher;
use std::hash::Hasher;
use std::hash::RandomState;

use sha2::Digest;
use sha2::Sha256;

use crate::buffer::Block;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;

/// Bytes of memory for one kept digest.
const ENTRY: usize = size_of::<(u64, [u8; 16])>();

/// Half a SHA-256 each, with a random prefix: a server cannot prepare two
/// blocks that look the same here.
#[derive(Debug)]
pub(super) struct Digests {
    prefix: [u8; 16],
    /// By ascending offset.
    kept: Vec<(u64, [u8; 16])>,
    most: usize,
}

impl Digests {
    /// Keeps at most `memory` bytes of digests.
    pub(super) fn new(memory: usize) -> Self {
        // Two independent outputs of the standard library's random keys.
        let random = || RandomState::new().build_hasher().finish().to_ne_bytes();
        let mut prefix = [0; 16];
        prefix[..8].copy_from_slice(&random());
        prefix[8..].copy_from_slice(&random());
        Self {
            prefix,
            kept: Vec::new(),
            most: memory / ENTRY,
        }
    }

    fn digest(&self, block: &Block) -> [u8; 16] {
        let mut hasher = Sha256::new();
        hasher.update(self.prefix);
        hasher.update(block.bytes());
        let mut half = [0; 16];
        half.copy_from_slice(&hasher.finalize()[..16]);
        half
    }

    /// Keeps the digest of a block of the hashed pass.
    pub(super) fn keep(&mut self, block: &Block) -> Result<(), Error> {
        if self.kept.len() >= self.most {
            let text = format!(
                "the image stores too much of its data before the tables that place it: the \
                 memory budget holds digests of {} blocks; give more memory (--memory) or convert \
                 the image once with 'qemu-img convert -O qcow2'",
                self.most
            );
            return Err(Error::new(ErrorKind::Memory, Stage::Decode, text).at(block.offset));
        }
        let digest = self.digest(block);
        self.kept.push((block.offset, digest));
        Ok(())
    }

    /// Whether a block of a later pass was kept (`false`: it was not), and
    /// an error when it differs.
    pub(super) fn check(&self, block: &Block) -> Result<bool, Error> {
        let Ok(index) = self
            .kept
            .binary_search_by_key(&block.offset, |(offset, _)| *offset)
        else {
            return Ok(false);
        };
        if self.kept[index].1 == self.digest(block) {
            return Ok(true);
        }
        let text = format!(
            "the source gave other bytes when it was read again: bytes {} to {} differ from the \
             pass that was checked",
            block.offset,
            block.end()
        );
        Err(Error::new(ErrorKind::Source, Stage::Verify, text).at(block.offset))
    }
}

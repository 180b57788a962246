//! A running digest.

use std::fmt::Write;

use md5::Md5;
use sha2::Digest;
use sha2::Sha256;
use sha2::Sha512;

use crate::request::Algorithm;

/// A running digest of any of the algorithms.
#[derive(Debug)]
pub(crate) enum Hasher {
    Md5(Md5),
    Sha256(Sha256),
    Sha512(Sha512),
}

impl Hasher {
    pub(crate) fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Md5 => Self::Md5(Md5::new()),
            Algorithm::Sha256 => Self::Sha256(Sha256::new()),
            Algorithm::Sha512 => Self::Sha512(Sha512::new()),
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Md5(hasher) => hasher.update(bytes),
            Self::Sha256(hasher) => hasher.update(bytes),
            Self::Sha512(hasher) => hasher.update(bytes),
        }
    }

    /// Lower-case hex of the digest.
    pub(crate) fn finish(self) -> String {
        match self {
            Self::Md5(hasher) => hex(&hasher.finalize()),
            Self::Sha256(hasher) => hex(&hasher.finalize()),
            Self::Sha512(hasher) => hex(&hasher.finalize()),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_right() {
        for (algorithm, start) in [
            (Algorithm::Md5, "900150983cd24fb0d6963f7d28e17f72"),
            (Algorithm::Sha256, "ba7816bf8f01cfea"),
            (Algorithm::Sha512, "ddaf35a193617aba"),
        ] {
            let mut hasher = Hasher::new(algorithm);
            hasher.update(b"a");
            hasher.update(b"bc");
            let hex = hasher.finish();
            assert!(hex.starts_with(start) && hex.len() == algorithm.hex_len());
        }
    }
}

//! Parts of the data path by themselves, each in a process of its own: what
//! one core can do at best.

use std::fs::File;
use std::io;
use std::io::BufReader;
use std::io::Read;
use std::path::Path;

use anyhow::Context;
use anyhow::Result;
use flate2::bufread::MultiGzDecoder;
use sha2::Digest;
use sha2::Sha256;
use sha2::Sha512;

const BUFFER: usize = 1 << 20;

/// What is done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Hashes it.
    Sha256,
    /// Hashes it.
    Sha512,
    /// Inflates it with zlib-rs, to nowhere.
    Gzip,
}

impl Part {
    /// As it is named on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
            Self::Gzip => "gzip",
        }
    }
}

/// Does it once.
pub fn run(part: Part, path: &Path) -> Result<()> {
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    match part {
        Part::Sha256 => hash::<Sha256>(file),
        Part::Sha512 => hash::<Sha512>(file),
        Part::Gzip => {
            let file = BufReader::with_capacity(BUFFER, file);
            each_block(MultiGzDecoder::new(file), |_| ())
        }
    }
    .with_context(|| format!("{} of {}", part.name(), path.display()))
}

fn hash<D: Digest>(file: File) -> io::Result<()> {
    let mut state = D::new();
    each_block(file, |block| state.update(block))?;
    // The result is used, or it might not be computed.
    std::hint::black_box(state.finalize());
    Ok(())
}

fn each_block(mut from: impl Read, mut work: impl FnMut(&[u8])) -> io::Result<()> {
    let mut block = vec![0; BUFFER];
    loop {
        match from.read(&mut block)? {
            0 => return Ok(()),
            count => work(&block[..count]),
        }
    }
}

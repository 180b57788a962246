//! Images that are compressed as a whole: gz, xz, zst and bz2 around raw or
//! qcow2.
//!
//! The compressed bytes are hashed as they come; beside that one thread
//! decodes them into blocks of a pool of its own, which go the way that
//! blocks of an image without container go. Where a later pass is needed the
//! whole is decoded again: such formats have no other way back.

mod decode;
mod members;
mod reader;
mod unpack;

pub(crate) use decode::decoder;
pub(crate) use decode::peek;
pub(crate) use reader::BlockReader;
pub(crate) use unpack::Limits;
pub(crate) use unpack::Unpack;

use wrought_formats::detect;
use wrought_formats::detect::Format;
use wrought_formats::xz;
use wrought_formats::zstd;

use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;

/// A kind of compressed stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Gzip,
    Xz,
    Zstd,
    Bzip2,
}

/// A recognised container and what its decoder needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Container {
    pub(crate) kind: Kind,
    /// Bytes of memory for the decoder's window and tables.
    pub(crate) memory: u64,
}

impl Kind {
    /// The container that `format` is, if it is one.
    pub(crate) fn of(format: Format) -> Option<Self> {
        match format {
            Format::Gzip => Some(Self::Gzip),
            Format::Xz => Some(Self::Xz),
            Format::Zstd => Some(Self::Zstd),
            Format::Bzip2 => Some(Self::Bzip2),
            _ => None,
        }
    }

    /// Whether more memory than the first headers ask for has a use: blocks
    /// of xz are decoded side by side, later frames of zst may be larger.
    pub(crate) fn takes_spare_memory(self) -> bool {
        matches!(self, Self::Xz | Self::Zstd)
    }

    pub(crate) fn format(self) -> Format {
        match self {
            Self::Gzip => Format::Gzip,
            Self::Xz => Format::Xz,
            Self::Zstd => Format::Zstd,
            Self::Bzip2 => Format::Bzip2,
        }
    }
}

/// More than any budget: a frame may claim to be as long as 2^64 bytes.
const MOST_WINDOW: u64 = 1 << 42;

/// Looks at the start of the source; `None` when it is no container.
pub(crate) fn recognise(head: &[u8]) -> Result<Option<Container>, Error> {
    // Several signatures at once are the format detection's to refuse.
    let Some(kind) = detect::detect(head)
        .ok()
        .and_then(|found| Kind::of(found.format))
    else {
        return Ok(None);
    };
    let fixed = 256 << 10;
    let memory = match kind {
        // 32 KiB of window and some tables.
        Kind::Gzip => fixed,
        // Blocks of 900,000 bytes, four bytes and a bit for each.
        Kind::Bzip2 => fixed + (4 << 20),
        Kind::Xz => match xz::dictionary_size(head) {
            Some(size) => size + 2 * fixed,
            None => {
                let text = "the xz headers at the start of the image are damaged, or name a \
                            filter that is not LZMA2";
                return Err(Error::new(ErrorKind::Format, Stage::Check, text));
            }
        },
        // A frame that lies behind the head: the decoder's own limit decides
        // later.
        Kind::Zstd => {
            let first = zstd::behind_skippable(head);
            let window = zstd::frame_header(first).map_or(8 << 20, |header| header.window);
            window.min(MOST_WINDOW) + 2 * fixed
        }
    };
    Ok(Some(Container { kind, memory }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_claims_everything_needs_more_than_there_is() {
        let head = [&zstd::MAGIC[..], &[0xff; 16]].concat();
        let found = recognise(&head).unwrap().unwrap();
        assert!(found.kind == Kind::Zstd && found.memory > MOST_WINDOW);
    }
}

//! The decoders themselves: libraries, behind one `Read`.

use std::io;
use std::io::BufRead;
use std::io::Read;

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::GzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::MtStreamBuilder;

use super::Container;
use super::Kind;
use super::members::Members;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;

/// Threads that decode an xz file whose blocks, and their decoded bytes, fit
/// the memory several times.
const XZ_THREADS: u32 = 4;

/// A decoder of all that `reader` gives, within the container's memory.
pub(crate) fn decoder<'a>(
    container: Container,
    reader: impl BufRead + 'a,
) -> io::Result<Box<dyn Read + 'a>> {
    let memory = container.memory;
    Ok(match container.kind {
        Kind::Gzip => Box::new(Members::new(reader, |reader| Ok(GzDecoder::new(reader)))?),
        Kind::Bzip2 => Box::new(MultiBzDecoder::new(reader)),
        Kind::Xz => {
            let start = move |reader| {
                let stream = MtStreamBuilder::new()
                    .threads(XZ_THREADS)
                    .memlimit_threading(memory)
                    .memlimit_stop(memory)
                    .decoder()?;
                Ok(XzDecoder::new_stream(reader, stream))
            };
            Box::new(Members::new(reader, start)?)
        }
        Kind::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(reader)?;
            // The library's range.
            decoder.window_log_max(memory.next_power_of_two().ilog2().clamp(10, 31))?;
            Box::new(decoder)
        }
    })
}

/// The first bytes, at most `limit`, that the start of a container decodes
/// to.
pub(crate) fn peek(container: Container, head: &[u8], limit: usize) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    let mut decoder =
        decoder(container, head).map_err(|error| damaged(container.kind, 0, error))?;
    let mut buf = vec![0; 64 << 10];
    while out.len() < limit {
        match decoder.read(&mut buf) {
            Ok(0) => break,
            Ok(count) => out.extend_from_slice(&buf[..count]),
            // The head ends before the data does.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(damaged(container.kind, out.len() as u64, error)),
        }
    }
    out.truncate(limit);
    Ok(out)
}

/// The compressed data cannot be decoded past `offset` of what it holds.
pub(super) fn damaged(kind: Kind, offset: u64, error: io::Error) -> Error {
    let format = kind.format();
    let too_large = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<liblzma::stream::Error>())
        .is_some_and(|inner| *inner == liblzma::stream::Error::MemLimit);
    if too_large {
        let text = "the image has an xz block with a larger dictionary than its first one, more \
                    than the memory budget has left (--memory)";
        return Error::new(ErrorKind::Memory, Stage::Decode, text).at(offset);
    }
    let text = if error.kind() == io::ErrorKind::UnexpectedEof {
        format!("the {format} data of the image is cut off")
    } else {
        format!("the {format} data of the image is damaged")
    };
    Error::new(ErrorKind::Format, Stage::Decode, text)
        .at(offset)
        .caused_by(error)
}

//! Compressed streams one behind the other: the members of a gzip file
//! (RFC 1952, section 2.2), the streams of an .xz file (".xz File Format",
//! section 2.2).

use std::io;
use std::io::BufRead;
use std::io::Read;

use flate2::bufread::GzDecoder;
use liblzma::bufread::XzDecoder;

/// The decoder of one stream.
pub(super) trait Member: Read {
    /// What it reads from.
    type Reader: BufRead;

    /// Whether another stream may follow padding.
    const PADDED: bool;
    /// First byte of every stream.
    const FIRST: u8;

    /// The reader, at the first byte behind the stream.
    fn into_reader(self) -> Self::Reader;
}

impl<R: BufRead> Member for GzDecoder<R> {
    type Reader = R;
    const PADDED: bool = false;
    const FIRST: u8 = 0x1f;

    fn into_reader(self) -> R {
        self.into_inner()
    }
}

impl<R: BufRead> Member for XzDecoder<R> {
    type Reader = R;
    const PADDED: bool = true;
    const FIRST: u8 = 0xfd;

    fn into_reader(self) -> R {
        self.into_inner()
    }
}

/// Decodes every stream. Zeroes behind the last one are padding; anything
/// else there is an error.
pub(super) struct Members<M, F> {
    /// `None` at the end.
    member: Option<M>,
    start: F,
}

impl<M: Member, F: Fn(M::Reader) -> io::Result<M>> Members<M, F> {
    /// Begins with the stream that `reader` is at; `start` makes a decoder.
    pub(super) fn new(reader: M::Reader, start: F) -> io::Result<Self> {
        Ok(Self {
            member: Some(start(reader)?),
            start,
        })
    }
}

impl<M: Member, F: Fn(M::Reader) -> io::Result<M>> Read for Members<M, F> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let count = member.read(buf)?;
            if count > 0 || buf.is_empty() {
                return Ok(count);
            }
            if let Some(member) = self.member.take() {
                let mut reader = member.into_reader();
                if another(&mut reader, M::PADDED, M::FIRST)? {
                    self.member = Some((self.start)(reader)?);
                }
            }
        }
        Ok(0)
    }
}

/// Skips padding; whether another stream follows.
fn another(reader: &mut impl BufRead, after_padding: bool, first: u8) -> io::Result<bool> {
    let mut padded = false;
    loop {
        let bytes = reader.fill_buf()?;
        if bytes.is_empty() {
            return Ok(false);
        }
        let zeroes = bytes.iter().take_while(|byte| **byte == 0).count();
        let end = bytes.len();
        let starts = bytes.get(zeroes) == Some(&first);
        padded |= zeroes > 0;
        reader.consume(zeroes);
        if zeroes < end {
            if starts && (!padded || after_padding) {
                return Ok(true);
            }
            let text = "there are other bytes behind the end of the compressed data";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use liblzma::stream::MtStreamBuilder;
    use liblzma::write::XzEncoder;

    use super::*;

    fn gz(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn xz(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = XzEncoder::new(Vec::new(), 0);
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn read_gz(packed: &[u8], piece: usize) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        let reader = io::BufReader::with_capacity(piece, packed);
        Members::new(reader, |reader| Ok(GzDecoder::new(reader)))?.read_to_end(&mut out)?;
        Ok(out)
    }

    fn read_xz(packed: &[u8], piece: usize) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        let reader = io::BufReader::with_capacity(piece, packed);
        let start = |reader| {
            let mut builder = MtStreamBuilder::new();
            builder
                .threads(2)
                .memlimit_threading(1 << 24)
                .memlimit_stop(1 << 24);
            Ok(XzDecoder::new_stream(reader, builder.decoder()?))
        };
        Members::new(reader, start)?.read_to_end(&mut out)?;
        Ok(out)
    }

    #[test]
    fn gzip_members_and_padding_whatever_the_pieces() {
        let two = [gz(b"one, "), gz(b""), gz(b"two")].concat();
        let padded = [two.as_slice(), &[0; 700]].concat();
        for piece in [1, 7, 512, 4096] {
            assert_eq!(read_gz(&two, piece).unwrap(), b"one, two");
            assert_eq!(read_gz(&padded, piece).unwrap(), b"one, two");
            for (behind, word) in [
                (&b"x"[..], "behind the end"),
                (&[0, 0, 1], "behind the end"),
                (&[0x1f, 0x8b], "end of file"),
            ] {
                let error = read_gz(&[two.as_slice(), behind].concat(), piece).unwrap_err();
                assert!(error.to_string().contains(word), "{behind:?}: {error}");
            }
            assert!(read_gz(&two[..two.len() - 3], piece).is_err());
        }
    }

    #[test]
    fn xz_streams_and_padding_whatever_the_pieces() {
        let two = [xz(b"one, ").as_slice(), &[0; 8], &xz(b"two"), &[0; 4]].concat();
        for piece in [1, 7, 512, 4096] {
            assert_eq!(read_xz(&two, piece).unwrap(), b"one, two");
            assert!(read_xz(&[two.as_slice(), b"x"].concat(), piece).is_err());
            assert!(read_xz(&two[..two.len() - 7], piece).is_err());
        }
    }
}

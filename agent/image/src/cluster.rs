//! Decoding the compressed clusters of qcow2 images.

use std::ops::Range;
use std::sync::Arc;

use flate2::Decompress;
use flate2::FlushDecompress;
use flate2::Status;
use wrought_formats::qcow2::Compression;
use zstd::zstd_safe;
use zstd::zstd_safe::DCtx;

use crate::buffer::Block;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;

/// One compressed cluster.
#[derive(Debug)]
pub(crate) struct Compressed {
    /// Its bytes, in order, from one or more blocks. They may be more than
    /// needed: they end with a sector and not with the data.
    pub(crate) pieces: Vec<(Arc<Block>, Range<usize>)>,
    /// Offset in the source, for messages.
    pub(crate) host: u64,
    /// Place on the disk.
    pub(crate) at: u64,
    /// Bytes of it that are on the disk.
    pub(crate) len: usize,
}

impl Compressed {
    fn damaged(&self, problem: &str) -> Error {
        let text = format!(
            "the compressed cluster for guest offset {} {problem}",
            self.at
        );
        Error::new(ErrorKind::Format, Stage::Decode, text).at(self.host)
    }

    /// All its bytes in one piece, through `scratch` where there are more.
    fn joined<'a>(&'a self, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        if let [(block, range)] = self.pieces.as_slice() {
            return &block.bytes()[range.clone()];
        }
        scratch.clear();
        scratch.reserve_exact(self.pieces.iter().map(|(_, range)| range.len()).sum());
        for (block, range) in &self.pieces {
            scratch.extend_from_slice(&block.bytes()[range.clone()]);
        }
        scratch
    }
}

/// One thread's decoder.
pub(crate) enum ClusterDecoder {
    /// Raw deflate: keeps its window, takes pieces one by one.
    Zlib(Decompress),
    /// Zstandard in one call per frame: needs no window of its own, and the
    /// input in one piece.
    Zstd {
        context: DCtx<'static>,
        /// At most the two clusters that a table entry can name.
        joined: Vec<u8>,
    },
}

impl ClusterDecoder {
    pub(crate) fn new(compression: Compression) -> Result<Self, Error> {
        match compression {
            Compression::Zlib => Ok(Self::Zlib(Decompress::new(false))),
            Compression::Zstd => DCtx::try_create()
                .map(|context| Self::Zstd {
                    context,
                    joined: Vec::new(),
                })
                .ok_or_else(|| {
                    let text = "there is no memory for a zstd decoder";
                    Error::new(ErrorKind::Memory, Stage::Decode, text)
                }),
        }
    }

    /// Fills `out`, which is as long as a cluster.
    pub(crate) fn decode(&mut self, cluster: &Compressed, out: &mut [u8]) -> Result<(), Error> {
        match self {
            Self::Zlib(inflate) => inflate_cluster(inflate, cluster, out),
            Self::Zstd { context, joined } => {
                let input = cluster.joined(joined);
                decode_frames(context, input, out).map_err(|problem| cluster.damaged(&problem))
            }
        }
    }
}

fn inflate_cluster(
    decoder: &mut Decompress,
    cluster: &Compressed,
    out: &mut [u8],
) -> Result<(), Error> {
    decoder.reset(false);
    for (block, range) in &cluster.pieces {
        let mut input = &block.bytes()[range.clone()];
        loop {
            let (had, made) = (decoder.total_in(), decoder.total_out());
            // Bounded by the cluster: at most 2 MiB.
            let place = &mut out[made as usize..];
            let status = decoder
                .decompress(input, place, FlushDecompress::None)
                .map_err(|error| cluster.damaged("cannot be inflated").caused_by(error))?;
            input = &input[(decoder.total_in() - had) as usize..];
            if decoder.total_out() as usize == out.len() {
                return Ok(());
            }
            match status {
                Status::StreamEnd => {
                    return Err(cluster.damaged("inflates to less than a cluster"));
                }
                _ if input.is_empty() => break,
                _ if decoder.total_in() == had && decoder.total_out() == made => {
                    return Err(cluster.damaged("cannot be inflated any further"));
                }
                _ => {}
            }
        }
    }
    Err(cluster.damaged("is cut off"))
}

/// Decodes frames until `out` is full; what follows is the sector's rest.
fn decode_frames(context: &mut DCtx<'_>, input: &[u8], out: &mut [u8]) -> Result<(), String> {
    let name = |code| {
        let reason = zstd_safe::get_error_name(code);
        format!("cannot be decoded as zstd ({reason})")
    };
    let (mut input, mut filled) = (input, 0);
    while filled < out.len() {
        if input.is_empty() {
            return Err("decodes to less than a cluster".to_owned());
        }
        let len = zstd_safe::find_frame_compressed_size(input).map_err(name)?;
        let (frame, rest) = input
            .split_at_checked(len)
            .filter(|(frame, _)| !frame.is_empty())
            .ok_or_else(|| "is cut off".to_owned())?;
        filled += context
            .decompress(&mut out[filled..], frame)
            .map_err(name)?;
        input = rest;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Pool;
    use crate::control::Control;

    /// `bytes` in blocks of `size`, all one cluster.
    fn cluster(bytes: &[u8], size: usize) -> Compressed {
        let pool = Pool::new(size, bytes.len().div_ceil(size).max(1));
        let control = Control::default();
        let pieces = bytes.chunks(size).map(|chunk| {
            let mut buffer = pool.take(&control).unwrap();
            buffer[..chunk.len()].copy_from_slice(chunk);
            (Block::new(0, buffer, chunk.len()), 0..chunk.len())
        });
        Compressed {
            pieces: pieces.collect(),
            host: 4096,
            at: 0,
            len: 0,
        }
    }

    fn frame(bytes: &[u8]) -> Vec<u8> {
        zstd::bulk::compress(bytes, 3).unwrap()
    }

    #[test]
    fn zstd_frames_fill_a_cluster_whatever_lies_behind_them() {
        let plain: Vec<u8> = (0..40_000u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        let (first, second) = plain.split_at(50_000);
        let mut two = frame(first);
        // A skippable frame between them.
        two.extend_from_slice(b"\x50\x2a\x4d\x18\x03\0\0\0abc");
        two.extend_from_slice(&frame(second));
        for mut packed in [frame(&plain), two] {
            packed.resize(packed.len().next_multiple_of(512), 0xa5);
            for size in [4096, 1 << 20] {
                let mut decoder = ClusterDecoder::new(Compression::Zstd).unwrap();
                let mut out = vec![0; plain.len()];
                let cluster = cluster(&packed, size);
                decoder.decode(&cluster, &mut out).unwrap();
                assert!(out == plain);
                // And the same decoder again.
                out.fill(0);
                decoder.decode(&cluster, &mut out).unwrap();
                assert!(out == plain);
            }
        }
    }

    #[test]
    fn damaged_zstd_is_refused_with_its_place() {
        let plain: Vec<u8> = (0..65_536u32).map(|n| ((n * n) >> 9) as u8).collect();
        let good = frame(&plain);
        let mut bad = good.clone();
        bad[0] ^= 1;
        let short = frame(&plain[..1000]);
        let long = frame(&[plain.as_slice(), &plain].concat());
        let mut decoder = ClusterDecoder::new(Compression::Zstd).unwrap();
        let mut out = vec![0; plain.len()];
        for packed in [&good[..good.len() - 1], &bad, &short, &long, &[]] {
            let error = decoder
                .decode(&cluster(packed, 8192), &mut out)
                .unwrap_err();
            assert_eq!(
                (error.kind(), error.stage(), error.offset()),
                (ErrorKind::Format, Stage::Decode, Some(4096))
            );
        }
        decoder.decode(&cluster(&good, 8192), &mut out).unwrap();
        assert!(out == plain);
    }
}

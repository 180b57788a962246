//! Patterns that are written before an erase and must not be found after it:
//! a drive's word alone is not taken.

use crate::disk::block::BlockFile;
use crate::disk::error::Error;

/// How many, and how large.
const PLACES: u64 = 64;
const LENGTH: usize = 4096;

/// Places on a disk with what was written there.
#[derive(Debug)]
pub(super) struct Markers {
    places: Vec<u64>,
    seed: u64,
}

/// Bytes that are the same for the same seed and offset, and look like
/// nothing: SplitMix64 of the offset. `offset` is a multiple of 8.
pub(super) fn pattern(seed: u64, offset: u64, buffer: &mut [u8]) {
    let mut counter = seed.wrapping_add((offset / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut next = || {
        counter = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = counter;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)).to_le_bytes()
    };
    // Pieces of a known size: a disk is filled no faster than this goes.
    let (pieces, rest) = buffer.as_chunks_mut();
    for piece in pieces {
        *piece = next();
    }
    rest.copy_from_slice(&next()[..rest.len()]);
}

/// A seed that nobody has seen. Without a source of randomness a fixed one
/// does: it only has to differ from what was there.
pub(super) fn seed() -> u64 {
    let mut bytes = [0; 8];
    if let Err(error) = getrandom::fill(&mut bytes) {
        tracing::warn!(%error, "no random numbers; a fixed pattern is written instead");
        bytes = *b"wrought\0";
    }
    u64::from_le_bytes(bytes)
}

/// Offsets spread over a disk: both ends, and one in each of equal parts,
/// shifted against any regular grid. Multiples of 4096.
pub(super) fn places(size: u64, length: u64, count: u64) -> Vec<u64> {
    let last = size.saturating_sub(length) / 4096 * 4096;
    let stride = last / count;
    let mut shift: u64 = 0x9e37_79b9_7f4a_7c15;
    let inner = (1..count).map(|index| {
        // A step of a linear congruential generator.
        shift = shift
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let moved = index * stride + (shift >> 16) % stride.max(1);
        moved.min(last) / 4096 * 4096
    });
    let mut places: Vec<u64> = [0].into_iter().chain(inner).chain([last]).collect();
    places.sort_unstable();
    places.dedup();
    places
}

impl Markers {
    /// Writes them and sees that they can be read, so that their absence
    /// means something.
    pub(super) fn plant(file: &BlockFile) -> Result<Self, Error> {
        let size = file.size();
        let mut places = places(size, LENGTH as u64, PLACES);
        places.retain(|place| place + LENGTH as u64 <= size);
        let markers = Self {
            places,
            seed: seed(),
        };
        for place in &markers.places {
            file.write_at(&markers.at(*place), *place)?;
        }
        file.drop_cache()?;
        for place in &markers.places {
            if !markers.is_at(file, *place)? {
                return Err(Error::NotWritten {
                    path: file.path().to_owned(),
                    offset: *place,
                });
            }
        }
        Ok(markers)
    }

    fn at(&self, place: u64) -> Vec<u8> {
        let mut bytes = vec![0; LENGTH];
        pattern(self.seed, place, &mut bytes);
        bytes
    }

    fn is_at(&self, file: &BlockFile, place: u64) -> Result<bool, Error> {
        Ok(file.read_some(place, LENGTH)? == self.at(place))
    }

    /// Fails when one is still there. A place that cannot be read any more
    /// holds nothing that can be found: after an erase some drives refuse to
    /// read what was not written since.
    pub(super) fn check_gone(&self, file: &BlockFile) -> Result<(), Error> {
        file.drop_cache()?;
        for place in &self.places {
            let still = match self.is_at(file, *place) {
                Err(Error::Io { source, .. }) if source.raw_os_error() == Some(libc::EIO) => false,
                other => other?,
            };
            if still {
                return Err(Error::StillReadable {
                    path: file.path().to_owned(),
                    offset: *place,
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Markers;
    use super::pattern;
    use super::places;
    use crate::disk::block::Access;
    use crate::disk::block::BlockFile;

    #[test]
    fn places_lie_inside_and_cover_both_ends() {
        for size in [4096, 8192, 1 << 20, (1 << 30) + 512, 10_000_831_348_736] {
            let places = places(size, 4096, 64);
            assert_eq!(places[0], 0);
            assert!(places.iter().all(|place| place % 4096 == 0));
            assert!(places.last().unwrap() + 4096 <= size);
            assert!(size < 1 << 20 || places.len() == 65, "{size}");
        }
    }

    #[test]
    fn a_pattern_is_one_stream() {
        let mut whole = vec![0; 8192];
        pattern(7, 4096, &mut whole);
        let mut part = vec![0; 4096];
        pattern(7, 8192, &mut part);
        assert_eq!(whole[4096..], part);
        pattern(8, 8192, &mut part);
        assert_ne!(whole[4096..], part);
    }

    #[test]
    fn one_that_stays_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        std::fs::File::create(&path)
            .unwrap()
            .set_len(1 << 20)
            .unwrap();
        let file = BlockFile::open(&path, Access::Exclusive).unwrap();
        let markers = Markers::plant(&file).unwrap();
        file.zero(0, 1 << 19).unwrap();
        let error = markers.check_gone(&file).unwrap_err().to_string();
        assert!(error.contains("still reads back"), "{error}");
        file.zero(0, 1 << 20).unwrap();
        markers.check_gone(&file).unwrap();
    }
}

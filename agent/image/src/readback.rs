//! Proving that the disk holds what was written, when asked to.
//!
//! Writes come out of order, so a running digest will not do. Each 512-byte
//! sector that is not zero gives a keyed 64-bit hash of its content and
//! place; the hashes of a region are added up. The same sum is taken from
//! what is read back. The key is random in every run.

use std::hash::BuildHasher;
use std::hash::Hasher;
use std::hash::RandomState;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use crate::buffer::Aligned;
use crate::buffer::is_zero;
use crate::control::Control;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;
use crate::target::Target;

/// Bytes that are hashed together.
const SECTOR: usize = 512;
/// Regions are at least this long; a difference is reported by region.
const REGION: u64 = 64 << 20;
/// Number of sums; regions repeat on disks past 64 GiB.
const REGIONS: usize = 1024;
/// Bytes read at a time.
const CHUNK: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Sums {
    key: RandomState,
    sums: Vec<AtomicU64>,
}

impl Sums {
    pub(crate) fn new() -> Self {
        Self {
            key: RandomState::new(),
            sums: (0..REGIONS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Adds bytes that are written at `at`, a multiple of 512.
    pub(crate) fn add(&self, bytes: &[u8], at: u64) {
        self.each(bytes, at, |region, hash| {
            self.sums[region].fetch_add(hash, Ordering::Relaxed);
        });
    }

    fn each(&self, bytes: &[u8], at: u64, mut found: impl FnMut(usize, u64)) {
        for (index, sector) in bytes.chunks(SECTOR).enumerate() {
            if is_zero(sector) {
                continue;
            }
            let place = at + (index * SECTOR) as u64;
            let mut hasher = self.key.build_hasher();
            hasher.write_u64(place);
            hasher.write(sector);
            found((place / REGION) as usize % REGIONS, hasher.finish());
        }
    }

    /// Reads `range` of the disk and compares.
    pub(crate) fn compare(
        &self,
        target: &Target,
        control: &Control,
        range: Range<u64>,
        mut tick: impl FnMut(u64),
    ) -> Result<(), Error> {
        let mut found = vec![0u64; REGIONS];
        let mut buf = Aligned::new(CHUNK);
        let mut at = range.start;
        while at < range.end {
            control
                .running()
                .map_err(|_| Error::cancelled(Stage::ReadBack))?;
            let count = (CHUNK as u64).min(range.end - at) as usize;
            target.read(&mut buf[..count], at)?;
            self.each(&buf[..count], at, |region, hash| {
                found[region] = found[region].wrapping_add(hash);
            });
            at += count as u64;
            tick(at - range.start);
        }
        for (region, (sum, expected)) in found.iter().zip(&self.sums).enumerate() {
            if *sum != expected.load(Ordering::Relaxed) {
                let text = format!(
                    "{} does not hold what was written to it: reading back differs in the 64 MiB \
                     from there (and every 64 GiB after it)",
                    target.path().display()
                );
                return Err(
                    Error::new(ErrorKind::Target, Stage::ReadBack, text).at(region as u64 * REGION)
                );
            }
        }
        Ok(())
    }
}

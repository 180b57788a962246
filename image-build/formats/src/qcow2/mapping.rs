//! L1 and L2 entries to ranges of the guest disk.

use super::error::Error;
use super::header::Header;
use super::header::be64;

/// Bits 9 to 55: the host offset in L1 and standard L2 entries.
const OFFSET: u64 = 0x00ff_ffff_ffff_fe00;
/// Bit 62 of an L2 entry: a compressed cluster.
const COMPRESSED: u64 = 1 << 62;
/// Bit 0 of a standard L2 entry (version 3, no subclusters): reads as zero.
const ZERO: u64 = 1;

/// A range of the guest disk and where its bytes are. All values in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mapping {
    /// Reads as zeroes.
    Zero {
        /// Guest offset.
        guest: u64,
        /// Length.
        len: u64,
    },
    /// Stored as it is.
    Data {
        /// Guest offset.
        guest: u64,
        /// Offset in the file.
        host: u64,
        /// Length.
        len: u64,
    },
    /// One compressed cluster; it decodes to a whole cluster, of which
    /// `guest_len` bytes are on the disk.
    Compressed {
        /// Guest offset.
        guest: u64,
        /// Guest length: the cluster size, less at the end of the disk.
        guest_len: u64,
        /// Offset in the file, any byte.
        host: u64,
        /// Bytes to feed the decoder; it may need fewer.
        len: u64,
    },
}

/// The host offset of the L2 table in an L1 entry; `None` when the whole
/// range is unallocated.
///
/// # Errors
/// The table is unaligned, on the header or outside the file.
pub fn l1_entry(header: &Header, index: u32, entry: u64) -> Result<Option<u64>, Error> {
    let offset = entry & OFFSET;
    if offset == 0 {
        return Ok(None);
    }
    header
        .check_table("L2 table", offset, header.cluster_size())
        .map_err(|error| match error {
            Error::Table { problem, .. } => {
                let guest = u64::from(index) * header.l2_span();
                Error::Entry {
                    level: "L1",
                    entry,
                    guest,
                    problem,
                }
            }
            other => other,
        })?;
    Ok(Some(offset))
}

impl Header {
    /// Calls `emit` for every range that the L2 table `table` of L1 entry
    /// `index` describes, in guest order, neighbours joined.
    ///
    /// # Errors
    /// An entry that cannot be right, or what `emit` returns.
    pub fn map_l2<E: From<Error>>(
        &self,
        index: u32,
        table: &[u8],
        mut emit: impl FnMut(Mapping) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = u64::from(index) * self.l2_span();
        let entry_size = usize::try_from(self.l2_entry_size()).unwrap_or(16);
        let mut pending: Option<Mapping> = None;
        let mut guest = start;
        for bytes in table.chunks_exact(entry_size) {
            if guest >= self.virtual_size {
                break;
            }
            let entry = be64(bytes, 0).unwrap_or(0);
            let bitmap = if self.extended_l2 {
                be64(bytes, 8).unwrap_or(0)
            } else {
                0
            };
            self.map_entry(guest, entry, bitmap, &mut |mapping| {
                push(&mut pending, mapping, &mut emit)
            })?;
            guest += self.cluster_size();
        }
        pending.map_or(Ok(()), emit)
    }

    /// One L2 entry (specification, "Standard Cluster Descriptor",
    /// "Compressed Clusters Descriptor", "Extended L2 Entries").
    fn map_entry<E: From<Error>>(
        &self,
        guest: u64,
        entry: u64,
        bitmap: u64,
        emit: &mut dyn FnMut(Mapping) -> Result<(), E>,
    ) -> Result<(), E> {
        let bad = |problem| {
            E::from(Error::Entry {
                level: "L2",
                entry,
                guest,
                problem,
            })
        };
        let cluster = self.cluster_size();
        let guest_len = cluster.min(self.virtual_size - guest);
        if entry & COMPRESSED != 0 {
            if bitmap != 0 {
                return Err(bad("is compressed but has subclusters"));
            }
            let (host, len) = self.compressed_extent(entry);
            let len = match self.file_size {
                Some(size) if host >= size => return Err(bad("lies past the end of the file")),
                Some(size) => len.min(size - host),
                None => len,
            };
            return emit(Mapping::Compressed {
                guest,
                guest_len,
                host,
                len,
            });
        }
        let host = entry & OFFSET;
        if !host.is_multiple_of(cluster) {
            return Err(bad("does not point at a cluster boundary"));
        }
        if host != 0 && self.file_size.is_some_and(|size| host >= size) {
            return Err(bad("lies past the end of the file"));
        }
        if self.extended_l2 {
            return self.map_subclusters(guest, host, bitmap, &bad, emit);
        }
        if entry & ZERO != 0 && self.version < 3 {
            return Err(bad("has the zero flag, which version 2 does not have"));
        }
        if host == 0 || entry & ZERO != 0 {
            emit(Mapping::Zero {
                guest,
                len: guest_len,
            })
        } else {
            emit(Mapping::Data {
                guest,
                host,
                len: guest_len,
            })
        }
    }

    /// The 32 subclusters of one cluster: low half of the bitmap allocated,
    /// high half zero.
    fn map_subclusters<E>(
        &self,
        guest: u64,
        host: u64,
        bitmap: u64,
        bad: &dyn Fn(&'static str) -> E,
        emit: &mut dyn FnMut(Mapping) -> Result<(), E>,
    ) -> Result<(), E> {
        let size = self.cluster_size() / 32;
        let (allocated, zero) = (bitmap & 0xffff_ffff, bitmap >> 32);
        if allocated & zero != 0 {
            return Err(bad("has a subcluster that is both allocated and zero"));
        }
        if allocated != 0 && host == 0 {
            return Err(bad("has allocated subclusters but no cluster"));
        }
        for index in 0..32u64 {
            let at = guest + index * size;
            if at >= self.virtual_size {
                break;
            }
            let len = size.min(self.virtual_size - at);
            emit(if allocated & (1 << index) != 0 {
                Mapping::Data {
                    guest: at,
                    host: host + index * size,
                    len,
                }
            } else {
                Mapping::Zero { guest: at, len }
            })?;
        }
        Ok(())
    }

    /// Offset and length in bytes of a compressed cluster.
    fn compressed_extent(&self, entry: u64) -> (u64, u64) {
        let offset_bits = 62 - (self.cluster_bits - 8);
        let host = entry & ((1 << offset_bits) - 1);
        let sectors = (entry & (COMPRESSED - 1)) >> offset_bits;
        (host, (sectors + 1) * 512 - host % 512)
    }
}

/// Joins `next` to `pending` when they touch, else emits `pending`.
fn push<E>(
    pending: &mut Option<Mapping>,
    next: Mapping,
    emit: &mut impl FnMut(Mapping) -> Result<(), E>,
) -> Result<(), E> {
    match (pending.as_mut(), next) {
        (
            Some(Mapping::Zero { guest, len }),
            Mapping::Zero {
                guest: at,
                len: more,
            },
        ) if *guest + *len == at => {
            *len += more;
            return Ok(());
        }
        (
            Some(Mapping::Data { guest, host, len }),
            Mapping::Data {
                guest: at,
                host: from,
                len: more,
            },
        ) if *guest + *len == at && *host + *len == from => {
            *len += more;
            return Ok(());
        }
        _ => {}
    }
    match pending.replace(next) {
        Some(done) => emit(done),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::header::Compression;
    use super::*;

    fn header(extended_l2: bool) -> Header {
        Header {
            version: 3,
            cluster_bits: 16,
            virtual_size: (6 << 16) + 1024,
            l1_offset: 3 << 16,
            l1_entries: 1,
            snapshots: 0,
            extended_l2,
            compression: Compression::Zlib,
            file_size: Some(1 << 24),
        }
    }

    fn map(header: &Header, entries: &[u64]) -> Result<Vec<Mapping>, Error> {
        let mut table: Vec<u8> = entries
            .iter()
            .flat_map(|entry| entry.to_be_bytes())
            .collect();
        table.resize(1 << 16, 0);
        let mut found = Vec::new();
        header.map_l2(0, &table, |mapping| {
            found.push(mapping);
            Ok::<(), Error>(())
        })?;
        Ok(found)
    }

    #[test]
    fn neighbours_are_joined_and_the_end_is_cut() {
        let copied = 1 << 63;
        let found = map(
            &header(false),
            &[
                5 << 16 | copied,
                6 << 16 | copied,
                9 << 16,
                1,
                0,
                7 << 16 | 1,
            ],
        );
        assert_eq!(
            found.unwrap(),
            [
                Mapping::Data {
                    guest: 0,
                    host: 5 << 16,
                    len: 2 << 16
                },
                Mapping::Data {
                    guest: 2 << 16,
                    host: 9 << 16,
                    len: 1 << 16
                },
                Mapping::Zero {
                    guest: 3 << 16,
                    len: (3 << 16) + 1024
                },
            ]
        );
    }

    #[test]
    fn a_compressed_entry_is_cut_at_sectors_and_file_end() {
        // 64 KiB clusters: 54 offset bits, then the number of extra sectors.
        let entry = COMPRESSED | 2 << 54 | 0x8_0123;
        assert_eq!(
            map(&header(false), &[entry]).unwrap()[0],
            Mapping::Compressed {
                guest: 0,
                guest_len: 65536,
                host: 0x8_0123,
                len: 3 * 512 - 0x123
            }
        );
        let last = COMPRESSED | 2 << 54 | ((1 << 24) - 100);
        assert!(matches!(
            map(&header(false), &[last]).unwrap()[0],
            Mapping::Compressed { len: 100, .. }
        ));
    }

    #[test]
    fn subclusters_split_a_cluster() {
        let found = map(&header(true), &[5 << 16, 0b0110 | 1 << 32]).unwrap();
        assert_eq!(
            found[..3],
            [
                Mapping::Zero {
                    guest: 0,
                    len: 2048
                },
                Mapping::Data {
                    guest: 2048,
                    host: (5 << 16) + 2048,
                    len: 4096
                },
                Mapping::Zero {
                    guest: 6144,
                    len: (6 << 16) + 1024 - 6144
                },
            ]
        );
        assert!(map(&header(true), &[5 << 16, 1 | 1 << 32]).is_err());
        assert!(map(&header(true), &[0, 1]).is_err());
    }

    #[test]
    fn bad_entries_are_refused() {
        for entry in [(5 << 16) + 512, 1 << 24, COMPRESSED | 1 << 30] {
            assert!(matches!(
                map(&header(false), &[entry]),
                Err(Error::Entry { level: "L2", .. })
            ));
        }
        let v2 = Header {
            version: 2,
            ..header(false)
        };
        assert!(map(&v2, &[1]).is_err());
        assert!(l1_entry(&v2, 0, 0).unwrap().is_none());
        assert!(l1_entry(&v2, 0, 1 << 24).is_err());
        assert!(l1_entry(&v2, 0, 512).is_err());
    }
}

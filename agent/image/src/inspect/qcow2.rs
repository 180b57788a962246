//! Looking into a qcow2 image: its header, its tables, the disk in it.

use wrought_formats::detect;
use wrought_formats::qcow2::Compression;
use wrought_formats::qcow2::Header;
use wrought_formats::qcow2::Mapping;
use wrought_formats::qcow2::l1_entry;

use super::ImageFacts;
use super::Qcow2Facts;
use super::peek::Peek;
use super::table_of;
use crate::buffer::Block;
use crate::buffer::Pool;
use crate::cluster::ClusterDecoder;
use crate::cluster::Compressed;
use crate::control::Control;
use crate::error::Error;
use crate::halt::refused;

/// Most bytes of L2 tables that are read: those of 2 TiB with clusters of
/// 64 KiB.
const TABLES: u64 = 256 << 20;
/// Entries of the L1 table that are read at once.
const ENTRIES: u32 = 8192;

/// Fills in what the header says and judges the tables.
pub(super) fn look(peek: &mut Peek<'_>, facts: &mut ImageFacts) -> Result<(), Error> {
    let header = Header::parse(peek.head(), peek.size()).map_err(refused)?;
    facts.virtual_size = Some(header.virtual_size);
    let mut seen = Qcow2Facts {
        version: header.version,
        cluster_size: header.cluster_size(),
        compression: match header.compression {
            Compression::Zlib => "zlib",
            Compression::Zstd => "zstd",
        },
        extended_l2: header.extended_l2,
        snapshots: header.snapshots,
        all_tables_checked: false,
    };
    facts.qcow2 = Some(seen);
    let checked = check_tables(&header, peek)?;
    seen.all_tables_checked = checked;
    facts.qcow2 = Some(seen);
    if let Some(head) = guest_head(&header, peek)? {
        facts.table = table_of(&head, Some(header.virtual_size))?;
    }
    Ok(())
}

/// Checks what the tables name against the file; whether all were seen.
fn check_tables(header: &Header, peek: &mut Peek<'_>) -> Result<bool, Error> {
    let (mut all, mut left) = (true, TABLES);
    let mut first = 0;
    while first < header.l1_entries {
        let count = ENTRIES.min(header.l1_entries - first);
        let at = header.l1_offset + u64::from(first) * 8;
        let Some(bytes) = peek.bytes(at, count as usize * 8)? else {
            return Ok(false);
        };
        for (index, entry) in (first..).zip(bytes.chunks_exact(8)) {
            let entry = entry
                .iter()
                .fold(0, |sum, byte| sum << 8 | u64::from(*byte));
            let Some(table) = l1_entry(header, index, entry).map_err(refused)? else {
                continue;
            };
            let cluster = header.cluster_size();
            let enough = left >= cluster;
            let bytes = if enough {
                peek.bytes(table, cluster as usize)?
            } else {
                None
            };
            let Some(bytes) = bytes else {
                all = false;
                continue;
            };
            left -= cluster;
            let judged = header.map_l2(index, &bytes, |_| Ok::<(), _>(()));
            judged.map_err(|error: wrought_formats::qcow2::Error| refused(error))?;
        }
        first += count;
    }
    Ok(all)
}

/// The first bytes of the disk in the image, enough to see what it is; `None`
/// when they are not cheap to get.
pub(super) fn guest_head(header: &Header, peek: &mut Peek<'_>) -> Result<Option<Vec<u8>>, Error> {
    let len = (detect::HEAD_BYTES as u64).min(header.virtual_size);
    let mut head = vec![0; len as usize];
    let mut index = 0;
    while u64::from(index) * header.l2_span() < len {
        let Some(bytes) = peek.bytes(header.l1_offset + u64::from(index) * 8, 8)? else {
            return Ok(None);
        };
        let entry = bytes
            .iter()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        if let Some(table) = l1_entry(header, index, entry).map_err(refused)? {
            let Some(table) = peek.bytes(table, header.cluster_size() as usize)? else {
                return Ok(None);
            };
            let mut pieces = Vec::new();
            header
                .map_l2(index, &table, |mapping| {
                    let (Mapping::Zero { guest, .. }
                    | Mapping::Data { guest, .. }
                    | Mapping::Compressed { guest, .. }) = mapping;
                    // A table may name millions.
                    if guest < len {
                        pieces.push(mapping);
                    }
                    Ok::<(), wrought_formats::qcow2::Error>(())
                })
                .map_err(refused)?;
            for piece in pieces {
                if !take(header, peek, piece, &mut head)? {
                    return Ok(None);
                }
            }
        }
        index += 1;
    }
    Ok(Some(head))
}

/// Puts what `piece` has of the head into it; whether that was possible.
fn take(
    header: &Header,
    peek: &mut Peek<'_>,
    piece: Mapping,
    head: &mut [u8],
) -> Result<bool, Error> {
    let (guest, bytes) = match piece {
        Mapping::Zero { .. } => return Ok(true),
        Mapping::Data { guest, host, len } => {
            let len = len.min(head.len() as u64 - guest);
            let Some(bytes) = peek.bytes(host, len as usize)? else {
                return Ok(false);
            };
            (guest, bytes)
        }
        Mapping::Compressed {
            guest, host, len, ..
        } => {
            let Some(bytes) = peek.bytes(host, len as usize)? else {
                return Ok(false);
            };
            (guest, decode(header, guest, host, &bytes)?)
        }
    };
    // Smaller than the head.
    let place = &mut head[guest as usize..];
    let count = place.len().min(bytes.len());
    place[..count].copy_from_slice(&bytes[..count]);
    Ok(true)
}

fn decode(header: &Header, guest: u64, host: u64, bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let control = Control::new(crate::CancelToken::new());
    let mut buffer = Pool::new(bytes.len(), 1)
        .take(&control)
        .map_err(|_| control.take_failure())?;
    buffer[..bytes.len()].copy_from_slice(bytes);
    let mut out = vec![0; header.cluster_size() as usize];
    let compressed = Compressed {
        pieces: vec![(Block::new(host, buffer, bytes.len()), 0..bytes.len())],
        host,
        at: guest,
        len: out.len(),
    };
    ClusterDecoder::new(header.compression)?.decode(&compressed, &mut out)?;
    Ok(out)
}

//! qcow2 the simple way: everything in memory, read where it lies. What a
//! write makes of an image must be the same.

use std::io::Read;

use flate2::read::DeflateDecoder;
use wrought_formats::qcow2::Compression;
use wrought_formats::qcow2::Error;
use wrought_formats::qcow2::Header;
use wrought_formats::qcow2::Mapping;
use wrought_formats::qcow2::l1_entry;

/// The disk in an image that was written, which is small.
///
/// # Panics
/// The image is damaged.
#[must_use]
pub fn disk(image: &[u8]) -> Vec<u8> {
    let header = Header::parse(image, Some(image.len() as u64)).expect("a header");
    let mut disk = vec![0; header.virtual_size as usize];
    for index in 0..header.l1_entries {
        let entry = part(image, header.l1_offset + 8 * u64::from(index), 8);
        let mut number = [0; 8];
        number.copy_from_slice(&entry);
        let table = l1_entry(&header, index, u64::from_be_bytes(number)).expect("an L1 entry");
        let Some(table) = table else {
            continue;
        };
        let entries = part(image, table, header.cluster_size());
        let put = |mapping| {
            put(&header, image, mapping, &mut disk);
            Ok::<(), Error>(())
        };
        header.map_l2(index, &entries, put).expect("an L2 table");
    }
    disk
}

fn put(header: &Header, image: &[u8], mapping: Mapping, disk: &mut [u8]) {
    let (guest, bytes) = match mapping {
        Mapping::Zero { .. } => return,
        Mapping::Data { guest, host, len } => (guest, part(image, host, len)),
        Mapping::Compressed {
            guest,
            guest_len,
            host,
            len,
        } => {
            let packed = part(image, host, len);
            let mut bytes = vec![0; header.cluster_size() as usize];
            let decoded = match header.compression {
                Compression::Zlib => DeflateDecoder::new(&packed[..]).read_exact(&mut bytes),
                Compression::Zstd => zstd::stream::read::Decoder::new(&packed[..])
                    .and_then(|mut decoder| decoder.read_exact(&mut bytes)),
            };
            decoded.expect("a compressed cluster");
            bytes.truncate(guest_len as usize);
            (guest, bytes)
        }
    };
    let at = guest as usize;
    disk[at..at + bytes.len()].copy_from_slice(&bytes);
}

/// Bytes of the image; zeroes behind its end.
fn part(image: &[u8], at: u64, len: u64) -> Vec<u8> {
    let start = (at as usize).min(image.len());
    let end = (start + len as usize).min(image.len());
    let mut bytes = image[start..end].to_vec();
    bytes.resize(len as usize, 0);
    bytes
}

//! qcow2 images made without QEMU, laid out as QEMU would only after long
//! use: any order of data and tables.

use std::io::Write;

use flate2::Compression;
use flate2::write::DeflateEncoder;

use super::Random;

/// In which order things lie in the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) cluster_bits: u32,
    /// Where the tables are.
    pub(crate) tables: Tables,
    /// Compress clusters, one directly behind the other.
    pub(crate) packed: bool,
    /// Shuffles the clusters.
    pub(crate) seed: Option<u64>,
}

/// Where tables lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tables {
    /// Before the data, the L1 table first.
    First,
    /// Behind the data, the L1 table last.
    Last,
    /// The L1 table first, odd L2 tables behind the data.
    Mixed,
    /// The L2 tables first, the L1 table in the middle of the data.
    Between,
}

/// An image of a disk of `size` bytes that holds `clusters`: guest cluster
/// numbers, ascending, and their content.
pub(crate) fn image(layout: Layout, size: u64, clusters: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let bits = layout.cluster_bits;
    let cluster = 1usize << bits;
    let per_table = cluster as u64 / 8;
    let entries = size.div_ceil(cluster as u64 * per_table);
    let mut tables: Vec<u64> = clusters.iter().map(|(at, _)| at / per_table).collect();
    tables.dedup();

    let mut image = vec![0; cluster];
    let take = |image: &mut Vec<u8>, bytes: usize| {
        let at = image.len().next_multiple_of(cluster);
        image.resize((at + bytes).next_multiple_of(cluster), 0);
        at
    };
    let early = |table: u64| match layout.tables {
        Tables::First | Tables::Between => true,
        Tables::Last => false,
        Tables::Mixed => table.is_multiple_of(2),
    };
    let mut l1 = 0;
    if matches!(layout.tables, Tables::First | Tables::Mixed) {
        l1 = take(&mut image, entries as usize * 8);
    }
    let mut l2 = vec![0; tables.len()];
    for number in (0..tables.len()).filter(|number| early(tables[*number])) {
        l2[number] = take(&mut image, cluster);
    }
    let mut order: Vec<usize> = (0..clusters.len()).collect();
    if let Some(seed) = layout.seed {
        let mut random = Random::new(seed);
        for index in (1..order.len()).rev() {
            order.swap(index, random.below(index as u64 + 1) as usize);
        }
    }
    let mut hosts = vec![0; clusters.len()];
    let middle = (layout.tables == Tables::Between).then_some(order.len() / 2);
    for (count, index) in order.into_iter().enumerate() {
        if middle == Some(count) {
            l1 = take(&mut image, entries as usize * 8);
        }
        let bytes = &clusters[index].1;
        let packed = layout.packed.then(|| put_packed(&mut image, bytes, bits));
        hosts[index] = packed.flatten().unwrap_or_else(|| {
            let at = take(&mut image, cluster);
            image[at..at + cluster].copy_from_slice(bytes);
            at as u64 | 1 << 63
        });
    }
    for number in (0..tables.len()).filter(|number| !early(tables[*number])) {
        l2[number] = take(&mut image, cluster);
    }
    if layout.tables == Tables::Last {
        l1 = take(&mut image, entries as usize * 8);
    }

    let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"QFI\xfb\0\0\0\x03");
    put(20, &bits.to_be_bytes());
    put(24, &size.to_be_bytes());
    put(36, &(entries as u32).to_be_bytes());
    put(40, &(l1 as u64).to_be_bytes());
    put(96, &4u32.to_be_bytes());
    put(100, &104u32.to_be_bytes());
    for (table, at) in tables.iter().zip(&l2) {
        let entry = *at as u64 | 1 << 63;
        put(l1 + *table as usize * 8, &entry.to_be_bytes());
    }
    for ((guest, _), entry) in clusters.iter().zip(hosts) {
        let table = tables.binary_search(&(guest / per_table)).unwrap();
        let at = l2[table] + (guest % per_table) as usize * 8;
        put(at, &entry.to_be_bytes());
    }
    image
}

/// Appends a compressed cluster; its L2 entry. Nothing where it would not
/// become smaller.
fn put_packed(image: &mut Vec<u8>, bytes: &[u8], bits: u32) -> Option<u64> {
    let mut packer = DeflateEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(bytes).unwrap();
    let packed = packer.finish().unwrap();
    if packed.len() >= bytes.len() {
        return None;
    }
    let at = image.len();
    let sectors = (at + packed.len() - 1) / 512 - at / 512;
    image.extend(packed);
    Some(1 << 62 | (sectors as u64) << (62 - (bits - 8)) | at as u64)
}

/// An image of `disk` without its zero clusters.
pub(crate) fn of_disk(layout: Layout, disk: &[u8]) -> Vec<u8> {
    let cluster = 1usize << layout.cluster_bits;
    let whole = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        bytes.resize(cluster, 0);
        bytes
    };
    let clusters: Vec<(u64, Vec<u8>)> = (0..)
        .zip(disk.chunks(cluster))
        .filter(|(_, bytes)| bytes.iter().any(|byte| *byte != 0))
        .map(|(number, bytes)| (number, whole(bytes)))
        .collect();
    image(layout, disk.len() as u64, &clusters)
}

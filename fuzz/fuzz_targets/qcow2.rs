//! The qcow2 header and tables: any bytes are refused or give ranges that
//! lie in the file, cover the disk once and in order.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wrought_formats::qcow2::Error;
use wrought_formats::qcow2::Header;
use wrought_formats::qcow2::Mapping;
use wrought_formats::qcow2::l1_entry;
use wrought_fuzz::expanded;

/// L1 entries that are followed: more would only be slow.
const MOST_ENTRIES: u64 = 64;

fuzz_target!(|bytes: &[u8]| {
    let bytes = &expanded(bytes);
    walk(bytes, Some(bytes.len() as u64));
    walk(bytes, None);
});

fn walk(bytes: &[u8], size: Option<u64>) {
    let Ok(header) = Header::parse(bytes, size) else {
        return;
    };
    assert!((9..=21).contains(&header.cluster_bits));
    assert!(header.virtual_size > 0 && header.virtual_size.is_multiple_of(512));
    let covered = u64::from(header.l1_entries) * header.l2_span();
    assert!(covered >= header.virtual_size);
    for index in 0..u64::from(header.l1_entries).min(MOST_ENTRIES) {
        let at = header.l1_offset + 8 * index;
        let Some(entry) = part(bytes, at, 8) else {
            return;
        };
        let mut number = [0; 8];
        number.copy_from_slice(entry);
        let index = index as u32;
        let Ok(Some(table)) = l1_entry(&header, index, u64::from_be_bytes(number)) else {
            continue;
        };
        let cluster = header.cluster_size();
        assert!(table >= cluster && table.is_multiple_of(cluster));
        if let Some(size) = size {
            assert!(table + cluster <= size);
        }
        if let Some(entries) = part(bytes, table, cluster) {
            map(&header, index, entries, size);
        }
    }
}

fn map(header: &Header, index: u32, entries: &[u8], size: Option<u64>) {
    let mut at = u64::from(index) * header.l2_span();
    let end = (at + header.l2_span()).min(header.virtual_size);
    let done = header.map_l2(index, entries, |mapping| {
        let (guest, len) = match mapping {
            Mapping::Zero { guest, len } => (guest, len),
            Mapping::Data { guest, host, len } => {
                assert!(host >= header.cluster_size());
                // Of the last cluster only the start has to be there.
                assert!(size.is_none_or(|size| host + len < size + header.cluster_size()));
                (guest, len)
            }
            Mapping::Compressed {
                guest,
                guest_len,
                host,
                len,
            } => {
                assert!(guest_len <= header.cluster_size());
                assert!(len > 0 && len <= 2 * header.cluster_size());
                assert!(size.is_none_or(|size| host + len <= size));
                (guest, guest_len)
            }
        };
        assert!(len > 0 && guest == at);
        at += len;
        Ok::<(), Error>(())
    });
    assert!(done.is_err() || at == end);
}

fn part(bytes: &[u8], at: u64, len: u64) -> Option<&[u8]> {
    let start = usize::try_from(at).ok()?;
    let end = start.checked_add(usize::try_from(len).ok()?)?;
    bytes.get(start..end)
}

//! Names of incompatible feature bits, from the image's own name table.

use super::header::be32;

/// Header extension: feature name table.
const EXT_FEATURE_NAMES: u32 = 0x6803_f857;
/// Bytes of one entry of that table.
const ENTRY: usize = 48;

/// Names each bit of `bits`; bits the image does not name are numbered.
pub(super) fn names(bits: u64, head: &[u8], header_length: usize) -> Vec<String> {
    let table = name_table(head, header_length).unwrap_or_default();
    (0..64u8)
        .filter(|bit| bits & (1 << bit) != 0)
        .map(|bit| {
            table
                .chunks_exact(ENTRY)
                .find(|entry| entry[0] == 0 && entry[1] == bit)
                .map_or_else(
                    || format!("incompatible bit {bit}"),
                    |entry| format!("{:?} (incompatible bit {bit})", printable(&entry[2..])),
                )
        })
        .collect()
}

/// Walks the header extensions to the feature name table.
fn name_table(head: &[u8], header_length: usize) -> Option<&[u8]> {
    let mut at = header_length;
    loop {
        let kind = be32(head, at)?;
        let len = usize::try_from(be32(head, at.checked_add(4)?)?).ok()?;
        let start = at.checked_add(8)?;
        let end = start.checked_add(len)?;
        match kind {
            0 => return None,
            EXT_FEATURE_NAMES => return head.get(start..end),
            _ => at = end.checked_next_multiple_of(8)?,
        }
    }
}

/// Text up to the first NUL, with everything unprintable replaced.
pub(super) fn printable(bytes: &[u8]) -> String {
    bytes
        .iter()
        .take_while(|byte| **byte != 0)
        .map(|byte| {
            if (0x20..0x7f).contains(byte) {
                char::from(*byte)
            } else {
                '?'
            }
        })
        .collect()
}

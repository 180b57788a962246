//! Format detection: any start of a file has one format or is refused.
//!
//! The signatures lie far apart, so the input is a list of patches on zeroes:
//! two bytes of place (in units of half a sector from byte `place % 256`),
//! one of length, and the bytes. An input that starts with 0xff is taken as
//! it is.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wrought_formats::detect::Format;
use wrought_formats::detect::HEAD_BYTES;
use wrought_formats::detect::detect;
use wrought_formats::detect::filesystem;

fuzz_target!(|bytes: &[u8]| {
    if let Some((0xff, rest)) = bytes.split_first() {
        check(rest);
        return;
    }
    let mut head = vec![0; HEAD_BYTES];
    let mut rest = bytes;
    while let [high, low, len, more @ ..] = rest {
        let (patch, after) = more.split_at((*len as usize).min(more.len()));
        let at = (usize::from(*high) * 0x200 + usize::from(*low) * 2).min(HEAD_BYTES - 256);
        head[at..at + patch.len()].copy_from_slice(patch);
        rest = after;
    }
    check(&head);
});

fn check(head: &[u8]) {
    let _ = filesystem(head);
    match detect(head) {
        Ok(found) => {
            assert_eq!(Format::from_name(found.format.name()), Some(found.format));
            assert!(found.table.is_none() || matches!(found.format, Format::Raw | Format::Iso));
            assert!(found.filesystem.is_none() || found.format == Format::Raw);
        }
        Err(ambiguous) => assert!(ambiguous.found.len() > 1),
    }
}

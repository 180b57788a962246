//! Compressed containers: any bytes are refused or decode to the same, in
//! whatever pieces they come. The bound on memory is the fuzzer's
//! `-rss_limit_mb`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wrought_image::fuzzing::unpack;

/// Decoded bytes that are looked at.
const LIMIT: u64 = 2 << 20;
/// Memory that a container may ask for.
const MEMORY: u64 = 16 << 20;

fuzz_target!(|bytes: &[u8]| {
    let whole = unpack(bytes, bytes.len().max(1), LIMIT, MEMORY);
    let pieces = unpack(bytes, 1 + bytes.len() % 61, LIMIT, MEMORY);
    // Which of several problems is seen first may differ.
    let (whole, pieces) = (whole.map_err(drop), pieces.map_err(drop));
    assert!(whole == pieces, "pieces decode to something else");
});

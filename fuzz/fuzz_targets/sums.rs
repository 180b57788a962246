//! Sums files: a digest is found for a name that the file lists, or none.
//! The first line of the input is the name.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wrought_image::fuzzing::find_in_sums;

fuzz_target!(|bytes: &[u8]| {
    let (name, sums) = match bytes.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&bytes[..end], &bytes[end + 1..]),
        None => (&b"disk.img"[..], bytes),
    };
    let name = String::from_utf8_lossy(name);
    match find_in_sums(sums, &name) {
        Ok(hex) => {
            assert!(!hex.is_empty());
            assert!(hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')));
            let text = String::from_utf8_lossy(sums).to_ascii_lowercase();
            assert!(text.contains(&hex));
        }
        // What is said stays short, however long the file is.
        Err(problem) => assert!(problem.len() < 8 * (bytes.len() + 64)),
    }
});

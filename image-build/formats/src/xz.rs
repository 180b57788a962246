//! The headers at the start of an .xz file ("The .xz File Format", 1.2.1,
//! sections 2.1.1 and 3.1), as far as the memory that its decoding needs.

/// Stream header magic.
pub const MAGIC: [u8; 6] = *b"\xfd7zXZ\0";
/// Bytes of the stream header.
const STREAM_HEADER: usize = 12;
/// Filter id of LZMA2.
const LZMA2: u64 = 0x21;

/// Bytes of the dictionary of the first block; `None` when the headers are
/// damaged, cut off, or name no LZMA2 filter.
#[must_use]
pub fn dictionary_size(bytes: &[u8]) -> Option<u64> {
    let block = bytes.get(STREAM_HEADER..)?;
    if !bytes.starts_with(&MAGIC) {
        return None;
    }
    let real_size = (usize::from(*block.first()?) + 1) * 4;
    // Byte 0 of a header of 4 bytes would be the index of an empty stream.
    if real_size == 4 {
        return Some(0);
    }
    let header = block.get(..real_size)?;
    let flags = header[1];
    let mut rest = &header[2..];
    for present in [0x40, 0x80] {
        if flags & present != 0 {
            number(&mut rest)?;
        }
    }
    for _ in 0..(flags & 3) + 1 {
        let id = number(&mut rest)?;
        let size = usize::try_from(number(&mut rest)?).ok()?;
        let (properties, behind) = rest.split_at_checked(size)?;
        rest = behind;
        if id == LZMA2 {
            return lzma2_dictionary(*properties.first()?);
        }
    }
    None
}

/// Section 5.3.1: two or three times a power of two.
fn lzma2_dictionary(property: u8) -> Option<u64> {
    match property & 0x3f {
        40 => Some(u64::from(u32::MAX)),
        bits @ 0..40 => Some((2 | u64::from(bits & 1)) << (bits / 2 + 11)),
        _ => None,
    }
}

/// Section 1.2: seven bits a byte, least significant first, at most nine.
fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..63).step_by(7) {
        let (byte, behind) = rest.split_first()?;
        *rest = behind;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::Command;
    use std::process::Stdio;

    use super::*;

    fn xz(arguments: &[&str]) -> Vec<u8> {
        let mut child = Command::new("xz")
            .args(["-z", "-c"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || stdin.write_all(&vec![7u8; 3 << 20]).unwrap());
            child.wait_with_output().unwrap().stdout
        })
    }

    #[test]
    fn dictionaries_of_real_files() {
        for (arguments, dictionary) in [
            (&["-0"][..], 256 << 10),
            (&["-6"], 8 << 20),
            (&["-9"], 64 << 20),
            (&["-T2", "-6", "--block-size=1MiB"], 8 << 20),
            (&["--x86", "--lzma2=preset=6,dict=12MiB"], 12 << 20),
        ] {
            let bytes = xz(arguments);
            assert_eq!(dictionary_size(&bytes), Some(dictionary), "{arguments:?}");
            for cut in 0..24 {
                let _ = dictionary_size(&bytes[..cut]);
            }
        }
    }

    #[test]
    fn hostile_headers_end_in_none() {
        let mut bytes = [0xff; 64];
        bytes[..6].copy_from_slice(&MAGIC);
        for size in 1..=255 {
            bytes[12] = size;
            assert_eq!(dictionary_size(&bytes), None);
        }
    }
}

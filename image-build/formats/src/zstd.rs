//! The header of a Zstandard frame (RFC 8878, section 3.1.1.1), as far as the
//! memory that its decoding needs.

/// `0xFD2FB528`, little endian.
pub const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// A frame header never takes more bytes, magic included.
pub const MAX_HEADER: usize = 18;

/// What a frame header tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// Bytes of earlier output that must be kept while decoding.
    pub window: u64,
    /// Bytes that the frame decodes to, where it says so.
    pub content_size: Option<u64>,
}

/// Reads the header of the first frame in `bytes`; `None` when that is no
/// data frame (it may be a skippable one), or is cut off.
#[must_use]
pub fn frame_header(bytes: &[u8]) -> Option<FrameHeader> {
    let rest = bytes.strip_prefix(&MAGIC)?;
    let (descriptor, mut rest) = rest.split_first()?;
    let single_segment = descriptor & 0x20 != 0;
    let mut window = None;
    if !single_segment {
        let (byte, behind) = rest.split_first()?;
        // Section 3.1.1.1.2: at most 2^41 and seven eighths of it.
        let base = 1u64 << (10 + (byte >> 3));
        window = Some(base + base / 8 * u64::from(byte & 7));
        rest = behind;
    }
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    rest = rest.get(dictionary..)?;
    // Section 3.1.1.1.4: the field's length, and what it is short of.
    let (length, add) = match descriptor >> 6 {
        0 if single_segment => (1, 0),
        0 => (0, 0),
        1 => (2, 256),
        2 => (4, 0),
        _ => (8, 0),
    };
    let content_size = match length {
        0 => None,
        length => {
            let mut value = [0; 8];
            value[..length].copy_from_slice(rest.get(..length)?);
            Some(u64::from_le_bytes(value).saturating_add(add))
        }
    };
    Some(FrameHeader {
        window: window.or(content_size)?,
        content_size,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::Command;
    use std::process::Stdio;

    use super::*;

    /// Compresses with the reference implementation's command.
    fn zstd(arguments: &[&str], input: &[u8]) -> Vec<u8> {
        let mut child = Command::new("zstd")
            .args(["-q", "-c"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || stdin.write_all(input).unwrap());
            child.wait_with_output().unwrap().stdout
        })
    }

    #[test]
    fn windows_of_real_frames() {
        let input = vec![7u8; 9 << 20];
        for (arguments, window) in [
            (&["-1"][..], 512 << 10),
            (&["-3"], 2 << 20),
            (&["--long=24"], 16 << 20),
        ] {
            let header = frame_header(&zstd(arguments, &input)).unwrap();
            assert_eq!(header.window, window, "{arguments:?}");
            assert_eq!(header.content_size, None);
        }
        let sized = zstd(&["-3", "--stream-size=1000"], &input[..1000]);
        let header = frame_header(&sized).unwrap();
        assert_eq!((header.window, header.content_size), (1000, Some(1000)));
    }

    #[test]
    fn hostile_headers_end_in_none() {
        let mut bytes = [0xff; MAX_HEADER];
        bytes[..4].copy_from_slice(&MAGIC);
        for descriptor in 0..=255 {
            bytes[4] = descriptor;
            assert!(frame_header(&bytes).is_some());
            for cut in 0..5 {
                assert_eq!(frame_header(&bytes[..cut]), None);
            }
            for cut in 5..MAX_HEADER {
                // Whatever is there, nothing is read behind it.
                let _ = frame_header(&bytes[..cut]);
            }
        }
        assert_eq!(frame_header(b"\x50\x2a\x4d\x18\0\0\0\0"), None);
    }
}

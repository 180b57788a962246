//! Frames of a Zstandard file (RFC 8878, section 3.1): their headers, as far as
//! the memory that decoding needs, and the frames that hold no data.

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

/// Length in bytes, header included, of the skippable frame (section 3.1.2) that
/// `bytes` starts with.
#[must_use]
pub fn skippable_frame(bytes: &[u8]) -> Option<u64> {
    let (magic, rest) = bytes.split_first_chunk::<4>()?;
    let size = rest.first_chunk::<4>()?;
    // 0x184D2A50 to 0x184D2A5F, little endian.
    (magic[0] & 0xf0 == 0x50 && magic[1..] == [0x2a, 0x4d, 0x18])
        .then(|| 8 + u64::from(u32::from_le_bytes(*size)))
}

/// `bytes` from the first frame on that holds data; empty when that lies
/// behind their end.
#[must_use]
pub fn behind_skippable(mut bytes: &[u8]) -> &[u8] {
    while let Some(length) = skippable_frame(bytes) {
        bytes = usize::try_from(length)
            .ok()
            .and_then(|length| bytes.get(length..))
            .unwrap_or_default();
    }
    bytes
}

/// Whether skippable frames come first, and what follows them may be a frame
/// with data. LZ4 files have the same kind of frame.
#[must_use]
pub fn begins_skippable(head: &[u8]) -> bool {
    let behind = behind_skippable(head);
    behind.len() < head.len() && (behind.is_empty() || behind.starts_with(&MAGIC))
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
    fn skippable_frames_come_first() {
        let skip = |len: u32| {
            let bytes = [&b"\x5e\x2a\x4d\x18"[..], &len.to_le_bytes()].concat();
            [bytes, vec![1; len as usize]].concat()
        };
        let data = zstd(&["-1"], b"data");
        let file = [skip(0), skip(5), data.clone()].concat();
        assert_eq!(behind_skippable(&file), data);
        assert!(begins_skippable(&file));
        // What follows is not to be seen.
        assert!(begins_skippable(&skip(100)[..50]));
        // An LZ4 frame follows.
        assert!(!begins_skippable(
            &[skip(3), b"\x04\x22\x4d\x18".to_vec()].concat()
        ));
        assert!(!begins_skippable(&data));
        assert!(!begins_skippable(b""));
        assert_eq!(
            skippable_frame(b"\x50\x2a\x4d\x18\xff\xff\xff\xff"),
            Some(8 + 0xffff_ffff)
        );
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

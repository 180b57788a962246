//! `BOOTX64.CSV`: how a distribution tells which loaders to enter and under
//! which names. Lines of `file,label,options,description` in UTF-16, as
//! shim's fallback loader reads them.

/// A loader that the file names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CsvEntry {
    /// File in the same folder.
    pub(super) file: String,
    /// Description of the boot entry.
    pub(super) label: String,
    /// Passed to the loader, mostly empty.
    pub(super) options: String,
}

/// Longest label that firmware is given.
const LONGEST_LABEL: usize = 128;

/// Reads the file: UTF-16 with a byte order mark or little-endian without
/// one; plain ASCII too, since some images carry that. Lines without a file
/// or a label are left out.
pub(super) fn parse(bytes: &[u8]) -> Vec<CsvEntry> {
    let text = decode(bytes);
    text.lines().filter_map(line).collect()
}

fn decode(bytes: &[u8]) -> String {
    let units = |bytes: &[u8], from: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = bytes
            .chunks_exact(2)
            .map(|pair| from([pair[0], pair[1]]))
            .collect();
        String::from_utf16_lossy(&units)
    };
    match bytes {
        [0xff, 0xfe, rest @ ..] => units(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => units(rest, u16::from_be_bytes),
        _ if bytes.is_ascii() && !bytes.contains(&0) => String::from_utf8_lossy(bytes).into_owned(),
        _ => units(bytes, u16::from_le_bytes),
    }
}

fn line(line: &str) -> Option<CsvEntry> {
    let line = line.trim_matches(|c: char| c.is_whitespace() || c == '\0' || c == '\u{feff}');
    let mut fields = line.split(',').map(str::trim);
    let file = fields.next()?;
    let label: String = fields
        .next()?
        .chars()
        .filter(|c| !c.is_control())
        .take(LONGEST_LABEL)
        .collect();
    // The file is in the same folder, never elsewhere.
    if file.is_empty() || label.is_empty() || file.contains(['/', '\\']) {
        return None;
    }
    let options = fields.next().unwrap_or_default().to_owned();
    Some(CsvEntry {
        file: file.to_owned(),
        label,
        options,
    })
}

#[cfg(test)]
mod tests {
    use super::parse;
    use proptest::prelude::*;

    #[test]
    fn all_encodings() {
        let text = "shimx64.efi,debian,,This is the boot entry for debian\r\n\n,x,,\nno-label\n../a.efi,b,,\n";
        let le: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let mut marked_le = vec![0xff, 0xfe];
        marked_le.extend(&le);
        let mut marked_be = vec![0xfe, 0xff];
        marked_be.extend(text.encode_utf16().flat_map(u16::to_be_bytes));
        for bytes in [le, marked_le, marked_be, text.as_bytes().to_vec()] {
            let entries = parse(&bytes);
            assert_eq!(entries.len(), 1);
            assert_eq!(entries[0].file, "shimx64.efi");
            assert_eq!(entries[0].label, "debian");
            assert_eq!(entries[0].options, "");
        }
        assert!(parse(&[]).is_empty());
        assert!(parse(&[0xff]).is_empty());
    }

    proptest! {
        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for entry in parse(&bytes) {
                prop_assert!(!entry.file.contains(['/', '\\']));
            }
        }
    }
}

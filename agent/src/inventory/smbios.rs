//! The firmware's SMBIOS table (DSP0134 §6), as the kernel hands it out.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Bytes of a table that are read; real ones are some KiB.
const LIMIT: u64 = 1 << 20;
/// Structures that are looked at.
const MOST: usize = 4096;
/// Type, length, handle.
const HEADER: usize = 4;

/// One structure: its formatted area with the header, and its strings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Structure {
    /// What it describes (§7).
    pub(crate) kind: u8,
    /// By which others refer to it.
    pub(crate) handle: u16,
    area: Vec<u8>,
    strings: Vec<String>,
}

impl Structure {
    /// Bytes of the formatted area.
    pub(crate) fn length(&self) -> usize {
        self.area.len()
    }

    /// The byte at an offset.
    pub(crate) fn byte(&self, at: usize) -> Option<u8> {
        self.area.get(at).copied()
    }

    /// Two bytes.
    pub(crate) fn word(&self, at: usize) -> Option<u16> {
        let bytes = self.area.get(at..at.checked_add(2)?)?;
        bytes.try_into().ok().map(u16::from_le_bytes)
    }

    /// Four bytes.
    pub(crate) fn double(&self, at: usize) -> Option<u32> {
        let bytes = self.area.get(at..at.checked_add(4)?)?;
        bytes.try_into().ok().map(u32::from_le_bytes)
    }

    /// Eight bytes.
    pub(crate) fn quad(&self, at: usize) -> Option<u64> {
        let bytes = self.area.get(at..at.checked_add(8)?)?;
        bytes.try_into().ok().map(u64::from_le_bytes)
    }

    /// The bytes of a range.
    pub(crate) fn bytes(&self, at: std::ops::Range<usize>) -> Option<&[u8]> {
        self.area.get(at)
    }

    /// The string whose number (from 1) is at an offset; none for number 0.
    pub(crate) fn text(&self, at: usize) -> Option<&str> {
        let number = usize::from(self.byte(at)?);
        let text = self.strings.get(number.checked_sub(1)?)?;
        Some(text.as_str())
    }
}

/// The whole table; empty where there is none or only root may read it.
pub(crate) fn read(sys: &Path) -> Vec<Structure> {
    let mut bytes = Vec::new();
    let opened = File::open(sys.join("firmware/dmi/tables/DMI"));
    match opened.and_then(|file| file.take(LIMIT).read_to_end(&mut bytes)) {
        Ok(_) => parse(&bytes),
        Err(_) => Vec::new(),
    }
}

/// Structures up to the end-of-table one, or to the first that is cut off.
pub(crate) fn parse(mut table: &[u8]) -> Vec<Structure> {
    const END_OF_TABLE: u8 = 127;
    let mut found = Vec::new();
    while let [kind, length, low, high, ..] = *table {
        let length = usize::from(length);
        if length < HEADER || found.len() == MOST {
            break;
        }
        let Some((area, rest)) = table.split_at_checked(length) else {
            break;
        };
        let Some((strings, rest)) = strings(rest) else {
            break;
        };
        found.push(Structure {
            kind,
            handle: u16::from_le_bytes([low, high]),
            area: area.to_vec(),
            strings,
        });
        if kind == END_OF_TABLE {
            break;
        }
        table = rest;
    }
    found
}

/// Strings until the empty one (§6.1.3), and what follows. A structure without
/// strings ends with two zero bytes as well.
fn strings(mut data: &[u8]) -> Option<(Vec<String>, &[u8])> {
    let mut found = Vec::new();
    if let [0, 0, rest @ ..] = data {
        return Some((found, rest));
    }
    loop {
        let end = data.iter().position(|byte| *byte == 0)?;
        let (text, rest) = data.split_at(end);
        data = rest.get(1..)?;
        if text.is_empty() {
            return Some((found, data));
        }
        let text = String::from_utf8_lossy(text);
        let text: String = text.chars().filter(|c| !c.is_control()).collect();
        found.push(text.trim().to_owned());
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::parse;

    /// A structure as firmware writes it: `fields` follow the header.
    pub(crate) fn structure(kind: u8, handle: u16, fields: &[u8], strings: &[&str]) -> Vec<u8> {
        let mut bytes = vec![kind, u8::try_from(4 + fields.len()).unwrap()];
        bytes.extend(handle.to_le_bytes());
        bytes.extend(fields);
        for text in strings {
            bytes.extend(text.as_bytes());
            bytes.push(0);
        }
        bytes.push(0);
        if strings.is_empty() {
            bytes.push(0);
        }
        bytes
    }

    #[test]
    fn a_table_is_cut_into_structures() {
        let mut table = structure(0, 1, &[1, 2, 0, 0xff], &["Maker ", "1.0\u{7}"]);
        table.extend(structure(16, 2, &[3], &[]));
        table.extend(structure(127, 3, &[], &[]));
        table.extend(structure(17, 4, &[], &[]));
        let found = parse(&table);
        let kinds: Vec<u8> = found.iter().map(|one| one.kind).collect();
        assert_eq!(kinds, [0, 16, 127], "nothing after the end");
        let first = &found[0];
        assert_eq!((first.text(4), first.text(5)), (Some("Maker"), Some("1.0")));
        assert_eq!(
            (first.text(6), first.text(7), first.text(99)),
            (None, None, None)
        );
        assert_eq!(
            (first.handle, first.length(), first.word(4)),
            (1, 8, Some(0x0201))
        );
        assert_eq!((first.double(6), first.quad(0)), (None, first.quad(0)));
        assert_eq!(found[1].byte(4), Some(3));
        // Cut anywhere, it gives what is whole.
        for end in 0..table.len() {
            assert!(found.starts_with(&parse(&table[..end])), "{end}");
        }
        assert!(
            parse(&[0, 3, 0, 0, 0, 0]).is_empty(),
            "a length below the header's"
        );
    }
}

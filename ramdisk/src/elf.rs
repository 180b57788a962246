//! The parts of 64-bit little-endian ELF files that are needed here (System V
//! gABI, chapters "Object Files" and "Dynamic Linking"): sections by name, and
//! what a program or library asks the dynamic linker for.

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;

/// Most entries of a dynamic section that are looked at.
const DYNAMIC_MAX: usize = 4096;

const PT_LOAD: u64 = 1;
const PT_DYNAMIC: u64 = 2;
const PT_INTERP: u64 = 3;

const DT_NULL: u64 = 0;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;

/// Section header fields that are needed: name offset, file offset, size.
struct Section {
    name: usize,
    offset: usize,
    size: usize,
}

/// A program header.
struct Segment {
    kind: u64,
    offset: u64,
    address: u64,
    size: u64,
}

/// What a program or library asks the dynamic linker for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Dynamic {
    /// The dynamic linker, for programs: an absolute path.
    pub(crate) interpreter: Option<String>,
    /// File names of libraries.
    pub(crate) needed: Vec<String>,
    /// Folders to look in first, as written: they may hold `$ORIGIN`.
    pub(crate) folders: Vec<String>,
    /// The machine (`e_machine`): 62 is x86-64, 183 is AArch64.
    pub(crate) machine: u16,
}

/// Whether `bytes` begin like such a file.
pub(crate) fn is_elf(bytes: &[u8]) -> bool {
    bytes.get(..6) == Some(b"\x7fELF\x02\x01")
}

/// The content of the section `wanted`, if there is one.
pub(crate) fn section<'a>(elf: &'a [u8], wanted: &[u8]) -> Result<Option<&'a [u8]>> {
    ensure!(is_elf(elf), "not a 64-bit little-endian ELF file");
    let table = number(elf, 0x28, 8)?;
    let entry = number(elf, 0x3a, 2)?;
    let count = number(elf, 0x3c, 2)?;
    let names = number(elf, 0x3e, 2)?;
    let section = |index: usize| -> Result<Section> {
        let at = index
            .checked_mul(entry)
            .and_then(|o| o.checked_add(table))
            .context("overflow")?;
        Ok(Section {
            name: number(elf, at, 4)?,
            offset: number(elf, at + 0x18, 8)?,
            size: number(elf, at + 0x20, 8)?,
        })
    };
    let strings = content(elf, &section(names)?)?;
    for index in 0..count {
        let section = section(index)?;
        let name = strings.get(section.name..).unwrap_or_default();
        if name.split(|byte| *byte == 0).next() == Some(wanted) {
            return content(elf, &section).map(Some);
        }
    }
    Ok(None)
}

/// What the file asks the dynamic linker for; a static program asks for
/// nothing.
pub(crate) fn dynamic(elf: &[u8]) -> Result<Dynamic> {
    ensure!(is_elf(elf), "not a 64-bit little-endian ELF file");
    let segments = segments(elf)?;
    let mut found = Dynamic {
        machine: number(elf, 0x12, 2)? as u16,
        ..Dynamic::default()
    };
    if let Some(segment) = segments.iter().find(|s| s.kind == PT_INTERP) {
        found.interpreter = Some(text(elf, segment.offset)?);
    }
    let Some(segment) = segments.iter().find(|s| s.kind == PT_DYNAMIC) else {
        return Ok(found);
    };
    let (mut strings, mut needed, mut folders) = (None, Vec::new(), Vec::new());
    for index in 0..(segment.size as usize / 16).min(DYNAMIC_MAX) {
        let at = usize::try_from(segment.offset)?
            .checked_add(index * 16)
            .context("overflow")?;
        let value = number(elf, at + 8, 8)? as u64;
        match number(elf, at, 8)? as u64 {
            DT_NULL => break,
            DT_NEEDED => needed.push(value),
            DT_RPATH | DT_RUNPATH => folders.push(value),
            DT_STRTAB => strings = Some(value),
            _ => {}
        }
    }
    if needed.is_empty() && folders.is_empty() {
        return Ok(found);
    }
    let strings = strings.context("a dynamic section without strings")?;
    let strings = segments
        .iter()
        .filter(|s| s.kind == PT_LOAD)
        .find_map(|s| {
            let into = strings.checked_sub(s.address)?;
            (into < s.size).then(|| s.offset.checked_add(into))?
        })
        .context("the dynamic section's strings lie in no segment")?;
    let string = |offset: u64| text(elf, strings.checked_add(offset).context("overflow")?);
    for offset in needed {
        found.needed.push(string(offset)?);
    }
    for offset in folders {
        let list = string(offset)?;
        found.folders.extend(list.split(':').map(str::to_owned));
    }
    Ok(found)
}

fn segments(elf: &[u8]) -> Result<Vec<Segment>> {
    let table = number(elf, 0x20, 8)?;
    let entry = number(elf, 0x36, 2)?;
    let count = number(elf, 0x38, 2)?;
    let mut out = Vec::new();
    for index in 0..count {
        let at = index
            .checked_mul(entry)
            .and_then(|offset| offset.checked_add(table))
            .context("overflow")?;
        out.push(Segment {
            kind: number(elf, at, 4)? as u64,
            offset: number(elf, at + 0x08, 8)? as u64,
            address: number(elf, at + 0x10, 8)? as u64,
            size: number(elf, at + 0x20, 8)? as u64,
        });
    }
    Ok(out)
}

/// The text that ends with NUL at `offset`.
fn text(elf: &[u8], offset: u64) -> Result<String> {
    let rest = elf
        .get(usize::try_from(offset)?..)
        .context("a text lies beyond the file's end")?;
    let end = rest
        .iter()
        .position(|byte| *byte == 0)
        .context("a text does not end")?;
    let text = std::str::from_utf8(&rest[..end]).context("a text is not UTF-8")?;
    Ok(text.to_owned())
}

fn content<'a>(elf: &'a [u8], section: &Section) -> Result<&'a [u8]> {
    let end = section
        .offset
        .checked_add(section.size)
        .context("overflow")?;
    elf.get(section.offset..end)
        .context("a section lies beyond the file's end")
}

fn number(elf: &[u8], at: usize, len: usize) -> Result<usize> {
    let bytes = at
        .checked_add(len)
        .and_then(|end| elf.get(at..end))
        .context("ELF is cut short")?;
    let value = bytes
        .iter()
        .rev()
        .fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    usize::try_from(value).context("ELF number is too large")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::dynamic;
    use super::is_elf;

    /// An x86-64 file that needs these libraries, with the interpreter of a
    /// program.
    pub(crate) fn program(interpreter: &str, needed: &[&str], folders: &str) -> Vec<u8> {
        let mut out = vec![0; 64 + 3 * 56];
        out[..6].copy_from_slice(b"\x7fELF\x02\x01");
        out[0x12..0x14].copy_from_slice(&62u16.to_le_bytes());
        out[0x20..0x28].copy_from_slice(&64u64.to_le_bytes());
        out[0x36..0x38].copy_from_slice(&56u16.to_le_bytes());
        out[0x38..0x3a].copy_from_slice(&3u16.to_le_bytes());
        let interpreter_at = out.len();
        out.extend_from_slice(interpreter.as_bytes());
        out.push(0);
        let strings_at = out.len();
        out.push(0);
        let mut entries = Vec::new();
        for (tag, text) in needed
            .iter()
            .map(|name| (1u64, *name))
            .chain((!folders.is_empty()).then_some((29, folders)))
        {
            entries.push((tag, (out.len() - strings_at) as u64));
            out.extend_from_slice(text.as_bytes());
            out.push(0);
        }
        // Memory addresses are file offsets plus this.
        entries.push((5, strings_at as u64 + 0x1000));
        entries.push((0, 0));
        let dynamic_at = out.len();
        for (tag, value) in &entries {
            out.extend_from_slice(&tag.to_le_bytes());
            out.extend_from_slice(&value.to_le_bytes());
        }
        let whole = out.len();
        for (index, (kind, offset, size)) in [
            (1u32, 0, whole),
            (2, dynamic_at, entries.len() * 16),
            // A library has none.
            (
                if interpreter.is_empty() { 0 } else { 3 },
                interpreter_at,
                interpreter.len() + 1,
            ),
        ]
        .into_iter()
        .enumerate()
        {
            let at = 64 + index * 56;
            out[at..at + 4].copy_from_slice(&kind.to_le_bytes());
            out[at + 8..at + 16].copy_from_slice(&(offset as u64).to_le_bytes());
            out[at + 16..at + 24].copy_from_slice(&(offset as u64 + 0x1000).to_le_bytes());
            out[at + 32..at + 40].copy_from_slice(&(size as u64).to_le_bytes());
        }
        out
    }

    #[test]
    fn what_a_program_asks_for_is_read() {
        let file = program(
            "/lib64/ld.so.2",
            &["libc.so.6", "libz.so.1"],
            "$ORIGIN/x:/y",
        );
        let found = dynamic(&file).unwrap();
        assert_eq!(found.interpreter.as_deref(), Some("/lib64/ld.so.2"));
        assert_eq!(found.needed, ["libc.so.6", "libz.so.1"]);
        assert_eq!(found.folders, ["$ORIGIN/x", "/y"]);
        assert_eq!(found.machine, 62);
    }

    #[test]
    fn damaged_files_are_errors_or_empty() {
        let whole = program("/ld", &["a"], "");
        for len in 0..whole.len() {
            let _ = dynamic(&whole[..len]);
        }
        assert!(dynamic(b"#!/bin/sh").is_err());
        assert!(!is_elf(b"\x7fELF\x01\x01"));
    }
}

//! What a kernel module says about itself: the `.modinfo` section of its ELF
//! file, a list of NUL-terminated `key=value` strings.

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;

/// Section header fields that are needed: name offset, file offset, size.
struct Section {
    name: usize,
    offset: usize,
    size: usize,
}

/// The parts of a module's information that loading it needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ModInfo {
    /// Modules that must be loaded before.
    pub(crate) depends: Vec<String>,
    /// Device patterns that it serves.
    pub(crate) alias: Vec<String>,
    /// Its optional dependencies, as written: `pre: a b post: c`.
    pub(crate) softdep: Vec<String>,
    /// Firmware files that it may ask for.
    pub(crate) firmware: Vec<String>,
}

/// Reads the `.modinfo` section of a 64-bit little-endian ELF file.
pub(crate) fn parse(elf: &[u8]) -> Result<ModInfo> {
    let section = find_section(elf, b".modinfo")?.context("no .modinfo section")?;
    let mut info = ModInfo::default();
    for entry in section.split(|byte| *byte == 0) {
        let Ok(entry) = std::str::from_utf8(entry) else {
            continue;
        };
        let Some((key, value)) = entry.split_once('=') else {
            continue;
        };
        match key {
            "depends" => info.depends.extend(
                value
                    .split(',')
                    .filter(|name| !name.is_empty())
                    .map(underscored),
            ),
            "alias" => info.alias.push(value.to_owned()),
            "softdep" => info.softdep.push(value.to_owned()),
            "firmware" => info.firmware.push(value.to_owned()),
            _ => {}
        }
    }
    Ok(info)
}

/// Module names have underscores, whatever their file's name has.
pub(crate) fn underscored(name: &str) -> String {
    name.replace('-', "_")
}

fn find_section<'a>(elf: &'a [u8], wanted: &[u8]) -> Result<Option<&'a [u8]>> {
    ensure!(
        elf.get(..6) == Some(b"\x7fELF\x02\x01"),
        "not a 64-bit little-endian ELF file"
    );
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
    use super::ModInfo;
    use super::parse;

    /// A minimal ELF file with the given `.modinfo` content.
    pub(crate) fn elf(modinfo: &[u8]) -> Vec<u8> {
        let names = b"\0.modinfo\0.shstrtab\0";
        let mut out = vec![0; 64];
        out[..6].copy_from_slice(b"\x7fELF\x02\x01");
        let info_at = out.len();
        out.extend_from_slice(modinfo);
        let names_at = out.len();
        out.extend_from_slice(names);
        let table = out.len();
        for (name, offset, size) in [
            (0, 0, 0),
            (1, info_at, modinfo.len()),
            (10, names_at, names.len()),
        ] {
            let mut header = [0; 64];
            header[..4].copy_from_slice(&(name as u32).to_le_bytes());
            header[0x18..0x20].copy_from_slice(&(offset as u64).to_le_bytes());
            header[0x20..0x28].copy_from_slice(&(size as u64).to_le_bytes());
            out.extend_from_slice(&header);
        }
        out[0x28..0x30].copy_from_slice(&(table as u64).to_le_bytes());
        out[0x3a..0x3c].copy_from_slice(&64u16.to_le_bytes());
        out[0x3c..0x3e].copy_from_slice(&3u16.to_le_bytes());
        out[0x3e..0x40].copy_from_slice(&2u16.to_le_bytes());
        out
    }

    #[test]
    fn fields_are_collected() {
        let info = parse(&elf(
            b"license=GPL\0depends=mii,usb-core\0alias=pci:v1*\0alias=pci:v2*\0softdep=pre: crc32c\0firmware=a/b.bin\0",
        ))
        .unwrap();
        let expected = ModInfo {
            depends: vec!["mii".into(), "usb_core".into()],
            alias: vec!["pci:v1*".into(), "pci:v2*".into()],
            softdep: vec!["pre: crc32c".into()],
            firmware: vec!["a/b.bin".into()],
        };
        assert_eq!(info, expected);
    }

    #[test]
    fn damaged_files_are_errors() {
        let whole = elf(b"depends=\0");
        for len in 0..whole.len() {
            let _ = parse(&whole[..len]);
        }
        assert!(parse(b"#!/bin/sh").is_err());
        assert!(parse(&whole[..100]).is_err());
    }
}

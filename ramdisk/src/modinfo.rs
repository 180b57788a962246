//! What a kernel module says about itself: the `.modinfo` section of its ELF
//! file, a list of NUL-terminated `key=value` strings.

use anyhow::Context;
use anyhow::Result;

use crate::elf;

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
pub(crate) fn parse(file: &[u8]) -> Result<ModInfo> {
    let section = elf::section(file, b".modinfo")?.context("no .modinfo section")?;
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

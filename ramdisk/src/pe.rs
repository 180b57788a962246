//! Unified kernel images: a UEFI stub with command line, initial root file
//! system and kernel as further sections (PE/COFF, Microsoft's
//! specification, and the Boot Loader Interface's names for the sections).

use std::ops::Range;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;

const SECTION_HEADER: usize = 40;
/// Section flags: initialised data, readable.
const DATA_READABLE: u32 = 0x4000_0040;
/// Distance of sections in memory: firmware sets access rights by page.
const PAGE: u64 = 4096;

/// A disc's boot loader reads sections by sectors of this many bytes.
const SECTOR: u64 = 512;

/// Appends `sections` (name with at most eight characters, content) to the
/// UEFI program `stub`.
pub(crate) fn append_sections(stub: &[u8], sections: &[(&str, &[u8])]) -> Result<Vec<u8>> {
    let pe = read(stub, 0x3c, 4)? as usize;
    ensure!(
        stub.get(pe..pe + 4) == Some(b"PE\0\0"),
        "the UEFI stub is no PE file"
    );
    let coff = pe + 4;
    let count = read(stub, coff + 2, 2)? as usize;
    let optional = coff + 20;
    ensure!(
        read(stub, optional, 2)? == 0x20b,
        "the UEFI stub is not a 64-bit PE file"
    );
    let table = optional + read(stub, coff + 16, 2)? as usize;
    let file_alignment = read(stub, optional + 36, 4)?.max(SECTOR);
    let headers_end = read(stub, optional + 60, 4)? as usize;
    let new_table_end = table + (count + sections.len()) * SECTION_HEADER;
    ensure!(
        new_table_end <= headers_end,
        "the UEFI stub's headers have {headers_end} bytes, {} more sections need {new_table_end}",
        sections.len()
    );
    let mut memory_end = read(stub, optional + 56, 4)?;
    let mut data = read(stub, optional + 8, 4)?;
    let mut out = stub.to_vec();
    for (index, (name, content)) in sections.iter().enumerate() {
        ensure!(
            name.len() <= 8,
            "section name {name} is longer than 8 characters"
        );
        let address = memory_end.next_multiple_of(PAGE);
        out.resize(
            (out.len() as u64).next_multiple_of(file_alignment) as usize,
            0,
        );
        let raw = out.len() as u64;
        out.extend_from_slice(content);
        out.resize(
            (out.len() as u64).next_multiple_of(file_alignment) as usize,
            0,
        );
        let raw_len = out.len() as u64 - raw;
        memory_end = address + content.len() as u64;
        data += raw_len;
        let header = table + (count + index) * SECTION_HEADER;
        out[header..header + SECTION_HEADER].fill(0);
        out[header..header + name.len()].copy_from_slice(name.as_bytes());
        write(&mut out, header + 8, content.len() as u64)?;
        write(&mut out, header + 12, address)?;
        write(&mut out, header + 16, raw_len)?;
        write(&mut out, header + 20, raw)?;
        write(&mut out, header + 36, u64::from(DATA_READABLE))?;
    }
    let total = ((count + sections.len()) as u16).to_le_bytes();
    out[coff + 2..coff + 4].copy_from_slice(&total);
    write(&mut out, optional + 8, data)?;
    write(&mut out, optional + 56, memory_end.next_multiple_of(PAGE))?;
    // The check sum is for Windows drivers only; 0 means none.
    write(&mut out, optional + 64, 0)?;
    Ok(out)
}

/// The kind of machine that a UEFI program is for (`Machine` of the COFF
/// header).
pub(crate) fn machine(file: &[u8]) -> Result<u16> {
    let coff = read(file, 0x3c, 4)? as usize + 4;
    Ok(read(file, coff, 2)? as u16)
}

/// Where the content of a section lies in a file that [`append_sections`] made.
pub(crate) fn section(file: &[u8], name: &str) -> Result<Range<usize>> {
    let coff = read(file, 0x3c, 4)? as usize + 4;
    let count = read(file, coff + 2, 2)? as usize;
    let table = coff + 20 + read(file, coff + 16, 2)? as usize;
    for index in 0..count {
        let header = table + index * SECTION_HEADER;
        let found = file
            .get(header..header + 8)
            .context("the UKI's headers are cut short")?;
        if found.split(|byte| *byte == 0).next() == Some(name.as_bytes()) {
            let start = read(file, header + 20, 4)? as usize;
            let end = start + read(file, header + 8, 4)? as usize;
            ensure!(end <= file.len(), "section {name} is cut short");
            return Ok(start..end);
        }
    }
    bail!("the UKI has no section {name}")
}

/// The text in a section.
pub(crate) fn text_section(file: &[u8], name: &str) -> Result<String> {
    let range = section(file, name)?;
    let text = std::str::from_utf8(&file[range]).with_context(|| format!("section {name}"))?;
    Ok(text.to_owned())
}

fn read(bytes: &[u8], at: usize, len: usize) -> Result<u64> {
    let field = bytes
        .get(at..at + len)
        .context("the UEFI program is cut short")?;
    Ok(field
        .iter()
        .rev()
        .fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

fn write(bytes: &mut [u8], at: usize, value: u64) -> Result<()> {
    let value = u32::try_from(value).context("the image is larger than 4 GiB")?;
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::append_sections;
    use super::read;

    /// A PE file of headers alone, with one empty section.
    pub(crate) fn stub() -> Vec<u8> {
        let mut out = vec![0; 0x400];
        out[0x3c] = 0x80;
        out[0x80..0x84].copy_from_slice(b"PE\0\0");
        let coff = 0x84;
        out[coff..coff + 2].copy_from_slice(&0x8664u16.to_le_bytes());
        out[coff + 2] = 1;
        out[coff + 16] = 240;
        let optional = coff + 20;
        out[optional..optional + 2].copy_from_slice(&0x20bu16.to_le_bytes());
        out[optional + 36..optional + 40].copy_from_slice(&0x200u32.to_le_bytes());
        out[optional + 56..optional + 60].copy_from_slice(&0x5123u32.to_le_bytes());
        out[optional + 60..optional + 64].copy_from_slice(&0x400u32.to_le_bytes());
        out
    }

    #[test]
    fn sections_are_aligned_in_file_and_memory() {
        let out = append_sections(&stub(), &[(".cmdline", b"quiet"), (".linux", &[7; 5000])]);
        let out = out.unwrap();
        assert_eq!(out[0x86], 3);
        let table = 0x84 + 20 + 240 + 40;
        let field = |section: usize, at| read(&out, table + section * 40 + at, 4).unwrap();
        assert_eq!((field(0, 8), field(0, 12)), (5, 0x6000));
        assert_eq!((field(1, 8), field(1, 12)), (5000, 0x7000));
        for section in 0..2 {
            assert_eq!(field(section, 20) % 0x200, 0);
            assert_eq!(field(section, 16) % 0x200, 0);
        }
        let at = field(0, 20) as usize;
        assert_eq!(&out[at..at + 6], b"quiet\0");
        assert_eq!(
            read(&out, 0x84 + 20 + 56, 4).unwrap(),
            0x9000,
            "size in memory"
        );
    }

    #[test]
    fn no_room_for_headers_is_an_error() {
        let many: Vec<(&str, &[u8])> = vec![(".a", b""); 20];
        let error = append_sections(&stub(), &many).unwrap_err().to_string();
        assert!(error.contains("20 more sections"), "{error}");
        assert!(append_sections(b"MZ", &[]).is_err());
    }
}

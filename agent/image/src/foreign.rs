//! Files that are no disk image that is written, and what to say about them.

use wrought_formats::detect::Detection;
use wrought_formats::detect::Format;

use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;

/// Archives and streams that hold files, or hold them compressed in a way
/// that is not read.
const ARCHIVES: [(usize, &[u8], &str); 5] = [
    (0, b"PK\x03\x04", "a ZIP archive"),
    (257, b"ustar", "a tar archive (an .ova is one too)"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (0, b"\x04\x22\x4d\x18", "an LZ4 stream"),
    (0, b"LZIP", "an lzip stream"),
];

/// Bytes that are looked at to tell text from a disk.
const TEXT: usize = 1024;
/// Characters of a text that are shown.
const SHOWN: usize = 60;

/// Why a file of this kind is not written; `None` for those that are.
/// A container is looked into by its caller.
pub(crate) fn refusal(found: &Detection, head: &[u8]) -> Option<Error> {
    let text = match found.format {
        Format::Qcow2 => return None,
        Format::Raw if found.table.is_some() || found.filesystem.is_some() => return None,
        Format::Raw => return not_a_disk(head).map(refuse),
        Format::Iso if found.table.is_some() => "the image is an ISO 9660 image with a partition \
             table; it is written only where that is meant (--disk-format iso, or iso among the \
             permitted formats)"
            .to_owned(),
        Format::Iso => "the image is an ISO 9660 image, which is installed from and not written \
                        to a disk; a whole-disk image is needed"
            .to_owned(),
        Format::Luks => "the image is one encrypted LUKS volume; a whole-disk image with a \
                         partition table is needed"
            .to_owned(),
        packed @ (Format::Gzip | Format::Xz | Format::Zstd | Format::Bzip2) => format!(
            "the image is compressed twice, the second time as {packed}; compress it once, or \
             publish it as qcow2"
        ),
        other => format!(
            "the image is {}, which is not written; convert it with 'qemu-img convert -f {other} \
             -O qcow2 IN OUT'",
            hypervisor(other)
        ),
    };
    Some(refuse(text))
}

fn refuse(text: String) -> Error {
    Error::new(ErrorKind::Format, Stage::Check, text)
}

/// Names that people know, beside those of qemu-img.
fn hypervisor(format: Format) -> &'static str {
    match format {
        Format::Vmdk => "a VMware disk (vmdk)",
        Format::Vhdx => "a Hyper-V disk (vhdx)",
        Format::Vhd => "a Hyper-V disk of the old kind (VHD, vpc)",
        Format::Vdi => "a VirtualBox disk (vdi)",
        Format::Qed => "a QEMU enhanced disk (qed)",
        Format::Qcow1 => "a qcow disk of version 1",
        _ => "a disk of another program",
    }
}

/// Something that has no place on a disk at all: archives and texts.
fn not_a_disk(head: &[u8]) -> Option<String> {
    let archive = ARCHIVES
        .iter()
        .find(|(at, magic, _)| head.get(*at..).is_some_and(|rest| rest.starts_with(magic)));
    if let Some((_, _, name)) = archive {
        return Some(format!(
            "the file is {name} and no disk image; unpack it first, and give the disk image in it"
        ));
    }
    if is_lzma(head) {
        return Some(
            "the file is an LZMA stream of the old kind (.lzma), which is not read; pack it anew \
             as .xz, and give the checksum of that"
                .to_owned(),
        );
    }
    let text = as_text(head)?;
    let start = text.trim_start().to_ascii_lowercase();
    if ["<!doctype html", "<html", "<?xml", "<head"]
        .iter()
        .any(|tag| start.starts_with(tag))
    {
        return Some(
            "the file is a web page and no disk image: is the address right, or does the server \
             want a login?"
                .to_owned(),
        );
    }
    let first = text.trim_start().lines().next().unwrap_or_default();
    let shown: String = first.chars().take(SHOWN).collect();
    Some(format!(
        "the file is a text ({shown:?}) and no disk image: is the address right?"
    ))
}

/// Whether this is the header of an .lzma file as programs write it: the usual
/// properties, a dictionary of 2^n or 2^n + 2^(n-1) bytes, a size that is
/// unknown or below 2^40 (liblzma tells them by the same signs).
fn is_lzma(head: &[u8]) -> bool {
    let (Some(0x5d), Some(dictionary), Some(size)) = (
        head.first(),
        head.get(1..).and_then(|rest| rest.first_chunk()),
        head.get(5..).and_then(|rest| rest.first_chunk()),
    ) else {
        return false;
    };
    let (dictionary, size) = (u32::from_le_bytes(*dictionary), u64::from_le_bytes(*size));
    let even = dictionary >= 4096 && (dictionary >> dictionary.trailing_zeros()) <= 3;
    even && (size == u64::MAX || (1..1 << 40).contains(&size))
}

/// The start of a text; `None` for anything else.
fn as_text(head: &[u8]) -> Option<&str> {
    let start = &head[..head.len().min(TEXT)];
    let text = match std::str::from_utf8(start) {
        Ok(text) => text,
        // The last character may be cut.
        Err(error) if error.error_len().is_none() && head.len() > TEXT => {
            std::str::from_utf8(&start[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    let plain = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t' | '\u{c}');
    (!text.trim().is_empty() && text.chars().all(plain)).then_some(text)
}

#[cfg(test)]
mod tests {
    use wrought_formats::detect::detect;

    use super::*;

    fn sentence(head: &[u8]) -> Option<String> {
        refusal(&detect(head).unwrap(), head).map(|error| error.to_string())
    }

    #[test]
    fn what_is_no_disk_is_named() {
        let mut tar = vec![b'a'; 600];
        tar[100] = 0;
        tar[257..262].copy_from_slice(b"ustar");
        let long = "é".repeat(2000);
        for (head, words) in [
            (&b"<!DOCTYPE html>\n<title>404"[..], "a web page"),
            (b"\n <HTML><body>", "a web page"),
            (b"{\"error\": \"denied\"}", "a text (\"{\\\"error"),
            (b"Not found\r\nmore", "(\"Not found\")"),
            (b"PK\x03\x04....", "a ZIP archive"),
            (long.as_bytes(), "a text"),
            (&tar, "a tar archive"),
            (b"KDMV", "a VMware disk (vmdk)"),
            (b"KDMV", "qemu-img convert -f vmdk -O qcow2"),
            (b"LUKS\xba\xbe", "encrypted"),
            (
                b"\x5d\0\0\x80\0\xff\xff\xff\xff\xff\xff\xff\xff\0",
                "(.lzma)",
            ),
            (b"\x1f\x8b\x08", "compressed twice"),
        ] {
            let found = sentence(head).unwrap();
            assert!(found.contains(words), "{words}: {found}");
        }
    }

    #[test]
    fn what_may_be_a_disk_is_left_alone() {
        for head in [
            &[0u8; 1024][..],
            b"",
            b"   \n",
            b"\x7fELF",
            b"QFI\xfb\0\0\0\x03",
        ] {
            assert_eq!(sentence(head), None, "{head:?}");
        }
        let mut boot = vec![b' '; 512];
        boot[510] = 0x55;
        boot[511] = 0xaa;
        assert_eq!(sentence(&boot), None);
    }
}

//! Device paths as text (UEFI 2.10, §10.6.1.6): what patterns for boot entries
//! are held against, and what a person reads. Nodes that have no text of their
//! own here are shown with type, subtype and bytes.

use std::fmt::Write as _;

use uuid::Uuid;

/// Most nodes of a path that are shown.
const NODES: usize = 64;
/// Most bytes of an unknown node that are shown.
const BYTES: usize = 32;

/// §10.3.2 to §10.3.5.
const HARDWARE: u8 = 1;
const ACPI: u8 = 2;
const MESSAGING: u8 = 3;
const MEDIA: u8 = 4;
const BIOS: u8 = 5;
const END: u8 = 0x7f;
/// End of one instance of several; the whole path's end is 0xff.
const END_INSTANCE: u8 = 1;

/// The text of packed device paths: nodes with `/` between them, instances with
/// `,`. What is cut short ends with `…`.
pub(crate) fn text(mut bytes: &[u8]) -> String {
    let mut out = String::new();
    let mut first = true;
    for _ in 0..NODES {
        let Some(&[kind, subtype, low, high]) = bytes.first_chunk::<4>() else {
            break;
        };
        let length = usize::from(u16::from_le_bytes([low, high]));
        let Some(body) = bytes.get(4..length.max(4)).filter(|_| length >= 4) else {
            out.push('…');
            break;
        };
        bytes = bytes.get(length..).unwrap_or_default();
        if kind == END {
            if subtype != END_INSTANCE {
                break;
            }
            out.push(',');
            first = true;
            continue;
        }
        if !first {
            out.push('/');
        }
        first = false;
        node(&mut out, kind, subtype, body);
    }
    out
}

fn node(out: &mut String, kind: u8, subtype: u8, body: &[u8]) {
    let known = match (kind, subtype) {
        (HARDWARE, 1) => pci(body),
        (HARDWARE, 4) => guid(body).map(|guid| format!("VenHw({guid})")),
        (ACPI, 1) => acpi(body),
        (MESSAGING, 1) => pair(body, "Ata"),
        (MESSAGING, 2) => pair16(body, "Scsi"),
        (MESSAGING, 5) => pair(body, "USB"),
        (MESSAGING, 11) => mac(body),
        (MESSAGING, 12) => Some("IPv4()".to_owned()),
        (MESSAGING, 13) => Some("IPv6()".to_owned()),
        (MESSAGING, 18) => sata(body),
        (MESSAGING, 23) => nvme(body),
        (MESSAGING, 24) => Some(format!("Uri({})", String::from_utf8_lossy(body))),
        (MEDIA, 1) => hard_drive(body),
        (MEDIA, 2) => Some("CDROM()".to_owned()),
        (MEDIA, 3) => guid(body).map(|guid| format!("VenMedia({guid})")),
        (MEDIA, 4) => Some(format!("File({})", utf16(body))),
        (MEDIA, 6) => guid(body).map(|guid| format!("FvFile({guid})")),
        (MEDIA, 7) => guid(body).map(|guid| format!("Fv({guid})")),
        (BIOS, 1) => bbs(body),
        _ => None,
    };
    match known {
        Some(text) => out.push_str(&text),
        None => {
            let shown = &body[..body.len().min(BYTES)];
            // Writing to a String cannot fail.
            write!(out, "Path({kind},{subtype},").ok();
            for byte in shown {
                write!(out, "{byte:02x}").ok();
            }
            out.push(')');
        }
    }
}

/// UTF-16 up to its zero; what is no character is shown as such.
fn utf16(body: &[u8]) -> String {
    let units: Vec<u16> = body
        .chunks_exact(2)
        .map(|unit| u16::from_le_bytes([unit[0], unit[1]]))
        .take_while(|unit| *unit != 0)
        .collect();
    String::from_utf16_lossy(&units)
}

fn guid(body: &[u8]) -> Option<String> {
    Some(Uuid::from_bytes_le(*body.first_chunk()?).to_string())
}

fn number<const N: usize>(body: &[u8], at: usize) -> Option<u64> {
    let bytes: &[u8; N] = body.get(at..)?.first_chunk()?;
    Some(
        bytes
            .iter()
            .rev()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
    )
}

fn pci(body: &[u8]) -> Option<String> {
    let (function, device) = (number::<1>(body, 0)?, number::<1>(body, 1)?);
    Some(format!("Pci({device:#x},{function:#x})"))
}

/// The root bridges have names; `HID` is a compressed EISA identifier.
fn acpi(body: &[u8]) -> Option<String> {
    let (hid, uid) = (number::<4>(body, 0)?, number::<4>(body, 4)?);
    Some(match hid {
        0x0a03_41d0 => format!("PciRoot({uid:#x})"),
        0x0a08_41d0 => format!("PcieRoot({uid:#x})"),
        _ => format!("Acpi({hid:#x},{uid:#x})"),
    })
}

fn pair(body: &[u8], name: &str) -> Option<String> {
    let (one, other) = (number::<1>(body, 0)?, number::<1>(body, 1)?);
    Some(format!("{name}({one:#x},{other:#x})"))
}

fn pair16(body: &[u8], name: &str) -> Option<String> {
    let (one, other) = (number::<2>(body, 0)?, number::<2>(body, 2)?);
    Some(format!("{name}({one:#x},{other:#x})"))
}

fn mac(body: &[u8]) -> Option<String> {
    let address = body.first_chunk::<6>()?;
    let kind = number::<1>(body, 32)?;
    let mut text = "MAC(".to_owned();
    for byte in address {
        // Writing to a String cannot fail.
        write!(text, "{byte:02x}").ok();
    }
    write!(text, ",{kind})").ok();
    Some(text)
}

fn sata(body: &[u8]) -> Option<String> {
    let (port, multiplier, lun) = (
        number::<2>(body, 0)?,
        number::<2>(body, 2)?,
        number::<2>(body, 4)?,
    );
    Some(format!("Sata({port:#x},{multiplier:#x},{lun:#x})"))
}

fn nvme(body: &[u8]) -> Option<String> {
    let (namespace, id) = (number::<4>(body, 0)?, number::<8>(body, 4)?);
    Some(format!("NVMe({namespace:#x},{id:016x})"))
}

fn bbs(body: &[u8]) -> Option<String> {
    let kind = number::<2>(body, 0)?;
    let name = body.get(4..)?.split(|byte| *byte == 0).next()?;
    Some(format!("BBS({kind:#x},{})", String::from_utf8_lossy(name)))
}

/// §10.3.5.1.
fn hard_drive(body: &[u8]) -> Option<String> {
    let (part, start, size) = (
        number::<4>(body, 0)?,
        number::<8>(body, 4)?,
        number::<8>(body, 12)?,
    );
    let signature = body.get(20..36)?;
    let signature = match number::<1>(body, 37)? {
        1 => format!("MBR,{:#x}", number::<4>(signature, 0)?),
        2 => format!("GPT,{}", guid(signature)?),
        _ => "NONE".to_owned(),
    };
    Some(format!("HD({part},{signature},{start:#x},{size:#x})"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::uuid;

    use super::text;
    use crate::boot::device_path::HardDrive;
    use crate::boot::device_path::PartitionSignature;
    use crate::boot::device_path::file_on_partition;

    #[test]
    fn a_file_on_a_partition() {
        let mut drive = HardDrive {
            number: 1,
            start_lba: 2048,
            size_lba: 1_048_576,
            signature: PartitionSignature::Guid(uuid!("12345678-9abc-def0-1122-334455667788")),
        };
        assert_eq!(
            text(&file_on_partition(&drive, "\\EFI\\debian\\shimx64.efi")),
            "HD(1,GPT,12345678-9abc-def0-1122-334455667788,0x800,0x100000)/\
             File(\\EFI\\debian\\shimx64.efi)"
        );
        drive.signature = PartitionSignature::Mbr(0xa1b2_c3d4);
        assert!(text(&file_on_partition(&drive, "\\x")).starts_with("HD(1,MBR,0xa1b2c3d4,"));
    }

    #[test]
    fn network_firmware_volumes_and_unknown_nodes() {
        let mut path = vec![2, 1, 12, 0];
        path.extend(0x0a03_41d0_u32.to_le_bytes());
        path.extend([0; 4]);
        path.extend([1, 1, 6, 0, 0, 3]);
        path.extend([3, 11, 37, 0, 0x52, 0x54, 0, 0x77, 1, 1]);
        path.extend([0; 26]);
        path.push(1);
        path.extend([3, 12, 4, 0, 0x7f, 1, 4, 0, 9, 9, 6, 0, 0xab, 0xcd]);
        path.extend([0x7f, 0xff, 4, 0, 1, 2, 3]);
        assert_eq!(
            text(&path),
            "PciRoot(0x0)/Pci(0x3,0x0)/MAC(525400770101,1)/IPv4(),Path(9,9,abcd)"
        );
        // A lone surrogate in a file's name is no character.
        assert_eq!(
            text(&[4, 4, 10, 0, 0, 0xd8, b'a', 0, 0, 0]),
            "File(\u{fffd}a)"
        );
        assert_eq!(text(&[4, 4, 40, 0, 1]), "…");
    }

    proptest! {
        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(text(&bytes).len() < 10_000);
        }
    }
}

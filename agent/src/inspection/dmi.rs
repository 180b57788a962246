//! Firmware, processors and memory as SMBIOS lists them (collector
//! `dmi-decode`). The keys and texts are dmidecode's, whose output
//! ironic-python-agent cuts into such an object; the tool itself is not needed.
//! The offsets are those of DSP0134 §7.1 (BIOS), §7.5 (processor), §7.17 (memory
//! array) and §7.18 (memory device).

use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use crate::inventory::smbios::Structure;

const BIOS: u8 = 0;
const PROCESSOR: u8 = 4;
const ARRAY: u8 = 16;
const DEVICE: u8 = 17;
const UNKNOWN: &str = "Unknown";

/// `dmi` of the document: `bios`, `cpu`, and `memory` with its `devices`.
pub(super) fn decode(table: &[Structure]) -> Value {
    let all = |kind: u8| table.iter().filter(move |one| one.kind == kind);
    let bios = all(BIOS).next_back().map(bios).unwrap_or_default();
    let cpus: Vec<Value> = all(PROCESSOR).map(|one| processor(one).into()).collect();
    let mut memory = all(ARRAY).next().map(array).unwrap_or_default();
    if all(ARRAY).next().is_some() {
        // Of several arrays the first is shown, with the slots of all.
        let slots = all(ARRAY).filter_map(|one| one.word(0x0D)).map(u64::from);
        memory.insert("Number Of Devices".to_owned(), slots.sum::<u64>().into());
    }
    let devices: Vec<Value> = all(DEVICE).map(|one| device(one).into()).collect();
    memory.insert("devices".to_owned(), devices.into());
    json!({"bios": bios, "cpu": cpus, "memory": memory})
}

/// Collects what is there under its label.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn of(one: &Structure) -> Self {
        let mut fields = Self::default();
        let handle = format!(
            "Handle 0x{:04X}, DMI type {}, {} bytes",
            one.handle,
            one.kind,
            one.length()
        );
        fields.put("Handle", Some(handle));
        fields
    }

    fn put(&mut self, label: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.0.insert(label.to_owned(), value.into());
        }
    }

    /// A string; where the structure reaches to it but names none, it is not
    /// specified.
    fn text(&mut self, label: &str, one: &Structure, at: usize) {
        if one.byte(at).is_some() {
            self.put(label, Some(one.text(at).unwrap_or("Not Specified")));
        }
    }
}

fn bios(one: &Structure) -> Map<String, Value> {
    let mut fields = Fields::of(one);
    fields.text("Vendor", one, 0x04);
    fields.text("Version", one, 0x05);
    fields.text("Release Date", one, 0x08);
    if let Some(segment) = one.word(0x06).filter(|segment| *segment != 0) {
        fields.put("Address", Some(format!("0x{segment:04X}0")));
        let size = (0x10000 - u32::from(segment)) << 4;
        let text = match size % 1024 {
            0 => format!("{} kB", size / 1024),
            _ => format!("{size} bytes"),
        };
        fields.put("Runtime Size", Some(text));
    }
    fields.put("ROM Size", rom_size(one));
    fields.put("Characteristics", characteristics(one));
    fields.put("BIOS Revision", release(one, 0x14));
    fields.put("Firmware Revision", release(one, 0x16));
    fields.0
}

/// In units of 64 KiB less one; 0xFF means that the extended size tells.
fn rom_size(one: &Structure) -> Option<String> {
    let (code, extended) = (one.byte(0x09)?, one.word(0x18));
    Some(match (code, extended) {
        (0xFF, Some(size)) => {
            let unit = ["MB", "GB"].get(usize::from(size >> 14)).unwrap_or(&"");
            format!("{} {unit}", size & 0x3FFF)
        }
        (0xFF, None) => "16 MB".to_owned(),
        (code, _) => match (u32::from(code) + 1) * 64 {
            kib if kib.is_multiple_of(1024) => format!("{} MB", kib / 1024),
            kib => format!("{kib} kB"),
        },
    })
}

/// §7.1.1 and §7.1.2; bits that nobody uses any more are left out.
fn characteristics(one: &Structure) -> Option<Vec<String>> {
    const BASIC: [(u32, &str); 16] = [
        (4, "ISA is supported"),
        (5, "MCA is supported"),
        (6, "EISA is supported"),
        (7, "PCI is supported"),
        (8, "PC Card (PCMCIA) is supported"),
        (9, "PNP is supported"),
        (10, "APM is supported"),
        (11, "BIOS is upgradeable"),
        (12, "BIOS shadowing is allowed"),
        (13, "VLB is supported"),
        (14, "ESCD support is available"),
        (15, "Boot from CD is supported"),
        (16, "Selectable boot is supported"),
        (17, "BIOS ROM is socketed"),
        (18, "Boot from PC Card (PCMCIA) is supported"),
        (19, "EDD is supported"),
    ];
    const FIRST: [&str; 8] = [
        "ACPI is supported",
        "USB legacy is supported",
        "AGP is supported",
        "I2O boot is supported",
        "LS-120 boot is supported",
        "ATAPI Zip drive boot is supported",
        "IEEE 1394 boot is supported",
        "Smart battery is supported",
    ];
    const SECOND: [&str; 6] = [
        "BIOS boot specification is supported",
        "Function key-initiated network boot is supported",
        "Targeted content distribution is supported",
        "UEFI is supported",
        "System is a virtual machine",
        "Manufacturing mode is supported",
    ];
    let basic = one.quad(0x0A)?;
    let mut found = Vec::new();
    if basic & 1 << 3 != 0 {
        found.push("BIOS characteristics not supported".to_owned());
    } else {
        let set = BASIC.iter().filter(|(bit, _)| basic & 1 << bit != 0);
        found.extend(set.map(|(_, text)| (*text).to_owned()));
    }
    for (at, names) in [(0x12, FIRST.as_slice()), (0x13, &SECOND)] {
        let byte = one.byte(at).unwrap_or(0);
        let set = names
            .iter()
            .enumerate()
            .filter(|(bit, _)| byte & 1 << bit != 0);
        found.extend(set.map(|(_, text)| (*text).to_owned()));
    }
    Some(found)
}

fn release(one: &Structure, at: usize) -> Option<String> {
    let (major, minor) = (one.byte(at)?, one.byte(at + 1)?);
    (major != 0xFF && minor != 0xFF).then(|| format!("{major}.{minor}"))
}

fn processor(one: &Structure) -> Map<String, Value> {
    let named = |at: usize, names: &[&'static str]| {
        let byte = usize::from(one.byte(at)?);
        let name = byte.checked_sub(1).and_then(|index| names.get(index));
        Some(name.map_or_else(|| format!("0x{byte:02X}"), |name| (*name).to_owned()))
    };
    let mut fields = Fields::of(one);
    fields.text("Socket Designation", one, 0x04);
    let types = [
        "Other",
        UNKNOWN,
        "Central Processor",
        "Math Processor",
        "DSP Processor",
        "Video Processor",
    ];
    fields.put("Type", named(0x05, &types));
    fields.put("Family", family(one));
    fields.text("Manufacturer", one, 0x07);
    let id = one.bytes(0x08..0x10).map(|bytes| {
        let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
        digits.join(" ")
    });
    fields.put("ID", id);
    fields.text("Version", one, 0x10);
    fields.put("Voltage", one.byte(0x11).map(voltage));
    for (label, at) in [
        ("External Clock", 0x12),
        ("Max Speed", 0x14),
        ("Current Speed", 0x16),
    ] {
        fields.put(label, one.word(at).map(|mhz| measure(mhz, "MHz")));
    }
    fields.put("Status", one.byte(0x18).map(status));
    for (label, at) in [
        ("L1 Cache Handle", 0x1A),
        ("L2 Cache Handle", 0x1C),
        ("L3 Cache Handle", 0x1E),
    ] {
        let handle = one.word(at).map(|handle| match handle {
            0xFFFF => "Not Provided".to_owned(),
            handle => format!("0x{handle:04X}"),
        });
        fields.put(label, handle);
    }
    fields.text("Serial Number", one, 0x20);
    fields.text("Asset Tag", one, 0x21);
    fields.text("Part Number", one, 0x22);
    for (label, short, long) in [
        ("Core Count", 0x23, 0x2A),
        ("Core Enabled", 0x24, 0x2C),
        ("Thread Count", 0x25, 0x2E),
    ] {
        // 255 means: see the longer field.
        let count = match one.byte(short) {
            Some(0xFF) => one.word(long),
            Some(0) | None => None,
            Some(count) => Some(u16::from(count)),
        };
        fields.put(label, count.map(|count| count.to_string()));
    }
    fields.0
}

/// §7.5.2, of which the families that servers have are named.
fn family(one: &Structure) -> Option<String> {
    let code = match one.byte(0x06)? {
        0xFE => one.word(0x28)?,
        code => u16::from(code),
    };
    let name = match code {
        0x01 => "Other",
        0x02 => UNKNOWN,
        0x28 => "Core Duo",
        0x6B => "Zen",
        0xB3 => "Xeon",
        0xBF => "Core 2 Duo",
        0xC6 => "Core i7",
        0xCD => "Core i5",
        0xCE => "Core i3",
        0xCF => "Core i9",
        0x100 => "ARMv7",
        0x101 => "ARMv8",
        0x102 => "ARMv9",
        code => return Some(format!("0x{code:02X}")),
    };
    Some(name.to_owned())
}

/// §7.5.4: tenths of a volt, or the classic three.
fn voltage(code: u8) -> String {
    if code & 0x80 != 0 {
        let tenths = code & 0x7F;
        return format!("{}.{} V", tenths / 10, tenths % 10);
    }
    let classic = [(1, "5.0 V"), (2, "3.3 V"), (4, "2.9 V")];
    let set: Vec<&str> = classic
        .iter()
        .filter(|(bit, _)| code & bit != 0)
        .map(|(_, text)| *text)
        .collect();
    match set.is_empty() {
        true => UNKNOWN.to_owned(),
        false => set.join(" "),
    }
}

/// §7.5, offset 18h: bit 6 tells whether the socket is used.
fn status(code: u8) -> String {
    if code & 1 << 6 == 0 {
        return "Unpopulated".to_owned();
    }
    let state = match code & 7 {
        0 => UNKNOWN,
        1 => "Enabled",
        2 => "Disabled By User",
        3 => "Disabled By BIOS",
        4 => "Idle",
        _ => "Other",
    };
    format!("Populated, {state}")
}

fn array(one: &Structure) -> Map<String, Value> {
    let named = |at: usize, names: &[&'static str]| {
        let byte = usize::from(one.byte(at)?);
        let name = byte.checked_sub(1).and_then(|index| names.get(index));
        Some(name.map_or_else(|| format!("0x{byte:02X}"), |name| (*name).to_owned()))
    };
    let mut fields = Fields::default();
    let places = ["Other", UNKNOWN, "System Board Or Motherboard"];
    fields.put("Location", named(0x04, &places));
    let uses = [
        "Other",
        UNKNOWN,
        "System Memory",
        "Video Memory",
        "Flash Memory",
        "Non-volatile RAM",
        "Cache Memory",
    ];
    fields.put("Use", named(0x05, &uses));
    let corrections = [
        "Other",
        UNKNOWN,
        "None",
        "Parity",
        "Single-bit ECC",
        "Multi-bit ECC",
        "CRC",
    ];
    fields.put("Error Correction Type", named(0x06, &corrections));
    let capacity = match one.double(0x07) {
        Some(0x8000_0000) => one.quad(0x0F),
        kib => kib.map(|kib| u64::from(kib) << 10),
    };
    fields.put("Maximum Capacity", capacity.map(size));
    fields.put("Error Information Handle", one.word(0x0B).map(error_handle));
    fields.0
}

fn device(one: &Structure) -> Map<String, Value> {
    let mut fields = Fields::of(one);
    let array = one.word(0x04).map(|handle| format!("0x{handle:04X}"));
    fields.put("Array Handle", array);
    fields.put("Error Information Handle", one.word(0x06).map(error_handle));
    for (label, at) in [("Total Width", 0x08), ("Data Width", 0x0A)] {
        let width = one.word(at).map(|bits| match bits {
            0xFFFF => UNKNOWN.to_owned(),
            bits => measure(bits, "bits"),
        });
        fields.put(label, width);
    }
    let bytes = one.word(0x0C).map(|code| match code {
        0 => "No Module Installed".to_owned(),
        0xFFFF => UNKNOWN.to_owned(),
        0x7FFF => size(u64::from(one.double(0x1C).unwrap_or(0) & 0x7FFF_FFFF) << 20),
        code if code & 0x8000 != 0 => size(u64::from(code & 0x7FFF) << 10),
        code => size(u64::from(code) << 20),
    });
    fields.put("Size", bytes);
    fields.put("Form Factor", one.byte(0x0E).map(form_factor));
    let set = one.byte(0x0F).map(|set| match set {
        0 => "None".to_owned(),
        0xFF => UNKNOWN.to_owned(),
        set => set.to_string(),
    });
    fields.put("Set", set);
    fields.text("Locator", one, 0x10);
    fields.text("Bank Locator", one, 0x11);
    fields.put("Type", one.byte(0x12).map(memory_type));
    fields.put("Speed", one.word(0x15).map(|speed| measure(speed, "MT/s")));
    fields.text("Manufacturer", one, 0x17);
    fields.text("Serial Number", one, 0x18);
    fields.text("Asset Tag", one, 0x19);
    fields.text("Part Number", one, 0x1A);
    let rank = one.byte(0x1B).map(|byte| match byte & 0x0F {
        0 => UNKNOWN.to_owned(),
        rank => rank.to_string(),
    });
    fields.put("Rank", rank);
    let configured = one.word(0x20).map(|speed| measure(speed, "MT/s"));
    fields.put("Configured Memory Speed", configured);
    fields.0
}

/// §7.18.1, those that are still made.
fn form_factor(code: u8) -> String {
    let name = match code {
        0x01 => "Other",
        0x02 => UNKNOWN,
        0x05 => "Chip",
        0x09 => "DIMM",
        0x0B => "Row Of Chips",
        0x0D => "SODIMM",
        0x0F => "FB-DIMM",
        0x10 => "Die",
        code => return format!("0x{code:02X}"),
    };
    name.to_owned()
}

/// §7.18.2, those that servers have.
fn memory_type(code: u8) -> String {
    let name = match code {
        0x01 => "Other",
        0x02 => UNKNOWN,
        0x07 => "RAM",
        0x0F => "SDRAM",
        0x12 => "DDR",
        0x13 => "DDR2",
        0x18 => "DDR3",
        0x1A => "DDR4",
        0x1E => "LPDDR4",
        0x1F => "Logical non-volatile device",
        0x20 => "HBM",
        0x21 => "HBM2",
        0x22 => "DDR5",
        0x23 => "LPDDR5",
        code => return format!("0x{code:02X}"),
    };
    name.to_owned()
}

fn measure(number: u16, unit: &str) -> String {
    match number {
        0 => UNKNOWN.to_owned(),
        number => format!("{number} {unit}"),
    }
}

fn error_handle(handle: u16) -> String {
    match handle {
        0xFFFE => "Not Provided".to_owned(),
        0xFFFF => "No Error".to_owned(),
        handle => format!("0x{handle:04X}"),
    }
}

/// Bytes in the largest unit that leaves no rest.
fn size(mut bytes: u64) -> String {
    let mut unit = "bytes";
    for larger in ["kB", "MB", "GB", "TB"] {
        if bytes == 0 || !bytes.is_multiple_of(1024) {
            break;
        }
        bytes /= 1024;
        unit = larger;
    }
    format!("{bytes} {unit}")
}

#[cfg(test)]
#[path = "dmi_tests.rs"]
mod tests;

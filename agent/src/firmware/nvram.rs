//! `clean_uefi_nvram`: boot entries of systems that are gone. An entry is
//! removed when a pattern is found in its device path; by default those of
//! partitions and of the loaders that distributions install. All other
//! variables stay as they are, byte for byte, those that nobody understands
//! among them.

use std::path::Path;

use regex_lite::Regex;
use regex_lite::RegexBuilder;
use serde_json::Value;
use tracing::info;

use super::FirmwareError;
use super::path_text;
use crate::boot::efivars::EfiVars;
use crate::boot::entries;
use crate::boot::entries::Entry;

/// There on machines that were started by UEFI.
const UEFI: &str = "/sys/firmware/efi";
/// Patterns when none are given, as of Ironic's agent.
const DEFAULT: [&str; 3] = [r"^HD\(", r"shim.*\.efi", r"grub.*\.efi"];
/// Most patterns, and bytes of one.
const PATTERNS: usize = 64;
const LONGEST: usize = 1024;

/// Whether the machine was started by UEFI: there are no boot entries
/// otherwise.
pub(crate) fn is_uefi() -> bool {
    Path::new(UEFI).exists()
}

/// The patterns of the step's argument `match_patterns`.
pub(crate) fn patterns(given: Option<&Value>) -> Result<Vec<Regex>, FirmwareError> {
    let wrong = |text: String| FirmwareError::Arguments(format!("match_patterns: {text}"));
    let texts: Vec<String> = match given {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(list)) if list.len() <= PATTERNS => list
            .iter()
            .map(|item| match item.as_str() {
                Some(text) if !text.is_empty() && text.len() <= LONGEST => Ok(text.to_owned()),
                _ => Err(wrong(format!(
                    "expected regular expressions of 1 to {LONGEST} bytes, found {item}"
                ))),
            })
            .collect::<Result<_, _>>()?,
        Some(other) => {
            return Err(wrong(format!(
                "expected a list of at most {PATTERNS} regular expressions, found {other}"
            )));
        }
    };
    let compile = |text: &str| {
        RegexBuilder::new(text)
            .case_insensitive(true)
            .build()
            .map_err(|error| wrong(format!("{text:?} is no regular expression: {error}")))
    };
    if texts.is_empty() {
        return DEFAULT.iter().map(|text| compile(text)).collect();
    }
    texts.iter().map(|text| compile(text)).collect()
}

/// Removes the entries in whose device path a pattern is found, from
/// `BootOrder` and `BootNext` too, and says what was done.
pub(crate) fn clean(vars: &EfiVars, patterns: &[Regex]) -> Result<String, FirmwareError> {
    if !vars.available() {
        return Err(FirmwareError::NoVariables);
    }
    let (gone, kept): (Vec<Entry>, Vec<Entry>) = entries::list(vars)?
        .into_iter()
        .partition(|entry| matches(entry, patterns));
    for entry in &kept {
        info!("clean_uefi_nvram: {} stays", shown(entry));
    }
    for entry in &gone {
        entries::remove(vars, entry.number)?;
        let name = entries::variable(entry.number);
        if vars.read(&name)?.is_some() {
            return Err(FirmwareError::Kept { name });
        }
        info!("clean_uefi_nvram: {} removed", shown(entry));
    }
    let names: Vec<String> = gone.iter().map(shown).collect();
    Ok(match gone.len() {
        0 => format!("none of {} boot entries matches", kept.len()),
        many => format!(
            "{many} of {} boot entries removed: {}",
            many + kept.len(),
            names.join("; ")
        ),
    })
}

fn matches(entry: &Entry, patterns: &[Regex]) -> bool {
    let path = path_text::text(&entry.option.device_paths);
    patterns.iter().any(|pattern| pattern.is_match(&path))
}

fn shown(entry: &Entry) -> String {
    format!(
        "{} {:?} {}",
        entries::variable(entry.number),
        entry.option.description,
        path_text::text(&entry.option.device_paths)
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;

    use serde_json::Value;
    use serde_json::json;
    use uuid::uuid;

    use super::clean;
    use super::patterns;
    use crate::boot::device_path::HardDrive;
    use crate::boot::device_path::PartitionSignature;
    use crate::boot::device_path::file_on_partition;
    use crate::boot::efivars::EfiVars;
    use crate::boot::load_option::LoadOption;

    const GLOBAL: &str = "8be4df61-93ca-11d2-aa0d-00e098032b8c";

    fn on_disk(file: &str) -> Vec<u8> {
        let drive = HardDrive {
            number: 1,
            start_lba: 2048,
            size_lba: 4096,
            signature: PartitionSignature::Guid(uuid!("12345678-9abc-def0-1122-334455667788")),
        };
        file_on_partition(&drive, file)
    }

    /// PciRoot(0x0)/Pci(0x3,0x0) and a file on whatever is there.
    fn on_pci(file: &str) -> Vec<u8> {
        let mut path = vec![2, 1, 12, 0];
        path.extend(0x0a03_41d0_u32.to_le_bytes());
        path.extend([0, 0, 0, 0, 1, 1, 6, 0, 0, 3]);
        // The file's node and the end, without the partition's.
        path.extend(&on_disk(file)[42..]);
        path
    }

    fn put(vars: &EfiVars, number: u16, description: &str, path: Vec<u8>) {
        let bytes = LoadOption::new(description, path).encode();
        vars.write(&format!("Boot{number:04X}"), &bytes).unwrap();
    }

    fn all(folder: &Path) -> BTreeMap<String, Vec<u8>> {
        fs::read_dir(folder)
            .unwrap()
            .flatten()
            .map(|entry| {
                let name = entry.file_name().to_string_lossy().into_owned();
                (name, fs::read(entry.path()).unwrap())
            })
            .collect()
    }

    fn run(folder: &Path, given: Value) -> String {
        let patterns = patterns(Some(&given)).unwrap();
        clean(&EfiVars::new(folder), &patterns).unwrap()
    }

    #[test]
    fn entries_of_disks_and_distribution_loaders_go() {
        let folder = tempfile::tempdir().unwrap();
        let vars = EfiVars::new(folder.path());
        put(
            &vars,
            0,
            "UiApp",
            vec![
                4, 7, 20, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 0x7f, 0xff, 4,
                0,
            ],
        );
        put(&vars, 1, "debian", on_disk("\\EFI\\debian\\shimx64.efi"));
        put(&vars, 2, "UEFI PXEv4", on_pci("\\x"));
        put(&vars, 0xA, "Old", on_pci("\\EFI\\x\\GRUBx64.EFI"));
        vars.write("BootOrder", &[1, 0, 2, 0, 0xA, 0, 0, 0, 0x34, 0x12, 9])
            .unwrap();
        vars.write("BootNext", &[0xA, 0]).unwrap();
        let said = run(folder.path(), Value::Null);
        assert!(
            said.starts_with("2 of 4 boot entries removed: Boot0001 \"debian\" HD(1,GPT,"),
            "{said}"
        );
        let left = all(folder.path());
        let names: Vec<&str> = left
            .keys()
            .map(|name| name.split('-').next().unwrap())
            .collect();
        assert_eq!(names, ["Boot0000", "Boot0002", "BootOrder"]);
        // An entry that is not there, and a byte too many, are not ours.
        assert_eq!(
            left[&format!("BootOrder-{GLOBAL}")],
            [7, 0, 0, 0, 2, 0, 0, 0, 0x34, 0x12, 9]
        );
        assert_eq!(
            run(folder.path(), json!([])),
            "none of 2 boot entries matches"
        );
    }

    #[test]
    fn utf16_names_and_foreign_bytes_are_kept_byte_for_byte() {
        let folder = tempfile::tempdir().unwrap();
        let vars = EfiVars::new(folder.path());
        put(&vars, 1, "Fedora", on_disk("\\EFI\\fedora\\shimx64.efi"));
        put(&vars, 2, "Ubuntu 起動 🚀", on_pci("\\EFI\\日本\\x.efi"));
        // A name with half a character, vendor data behind the path, and an
        // entry that is none.
        let mut odd = LoadOption::new("ab", on_pci("\\y.efi")).encode();
        odd[6..8].copy_from_slice(&[0x00, 0xd8]);
        odd.extend([0xde, 0xad, 0, 0xff]);
        vars.write("Boot0003", &odd).unwrap();
        vars.write("Boot0004", b"junk").unwrap();
        vars.write("BootOrder", &[1, 0, 2, 0, 3, 0, 4, 0]).unwrap();
        for (name, bytes) in [
            (
                "dbx-d719b2cb-3d3a-4596-a3bc-dad00e67656f",
                &[7u8, 0, 0, 0, 0xff, 0xfe][..],
            ),
            (
                "Boot0001-00000000-0000-0000-0000-000000000001",
                &[3, 0, 0, 0, 1],
            ),
            (
                "Key0000-8be4df61-93ca-11d2-aa0d-00e098032b8c",
                &[7, 0, 0, 0, 9, 9],
            ),
        ] {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        let mut expected = all(folder.path());
        expected.remove(&format!("Boot0001-{GLOBAL}"));
        expected.insert(
            format!("BootOrder-{GLOBAL}"),
            vec![7, 0, 0, 0, 2, 0, 3, 0, 4, 0],
        );
        let said = run(folder.path(), Value::Null);
        assert!(
            said.starts_with("1 of 3 boot entries removed: Boot0001"),
            "{said}"
        );
        assert_eq!(all(folder.path()), expected);
    }

    #[test]
    fn patterns_of_the_step_take_the_place_of_the_usual_ones() {
        let folder = tempfile::tempdir().unwrap();
        let vars = EfiVars::new(folder.path());
        put(&vars, 1, "debian", on_disk("\\EFI\\debian\\shimx64.efi"));
        put(&vars, 2, "own", on_pci("\\EFI\\Acme\\Boot.efi"));
        let said = run(folder.path(), json!([r"\\efi\\acme\\"]));
        assert!(said.contains("Boot0002 \"own\""), "{said}");
        assert!(vars.read("Boot0001").unwrap().is_some());
        for (wrong, expected) in [
            (json!("shim"), "expected a list"),
            (json!([1]), "found 1"),
            (json!([""]), "of 1 to 1024 bytes"),
            (json!(["("]), "\"(\" is no regular expression"),
        ] {
            let error = patterns(Some(&wrong)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_machine_without_variables_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let usual = patterns(None).unwrap();
        let error = clean(&EfiVars::new(folder.path()), &usual).unwrap_err();
        assert!(error.to_string().contains("efivarfs"), "{error}");
    }
}

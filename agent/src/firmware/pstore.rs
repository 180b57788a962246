//! `erase_pstore`: the kernel's crash records of earlier boots, which it keeps
//! in the firmware's memory (ACPI ERST, EFI variables) and shows as files
//! (Linux, Documentation/ABI/testing/pstore). Deleting a file deletes the record.

use std::fs;
use std::io;
use std::path::Path;

use nix::errno::Errno;
use nix::mount::MsFlags;
use nix::mount::mount;
use tracing::info;

use super::FirmwareError;

/// Where the kernel wants it mounted.
pub(crate) const FOLDER: &str = "/sys/fs/pstore";

/// Mounts the records' filesystem; one that is mounted already is well. `false`
/// on a kernel without.
pub(crate) fn mount_records() -> Result<bool, FirmwareError> {
    if !Path::new(FOLDER).is_dir() {
        return Ok(false);
    }
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC | MsFlags::MS_NODEV;
    match mount(Some("pstore"), FOLDER, Some("pstore"), flags, None::<&str>) {
        Ok(()) | Err(Errno::EBUSY) => Ok(true),
        // The kernel has the folder, and nowhere to keep records.
        Err(Errno::ENODEV) => Ok(false),
        Err(error) => Err(FirmwareError::Record {
            action: "mount the filesystem pstore on",
            path: FOLDER.into(),
            source: error.into(),
        }),
    }
}

/// Deletes all records in `folder` and says how many there were. Those that
/// cannot be deleted do not keep the others.
pub(crate) fn erase(folder: &Path) -> Result<String, FirmwareError> {
    let names = names(folder)?;
    let mut left = Vec::new();
    for name in &names {
        match fs::remove_file(folder.join(name)) {
            Ok(()) => info!("erase_pstore: {name} deleted"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => left.push(format!("{name}: {error}")),
        }
    }
    // Some backends say yes and keep it.
    for name in self::names(folder)? {
        if names.contains(&name) && !left.iter().any(|line| line.starts_with(&name)) {
            left.push(format!("{name}: still there after it was deleted"));
        }
    }
    if left.is_empty() {
        return Ok(match names.len() {
            0 => "the kernel keeps no crash records".to_owned(),
            1 => "1 crash record deleted".to_owned(),
            many => format!("{many} crash records deleted"),
        });
    }
    Err(FirmwareError::Records {
        folder: folder.to_owned(),
        found: names.len(),
        left,
    })
}

fn names(folder: &Path) -> Result<Vec<String>, FirmwareError> {
    let failed = |source| FirmwareError::Record {
        action: "list",
        path: folder.to_owned(),
        source,
    };
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        // There are only files; anything else is not ours.
        if entry.file_type().map_err(failed)?.is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::FirmwareError;
    use super::erase;

    #[test]
    fn every_record_goes_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["dmesg-efi-165467", "dmesg-erst-1", "console-ramoops-0"] {
            fs::write(folder.path().join(name), "Oops").unwrap();
        }
        fs::create_dir(folder.path().join("not-a-record")).unwrap();
        assert_eq!(erase(folder.path()).unwrap(), "3 crash records deleted");
        assert_eq!(
            erase(folder.path()).unwrap(),
            "the kernel keeps no crash records"
        );
        assert!(folder.path().join("not-a-record").is_dir());
    }

    #[test]
    fn records_that_stay_are_an_error_with_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let absent = folder.path().join("none");
        assert!(matches!(
            erase(&absent).unwrap_err(),
            FirmwareError::Record { action: "list", .. }
        ));
        let error = FirmwareError::Records {
            folder: "/sys/fs/pstore".into(),
            found: 3,
            left: vec!["dmesg-efi-1: Input/output error".to_owned()],
        };
        assert_eq!(
            error.to_string(),
            "1 of 3 crash records in /sys/fs/pstore could not be deleted: dmesg-efi-1: \
             Input/output error"
        );
    }
}

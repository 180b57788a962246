//! Which files of a folder are run.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use nix::unistd::Uid;

/// Whether a file is meant to be run: an executable, neither hidden nor what an
/// editor leaves behind. `about` is what a link leads to.
pub fn is_offered(name: &OsStr, about: &Metadata) -> bool {
    let name = name.to_string_lossy();
    let hidden = name.starts_with('.') || name.ends_with('~');
    !hidden && about.is_file() && about.mode() & 0o111 != 0
}

/// Refuses a file that others than root and ourselves may have written: it would
/// run with our rights.
///
/// # Errors
/// What is wrong with its owner (`owner`) or its `mode`, in one clause.
pub fn trusted(owner: u32, mode: u32) -> Result<(), String> {
    if mode & 0o022 != 0 {
        return Err(format!(
            "its mode {:o} lets others write it; chmod go-w",
            mode & 0o7777
        ));
    }
    let me = Uid::effective().as_raw();
    if owner != 0 && owner != me {
        return Err(format!(
            "it belongs to user {owner}, neither to root nor to user {me}, who would run it"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::is_offered;
    use super::trusted;

    #[test]
    fn executables_are_offered() {
        let folder = tempfile::tempdir().unwrap();
        for (name, mode, offered) in [
            ("fine", 0o755, true),
            ("open", 0o777, true),
            ("data", 0o644, false),
            (".hidden", 0o755, false),
            ("fine~", 0o755, false),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            let about = std::fs::metadata(&path).unwrap();
            assert_eq!(is_offered(name.as_ref(), &about), offered, "{name}");
        }
        let about = std::fs::metadata(folder.path()).unwrap();
        assert!(!is_offered("folder".as_ref(), &about));
    }

    #[test]
    fn only_root_and_ourselves_are_trusted() {
        let me = nix::unistd::Uid::effective().as_raw();
        assert_eq!(trusted(0, 0o100_755), Ok(()));
        assert_eq!(trusted(me, 0o100_700), Ok(()));
        assert!(trusted(me, 0o100_777).unwrap_err().contains("777"));
        assert!(trusted(me, 0o100_775).unwrap_err().contains("775"));
        assert!(trusted(me + 1, 0o100_755).unwrap_err().contains("belongs"));
    }
}

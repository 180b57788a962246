//! The files of the folder of hardware managers.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;

use nix::unistd::Uid;

/// Most managers of a ramdisk.
const MOST: usize = 64;

/// The executables of a folder by name, without hidden files and what editors
/// leave behind. A file that others than root and ourselves may have written is
/// left out: it would run with our rights.
pub(super) fn list(folder: &Path) -> Vec<PathBuf> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            if error.kind() != std::io::ErrorKind::NotFound {
                let folder = folder.display();
                tracing::warn!(%error, "hardware managers in {folder} are not read");
            }
            return Vec::new();
        }
    };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| is_manager(path))
        .collect();
    found.sort_unstable();
    if found.len() > MOST {
        tracing::warn!("more than {MOST} hardware managers, the others are left out");
        found.truncate(MOST);
    }
    found
}

fn is_manager(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name.starts_with('.') || name.ends_with('~') {
        return false;
    }
    // Also behind a link.
    let Ok(about) = fs::metadata(path) else {
        return false;
    };
    if !about.is_file() || about.mode() & 0o111 == 0 {
        return false;
    }
    let me = Uid::effective().as_raw();
    let foreign = about.uid() != 0 && about.uid() != me;
    if foreign || about.mode() & 0o022 != 0 {
        tracing::warn!(
            "hardware manager {} is left out: owner {} and mode {:o} let others than root change \
             it",
            path.display(),
            about.uid(),
            about.mode() & 0o7777
        );
        return false;
    }
    true
}

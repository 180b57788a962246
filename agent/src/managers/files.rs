//! The files of the folder of hardware managers.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;

use wrought_plugin::is_offered;
use wrought_plugin::trusted;

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
    // Also behind a link.
    let Ok(about) = fs::metadata(path) else {
        return false;
    };
    if !is_offered(path.file_name().unwrap_or_default(), &about) {
        return false;
    }
    let trusted = trusted(about.uid(), about.mode());
    if let Err(problem) = &trusted {
        let path = path.display();
        tracing::warn!("hardware manager {path} is left out: {problem}");
    }
    trusted.is_ok()
}

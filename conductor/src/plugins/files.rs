//! The files of the plug-in folder.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;

use wrought_plugin::is_offered;
use wrought_plugin::trusted;

/// Most files of the folder that are looked at.
const MOST: usize = 256;

/// What a file looked like; another stamp is another file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp {
    mode: u32,
    owner: u32,
    inode: u64,
    length: u64,
    changed: (i64, i64),
}

impl Stamp {
    /// Refuses a file that others than root and ourselves may have written: it
    /// would run with our rights.
    pub(super) fn check(&self) -> Result<(), String> {
        trusted(self.owner, self.mode)
    }
}

/// The executables of a folder by name, without hidden files and what editors
/// leave behind. A folder that is not there has none.
pub(super) async fn list(folder: &Path) -> Vec<(PathBuf, Stamp)> {
    let mut found = Vec::new();
    let mut entries = match tokio::fs::read_dir(folder).await {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return found,
        Err(error) => {
            tracing::warn!(folder = %folder.display(), err = %error, "step plug-ins not read");
            return found;
        }
    };
    while let Ok(Some(entry)) = entries.next_entry().await {
        let path = entry.path();
        // Also behind a link.
        let Ok(about) = tokio::fs::metadata(&path).await else {
            continue;
        };
        if !is_offered(&entry.file_name(), &about) {
            continue;
        }
        if found.len() == MOST {
            tracing::warn!(folder = %folder.display(), "more than {MOST} step plug-ins");
            break;
        }
        let stamp = Stamp {
            mode: about.mode(),
            owner: about.uid(),
            inode: about.ino(),
            length: about.len(),
            changed: (about.ctime(), about.ctime_nsec()),
        };
        found.push((path, stamp));
    }
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    found
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::list;

    #[tokio::test]
    async fn only_executables_that_nobody_else_may_write() {
        let folder = tempfile::tempdir().unwrap();
        for (name, mode) in [
            ("b-fine", 0o755),
            ("a-open", 0o777),
            ("c-data", 0o644),
            (".hidden", 0o755),
            ("b-fine~", 0o755),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        }
        let found = list(folder.path()).await;
        let names: Vec<_> = found
            .iter()
            .map(|(path, stamp)| (path.file_name().unwrap().to_str().unwrap(), stamp.check()))
            .collect();
        assert_eq!(names.len(), 2);
        assert_eq!(names[1], ("b-fine", Ok(())));
        assert_eq!(names[0].0, "a-open");
        assert!(names[0].1.as_ref().unwrap_err().contains("777"));
        assert!(list(&folder.path().join("none")).await.is_empty());
    }
}

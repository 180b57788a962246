//! Files and folders that only their owner may read.

use std::fs::DirBuilder;
use std::fs::File;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Context;
use anyhow::Result;

/// Makes the folder (mode 0700) with its parents unless it is there; warns
/// when others may look into one that is.
pub(crate) fn folder(path: &Path) -> Result<()> {
    if path.is_dir() {
        let mode = path
            .metadata()
            .with_context(|| format!("looking at {}", path.display()))?;
        if mode.permissions().mode() & 0o077 != 0 {
            tracing::warn!(
                "{} can be read by other users: chmod 0700 it, unless that is meant",
                path.display()
            );
        }
        return Ok(());
    }
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .with_context(|| format!("making the folder {}", path.display()))
}

/// Writes the file (mode 0600) in one step: after a crash it has its old
/// content or all of the new.
pub(crate) fn write(path: &Path, content: &str) -> Result<()> {
    let folder = path.parent().context("a file needs a folder")?;
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".{}", std::process::id()));
    let part = Path::new(&part);
    let written = write_new(part, content).and_then(|()| std::fs::rename(part, path));
    if written.is_err() {
        // It may not be there at all.
        std::fs::remove_file(part).ok();
    }
    written
        .and_then(|()| File::open(folder)?.sync_all())
        .with_context(|| format!("writing {}", path.display()))
}

fn write_new(path: &Path, content: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()
}

/// Reads a small text file; larger than `limit` bytes is an error.
pub(crate) fn read(path: &Path, limit: u64) -> Result<String> {
    use std::io::Read;
    let shown = path.display();
    let file = File::open(path).with_context(|| format!("opening {shown}"))?;
    let mut text = String::new();
    file.take(limit + 1)
        .read_to_string(&mut text)
        .with_context(|| format!("reading {shown}"))?;
    anyhow::ensure!(
        u64::try_from(text.len()).is_ok_and(|length| length <= limit),
        "{shown} is larger than {limit} bytes"
    );
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn private_bounded_and_whole() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a/b");
        super::folder(&folder).unwrap();
        assert_eq!(
            folder.metadata().unwrap().permissions().mode() & 0o777,
            0o700
        );
        let file = folder.join("f");
        super::write(&file, "old").unwrap();
        super::write(&file, "new").unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(super::read(&file, 3).unwrap(), "new");
        let error = super::read(&file, 2).unwrap_err().to_string();
        assert!(error.ends_with("is larger than 2 bytes"), "{error}");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    }
}

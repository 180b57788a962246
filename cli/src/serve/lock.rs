//! One server per database and state folder.

use std::fs::File;
use std::fs::OpenOptions;
use std::fs::TryLockError;
use std::io::Read;
use std::io::Seek;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;

/// Locks that end with the process, however it ends.
#[derive(Debug)]
pub(crate) struct Locks {
    _files: Vec<File>,
}

impl Locks {
    /// Takes the lock of the state folder and that of an SQLite database
    /// elsewhere.
    pub(crate) fn take(state_dir: &Path, database: &str) -> Result<Self> {
        let mut files = vec![take(&state_dir.join("wrought.lock"))?];
        let path = database
            .strip_prefix("sqlite:")
            .filter(|path| *path != ":memory:");
        if let Some(path) = path {
            let path = path.strip_prefix("//").unwrap_or(path);
            files.push(take(&PathBuf::from(format!("{path}.lock")))?);
        }
        Ok(Self { _files: files })
    }
}

fn take(path: &Path) -> Result<File> {
    let shown = path.display();
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("opening the lock file {shown}"))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            (&file).take(16).read_to_string(&mut pid).ok();
            anyhow::bail!(
                "another server (process {}) holds {shown}: a state folder and an SQLite database \
                 serve one process of a kind; stop that one, or give this one another --state-dir \
                 and --database",
                pid.trim()
            );
        }
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("locking {shown}"));
        }
    }
    file.set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .with_context(|| format!("writing {shown}"))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::Locks;

    #[test]
    fn second_server_is_told_who_is_first() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let database = format!("sqlite:{}", a.path().join("wrought.db").display());
        let held = Locks::take(a.path(), &database).unwrap();
        for folder in [a.path(), b.path()] {
            let error = Locks::take(folder, &database).unwrap_err().to_string();
            assert!(error.contains(&std::process::id().to_string()), "{error}");
        }
        drop(held);
        Locks::take(b.path(), &database).unwrap();
    }
}

//! One process for each SQLite file: a lock of the operating system, which ends
//! with the process however it ends.

use std::fs::File;
use std::fs::OpenOptions;
use std::fs::TryLockError;
use std::io::Read;
use std::io::Seek;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;

use crate::Error;
use crate::Result;

/// The right to work with an SQLite file, until it is dropped.
#[derive(Debug)]
pub(crate) struct Claim(#[expect(dead_code, reason = "the open file is the lock")] File);

impl Claim {
    /// Takes it for the file, which exists, by whatever path. Fails with
    /// [`Error::InUseBy`].
    pub(crate) fn take(database: &Path) -> Result<Self> {
        let real = database.canonicalize();
        let real = real.map_err(|source| file(database, source))?;
        let mut path = real.into_os_string();
        path.push("-lock");
        let path = PathBuf::from(path);
        let failed = |source| file(&path, source);
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut process = String::new();
                (&lock).take(16).read_to_string(&mut process).ok();
                return Err(Error::InUseBy {
                    path: database.display().to_string(),
                    process: process.trim().to_owned(),
                });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        lock.set_len(0)
            .and_then(|()| lock.rewind())
            .and_then(|()| writeln!(lock, "{}", std::process::id()))
            .map_err(failed)?;
        Ok(Self(lock))
    }
}

fn file(path: &Path, source: std::io::Error) -> Error {
    Error::File {
        path: path.display().to_string(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use crate::Error;
    use crate::Store;

    #[tokio::test]
    async fn a_second_process_on_one_file_is_refused_by_any_path() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("w.db"), dir.path().join("link.db"));
        let url = |path: &std::path::Path| format!("sqlite:{}", path.display());
        let first = Store::open(&url(&path)).await.unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        for path in [&path, &link] {
            let refused = Store::open(&url(path)).await.unwrap_err();
            assert!(matches!(refused, Error::InUseBy { .. }), "{refused}");
            let text = refused.to_string();
            assert!(text.contains(&std::process::id().to_string()), "{text}");
            assert!(text.contains("PostgreSQL"), "{text}");
        }
        first.close().await;
        let second = Store::open(&url(&link)).await.unwrap();
        // Also when nobody closes it.
        drop(second);
        let third = loop {
            match Store::open(&url(&path)).await {
                Ok(store) => break store,
                Err(Error::InUseBy { .. }) => tokio::task::yield_now().await,
                Err(error) => panic!("{error}"),
            }
        };
        third.close().await;
    }
}

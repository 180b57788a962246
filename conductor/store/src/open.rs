//! Opening the database: URL, file, connections, migrations.

use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::sqlite::SqliteJournalMode;
use sqlx::sqlite::SqlitePoolOptions;
use sqlx::sqlite::SqliteSynchronous;

use crate::Error;
use crate::Inner;
use crate::Result;
use crate::Store;
use crate::migrate;
use crate::writer::Writer;

/// Reading connections at most.
const READERS: u32 = 4;
/// How long SQLite waits for a lock of another process (a backup, a shell).
const BUSY: Duration = Duration::from_secs(30);

/// Where the database is.
enum Place {
    Memory,
    File(PathBuf),
}

impl Store {
    /// Opens the database and brings its schema up to date. `sqlite:PATH`
    /// (the file is made with mode 0600 when it is missing) or
    /// `sqlite::memory:` (gone with the last handle; for tests).
    pub async fn open(url: &str) -> Result<Self> {
        let place = place(url)?;
        let options = SqliteConnectOptions::new()
            .foreign_keys(true)
            .busy_timeout(BUSY)
            .disable_statement_logging();
        let (options, readers) = match &place {
            Place::Memory => (options.in_memory(true), None),
            Place::File(path) => {
                make_file(path)?;
                let options = options.filename(path);
                let readers = SqlitePoolOptions::new()
                    .max_connections(READERS)
                    .test_before_acquire(false)
                    .max_lifetime(None)
                    .connect_lazy_with(options.clone().read_only(true));
                let writer = options
                    .journal_mode(SqliteJournalMode::Wal)
                    .synchronous(SqliteSynchronous::Full);
                (writer, Some(readers))
            }
        };
        let mut connection = options.connect().await?;
        migrate::run(&mut connection).await?;
        let writer = Writer::start(connection);
        Ok(Self {
            inner: Arc::new(Inner { writer, readers }),
        })
    }
}

/// Reads the URL.
fn place(url: &str) -> Result<Place> {
    let bad = |reason| Error::BadUrl {
        url: without_password(url),
        reason,
    };
    let Some(rest) = url.strip_prefix("sqlite:") else {
        return Err(bad("only sqlite:PATH is built in"));
    };
    let path = rest.strip_prefix("//").unwrap_or(rest);
    match path {
        "" => Err(bad("the path is missing")),
        ":memory:" => Ok(Place::Memory),
        path if path.contains('?') => Err(bad("parameters after '?' are not supported")),
        path => Ok(Place::File(PathBuf::from(path))),
    }
}

/// The URL with what may be a password cut out.
fn without_password(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://******@{host}"),
        _ => url.to_owned(),
    }
}

/// Makes an empty file that only its owner may read: it will hold passwords.
fn make_file(path: &Path) -> Result<()> {
    let made = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    match made {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(source) => Err(Error::File {
            path: path.display().to_string(),
            source,
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::without_password;
    use crate::Error;
    use crate::Store;

    #[tokio::test]
    async fn file_is_private_and_opens_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("w.db");
        let url = format!("sqlite:{}", path.display());
        for _ in 0..2 {
            let store = Store::open(&url).await.unwrap();
            assert!(store.conductors().await.unwrap().is_empty());
            let settings = store
                .write(|db| {
                    Box::pin(async move {
                        let journal: String = sqlx::query_scalar("PRAGMA journal_mode")
                            .fetch_one(&mut *db)
                            .await?;
                        let synchronous: i64 = sqlx::query_scalar("PRAGMA synchronous")
                            .fetch_one(&mut *db)
                            .await?;
                        let keys: i64 = sqlx::query_scalar("PRAGMA foreign_keys")
                            .fetch_one(db)
                            .await?;
                        Ok::<_, Error>((journal, synchronous, keys))
                    })
                })
                .await
                .unwrap();
            assert_eq!(settings, ("wal".to_owned(), 2, 1));
            store.close().await;
        }
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[tokio::test]
    async fn bad_urls_are_named() {
        for url in ["", "sqlite:", "mysql://u:pw@h/d", "sqlite:/x?mode=ro"] {
            let error = Store::open(url).await.unwrap_err();
            assert!(matches!(error, Error::BadUrl { .. }), "{url}");
            assert!(!error.to_string().contains("pw"), "{error}");
        }
        let missing = Store::open("sqlite:/nonexistent/w.db").await.unwrap_err();
        assert!(matches!(missing, Error::File { .. }));
        assert_eq!(
            without_password("postgres://u:p@h/d"),
            "postgres://******@h/d"
        );
    }
}

//! Opening the database: URL, file, connections, migrations.

use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::PgPool;
use sqlx::SqlitePool;
use sqlx::postgres::PgConnectOptions;
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::sqlite::SqliteJournalMode;
use sqlx::sqlite::SqlitePoolOptions;
use sqlx::sqlite::SqliteSynchronous;

use crate::Error;
use crate::Inner;
use crate::Result;
use crate::Store;
use crate::db::Db;
use crate::local::Locals;
use crate::migrate;
use crate::writer::Writer;

/// Reading connections at most.
const READERS: u32 = 4;
/// How long SQLite waits for a lock of another process (a backup, a shell).
const BUSY: Duration = Duration::from_secs(30);

/// Where the database is, and how its connections are made.
pub(crate) enum Place {
    Sqlite(SqliteConnectOptions),
    Postgres(PgConnectOptions),
}

/// Reading connections.
pub(crate) enum Readers {
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

impl Place {
    /// A connection that writes. Fails with [`Error::Taken`] where another
    /// server has one: each would look after all nodes.
    pub(crate) async fn connect(&self) -> Result<Db> {
        match self {
            Self::Sqlite(options) => Ok(Db::Sqlite(options.connect().await?)),
            Self::Postgres(options) => {
                let mut db = Db::Postgres(options.connect().await?);
                // Goes with the connection.
                let sql = "SELECT CAST(CAST(pg_try_advisory_lock(7238471902) AS INT) AS BIGINT)";
                match db.one(sql, []).await?.int(0)? {
                    Some(1) => Ok(db),
                    _ => Err(Error::Taken),
                }
            }
        }
    }
}

impl Readers {
    /// One of them.
    pub(crate) async fn acquire(&self) -> std::result::Result<Db, sqlx::Error> {
        Ok(match self {
            Self::Sqlite(pool) => Db::SqliteReader(pool.acquire().await?),
            Self::Postgres(pool) => Db::PostgresReader(pool.acquire().await?),
        })
    }

    /// Ends them all.
    pub(crate) async fn close(&self) {
        match self {
            Self::Sqlite(pool) => pool.close().await,
            Self::Postgres(pool) => pool.close().await,
        }
    }
}

impl Store {
    /// Opens the database and brings its schema up to date. `sqlite:PATH`
    /// (the file is made with mode 0600 when it is missing),
    /// `sqlite::memory:` (gone with the last handle; for tests) or
    /// `postgres://USER:PASSWORD@HOST/DATABASE`.
    pub async fn open(url: &str) -> Result<Self> {
        let is_postgres = url.starts_with("postgres:") || url.starts_with("postgresql:");
        let (place, readers) = if is_postgres {
            let (place, readers) = postgres(url)?;
            (place, Some(readers))
        } else {
            sqlite(url)?
        };
        let locals = match &place {
            Place::Sqlite(options) if readers.is_some() => {
                Some(Locals::new(options.get_filename()))
            }
            _ => None,
        };
        let mut connection = place.connect().await?;
        migrate::run(&mut connection).await?;
        let writer = Writer::start(connection, place);
        Ok(Self {
            inner: Arc::new(Inner {
                writer,
                readers,
                locals,
            }),
        })
    }
}

fn postgres(url: &str) -> Result<(Place, Readers)> {
    let options: PgConnectOptions = url.parse().map_err(|_| Error::BadUrl {
        url: without_password(url),
        reason: "expected postgres://USER:PASSWORD@HOST/DATABASE",
    })?;
    let options = options
        .application_name("wrought")
        .disable_statement_logging();
    let readers = PgPoolOptions::new()
        .max_connections(READERS)
        .connect_lazy_with(options.clone());
    Ok((Place::Postgres(options), Readers::Postgres(readers)))
}

fn sqlite(url: &str) -> Result<(Place, Option<Readers>)> {
    let options = SqliteConnectOptions::new()
        .foreign_keys(true)
        .busy_timeout(BUSY)
        .disable_statement_logging();
    let Some(path) = path(url)? else {
        return Ok((Place::Sqlite(options.in_memory(true)), None));
    };
    make_file(&path)?;
    let options = options.filename(&path);
    let readers = SqlitePoolOptions::new()
        .max_connections(READERS)
        .test_before_acquire(false)
        .max_lifetime(None)
        .connect_lazy_with(options.clone().read_only(true));
    let options = options
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full);
    Ok((Place::Sqlite(options), Some(Readers::Sqlite(readers))))
}

/// The file of the URL; none for a database in memory.
fn path(url: &str) -> Result<Option<PathBuf>> {
    let bad = |reason| Error::BadUrl {
        url: without_password(url),
        reason,
    };
    let Some(rest) = url.strip_prefix("sqlite:") else {
        return Err(bad(
            "expected sqlite:PATH or postgres://USER:PASSWORD@HOST/DATABASE",
        ));
    };
    match rest.strip_prefix("//").unwrap_or(rest) {
        "" => Err(bad("the path is missing")),
        ":memory:" => Ok(None),
        path if path.contains('?') => Err(bad("parameters after '?' are not supported")),
        path => Ok(Some(PathBuf::from(path))),
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
                        let journal = db.one("PRAGMA journal_mode", []).await?;
                        let synchronous = db.one("PRAGMA synchronous", []).await?.int(0)?;
                        let keys = db.one("PRAGMA foreign_keys", []).await?.int(0)?;
                        let journal = journal.text(0)?.map(str::to_owned);
                        Ok::<_, Error>((journal, synchronous, keys))
                    })
                })
                .await
                .unwrap();
            assert_eq!(settings, (Some("wal".to_owned()), Some(2), Some(1)));
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

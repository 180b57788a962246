//! Opening the database: URL, file, connections, migrations.

mod claim;

pub(crate) use claim::Claim;

use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::Connection;
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
use crate::change::Teller;
use crate::clock::Clock;
use crate::db::Db;
use crate::local::Locals;
use crate::migrate;
use crate::writer::Writer;

/// Reading connections at most.
const READERS: u32 = 4;
/// How long a reading waits for one of them, PostgreSQL's start included.
const ACQUIRE: Duration = Duration::from_secs(10);
/// A connection to PostgreSQL that answered so long ago is taken as it is; an older
/// one is asked first, in case the server started anew since then.
const FRESH: Duration = Duration::from_millis(500);
/// How long SQLite waits for a lock of another process (a backup, a shell).
const BUSY: Duration = Duration::from_secs(30);

/// The advisory lock that a server on its own has for itself, and that those
/// who share a PostgreSQL database have together.
const LOCK: i64 = 7238471902;
/// What the server of a shared database is to do with a client that was
/// stopped or cut off in the middle of a transaction: nobody waits for its rows.
const LIMITS: [(&str, &str); 6] = [
    ("idle_in_transaction_session_timeout", "10s"),
    ("lock_timeout", "10s"),
    ("statement_timeout", "15s"),
    ("tcp_keepalives_idle", "10"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "3"),
];

/// Where the database is, and how its connections are made.
pub(crate) enum Place {
    Sqlite(SqliteConnectOptions),
    Postgres {
        options: PgConnectOptions,
        /// Whether other processes may be there.
        shared: bool,
    },
}

/// Reading connections.
pub(crate) enum Readers {
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

impl Place {
    /// A connection that writes. Fails with [`Error::Taken`] where another
    /// server is, and one of the two is for itself: it looks after all nodes.
    pub(crate) async fn connect(&self) -> Result<Db> {
        match self {
            Self::Sqlite(options) => Ok(Db::Sqlite(options.connect().await?)),
            Self::Postgres { options, shared } => {
                let mut db = Db::Postgres(options.connect().await?);
                // Goes with the connection.
                let sql = match shared {
                    true => "SELECT CAST(CAST(pg_try_advisory_lock_shared($1) AS INT) AS BIGINT)",
                    false => "SELECT CAST(CAST(pg_try_advisory_lock($1) AS INT) AS BIGINT)",
                };
                match db.one(sql, [LOCK.into()]).await?.int(0)? {
                    Some(1) => Ok(db),
                    _ => Err(Error::Taken),
                }
            }
        }
    }

    fn is_shared(&self) -> bool {
        matches!(self, Self::Postgres { shared: true, .. })
    }
}

impl Readers {
    /// One of them.
    pub(crate) async fn acquire(&self) -> std::result::Result<Db, sqlx::Error> {
        // The pool's futures take 14 KB, which every caller's future would hold
        // for as long as it lives, reading or not: thousands of nodes each have one.
        Ok(match self {
            Self::Sqlite(pool) => Db::SqliteReader(Box::pin(pool.acquire()).await?),
            Self::Postgres(pool) => Db::PostgresReader(Box::pin(pool.acquire()).await?),
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
    /// Opens the database for a server on its own and brings its schema up to
    /// date. `sqlite:PATH` (the file is made with mode 0600 when it is missing),
    /// `sqlite::memory:` (gone with the last handle; for tests) or
    /// `postgres://USER:PASSWORD@HOST/DATABASE`. Fails with [`Error::Taken`]
    /// when another server works with it.
    pub async fn open(url: &str) -> Result<Self> {
        if is_postgres(url) {
            return Self::open_postgres(url, false).await;
        }
        let (place, readers, claim) = sqlite(url)?;
        let locals = match &place {
            Place::Sqlite(options) if readers.is_some() => {
                Some(Locals::new(options.get_filename()))
            }
            _ => None,
        };
        let doors = Doors {
            readers,
            locals,
            claim,
            ears: None,
        };
        Self::open_at(place, doors).await
    }

    /// Opens a PostgreSQL database that several processes share, and brings
    /// its schema up to date. Fails with [`Error::NotShared`] for SQLite and
    /// with [`Error::Taken`] while a server on its own works with it.
    pub async fn open_shared(url: &str) -> Result<Self> {
        if !is_postgres(url) {
            path(url)?;
            return Err(Error::NotShared);
        }
        Self::open_postgres(url, true).await
    }

    async fn open_postgres(url: &str, shared: bool) -> Result<Self> {
        let options = postgres(url)?;
        let readers = PgPoolOptions::new()
            .max_connections(READERS)
            .acquire_timeout(ACQUIRE)
            .test_before_acquire(false)
            .before_acquire(|connection, about| {
                // One that just answered need not be asked whether it is there.
                let fresh = about.idle_for < FRESH;
                Box::pin(async move {
                    if !fresh {
                        connection.ping().await?;
                    }
                    Ok(true)
                })
            })
            .connect_lazy_with(options.clone());
        let ears = PgPoolOptions::new()
            .max_connections(1)
            .connect_lazy_with(options.clone());
        let place = Place::Postgres { options, shared };
        let doors = Doors {
            readers: Some(Readers::Postgres(readers)),
            locals: None,
            claim: None,
            ears: shared.then_some(ears),
        };
        Self::open_at(place, doors).await
    }

    async fn open_at(place: Place, doors: Doors) -> Result<Self> {
        let mut connection = place.connect().await?;
        migrate::run(&mut connection).await?;
        let clock = Arc::new(Clock::default());
        clock.read(&mut connection).await?;
        let teller = Teller::new(place.is_shared());
        let ear = doors.ears.map(|pool| teller.listen(pool));
        let writer = Writer::start(connection, place, teller.clone());
        let inner = Inner {
            writer,
            readers: doors.readers,
            locals: doors.locals,
            teller,
            clock,
            ear,
            claim: Mutex::new(doors.claim),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }
}

/// What there is beside the connection that writes.
struct Doors {
    readers: Option<Readers>,
    /// For short reads, where the database is a file of SQLite.
    locals: Option<Locals>,
    claim: Option<Claim>,
    /// For what other processes tell.
    ears: Option<PgPool>,
}

fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres:") || url.starts_with("postgresql:")
}

fn postgres(url: &str) -> Result<PgConnectOptions> {
    let options: PgConnectOptions = url.parse().map_err(|_| Error::BadUrl {
        url: without_password(url),
        reason: "expected postgres://USER:PASSWORD@HOST/DATABASE",
    })?;
    Ok(options
        .application_name("wrought")
        .options(LIMITS)
        .disable_statement_logging())
}

fn sqlite(url: &str) -> Result<(Place, Option<Readers>, Option<Claim>)> {
    let options = SqliteConnectOptions::new()
        .foreign_keys(true)
        .busy_timeout(BUSY)
        .disable_statement_logging();
    let Some(path) = path(url)? else {
        return Ok((Place::Sqlite(options.in_memory(true)), None, None));
    };
    make_file(&path)?;
    let claim = Claim::take(&path)?;
    let options = options.filename(&path);
    let readers = SqlitePoolOptions::new()
        .max_connections(READERS)
        .test_before_acquire(false)
        .max_lifetime(None)
        .connect_lazy_with(options.clone().read_only(true));
    let options = options
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full);
    let readers = Readers::Sqlite(readers);
    Ok((Place::Sqlite(options), Some(readers), Some(claim)))
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
    async fn sqlite_is_not_shared() {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", dir.path().join("w.db").display());
        let error = Store::open_shared(&url).await.unwrap_err();
        assert!(matches!(error, Error::NotShared), "{error}");
        assert!(error.to_string().contains("PostgreSQL"), "{error}");
        assert!(!dir.path().join("w.db").exists(), "nothing was made");
    }

    #[tokio::test]
    async fn who_is_alone_shares_with_nobody() {
        let Some(url) = crate::testing::postgres() else {
            return;
        };
        let first = Store::open_shared(&url).await.unwrap();
        let second = Store::open_shared(&url).await.unwrap();
        let refused = Store::open(&url).await.unwrap_err();
        assert!(matches!(refused, Error::Taken), "{refused}");
        first.close().await;
        second.close().await;
        let alone = opened(&url).await;
        for refused in [Store::open(&url).await, Store::open_shared(&url).await] {
            assert!(matches!(refused, Err(Error::Taken)));
        }
        alone.close().await;
    }

    /// The server lets go of a lock a moment after its client has closed.
    async fn opened(url: &str) -> Store {
        loop {
            match Store::open(url).await {
                Ok(store) => return store,
                Err(Error::Taken) => {
                    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
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

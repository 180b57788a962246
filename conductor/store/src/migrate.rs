//! Schema versions: SQL kept in the program, applied in order, one
//! transaction each.

use sqlx::AssertSqlSafe;

use crate::Error;
use crate::Result;
use crate::codec;
use crate::db::Db;
use crate::db::Kind;

/// What differs between the databases: the self-numbering key, and that text
/// is in the order of its bytes.
fn native(sql: &str, kind: Kind) -> String {
    match kind {
        Kind::Sqlite => sql.replace("{ID}", "INTEGER PRIMARY KEY"),
        Kind::Postgres => sql
            .replace("{ID}", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY")
            .replace(" TEXT", " TEXT COLLATE \"C\""),
    }
}

/// Keeps two servers from bringing one database up to date at a time.
const LOCK: &str = "SELECT pg_advisory_lock(7238471901)";
const UNLOCK: &str = "SELECT pg_advisory_unlock(7238471901)";

/// Every version with its SQL; `{ID}` stands for a self-numbering key.
const MIGRATIONS: &[(i64, &str)] = &[
    (1, include_str!("migrations/0001.sql")),
    (2, include_str!("migrations/0002.sql")),
    (3, include_str!("migrations/0003.sql")),
    (4, include_str!("migrations/0004.sql")),
    (5, include_str!("migrations/0005.sql")),
    (6, include_str!("migrations/0006.sql")),
    (7, include_str!("migrations/0007.sql")),
];

/// Brings the schema up to date.
pub(crate) async fn run(connection: &mut Db) -> Result<()> {
    if connection.kind() == Kind::Sqlite {
        return apply(connection).await;
    }
    connection.run(LOCK).await?;
    let applied = apply(connection).await;
    connection.run(UNLOCK).await?;
    applied
}

async fn apply(connection: &mut Db) -> Result<()> {
    let known = MIGRATIONS.last().map_or(0, |(version, _)| *version);
    connection
        .run(
            "CREATE TABLE IF NOT EXISTS schema_version \
             (version BIGINT NOT NULL PRIMARY KEY, applied_at BIGINT NOT NULL)",
        )
        .await?;
    let newest = "SELECT COALESCE(MAX(version), 0) FROM schema_version";
    let found = connection.one(newest, []).await?;
    let found = found.int(0)?.unwrap_or_default();
    if found > known {
        return Err(Error::SchemaTooNew { found, known });
    }
    for (version, sql) in MIGRATIONS.iter().filter(|(version, _)| *version > found) {
        // A connection that fails in between is given up, and with it what
        // was not committed.
        connection.run("BEGIN").await?;
        // The text is a constant of this program.
        let sql = native(sql, connection.kind());
        connection.run(AssertSqlSafe(sql)).await?;
        let note = "INSERT INTO schema_version (version, applied_at) VALUES ($1, $2)";
        let cells = [(*version).into(), codec::now().into()];
        connection.execute(note, cells).await?;
        connection.run("COMMIT").await?;
        tracing::debug!(version, "database schema applied");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::Error;
    use crate::Store;

    #[tokio::test]
    async fn newer_schema_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", dir.path().join("w.db").display());
        let store = Store::open(&url).await.unwrap();
        store
            .write(|db| {
                Box::pin(async move {
                    db.run("INSERT INTO schema_version VALUES (999, 0)").await?;
                    Ok::<_, Error>(())
                })
            })
            .await
            .unwrap();
        store.close().await;
        let error = Store::open(&url).await.unwrap_err();
        assert!(
            matches!(error, Error::SchemaTooNew { found: 999, .. }),
            "{error}"
        );
    }
}

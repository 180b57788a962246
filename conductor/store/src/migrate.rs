//! Schema versions: SQL kept in the program, applied in order, one
//! transaction each.

use sqlx::Connection;

use crate::Db;
use crate::Error;
use crate::Result;
use crate::codec;

/// What differs between the databases: the self-numbering key.
const ID: &str = "INTEGER PRIMARY KEY";

/// Every version with its SQL; `{ID}` stands for a self-numbering key.
const MIGRATIONS: &[(i64, &str)] = &[
    (1, include_str!("migrations/0001.sql")),
    (2, include_str!("migrations/0002.sql")),
    (3, include_str!("migrations/0003.sql")),
];

/// Brings the schema up to date.
pub(crate) async fn run(connection: &mut Db) -> Result<()> {
    let known = MIGRATIONS.last().map_or(0, |(version, _)| *version);
    sqlx::query(
        "CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL PRIMARY KEY, applied_at BIGINT NOT NULL)",
    )
    .execute(&mut *connection)
    .await?;
    let found: i64 = sqlx::query_scalar("SELECT COALESCE(MAX(version), 0) FROM schema_version")
        .fetch_one(&mut *connection)
        .await?;
    if found > known {
        return Err(Error::SchemaTooNew { found, known });
    }
    for (version, sql) in MIGRATIONS.iter().filter(|(version, _)| *version > found) {
        let mut transaction = connection.begin().await?;
        // The text is a constant of this program.
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql.replace("{ID}", ID)))
            .execute(&mut *transaction)
            .await?;
        sqlx::query("INSERT INTO schema_version (version, applied_at) VALUES ($1, $2)")
            .bind(*version)
            .bind(codec::now().as_microsecond())
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
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
                    sqlx::query("INSERT INTO schema_version VALUES (999, 0)")
                        .execute(db)
                        .await?;
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

//! The journal of a running server, read from outside: where a node stands, and
//! the moment at which its next row is there.

use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use jiff::Timestamp;
use sqlx::AnyConnection;
use sqlx::Connection;
use sqlx::Row as _;
use tokio::sync::Mutex;

/// Between two looks while the next row is not due.
const PAUSE: Duration = Duration::from_millis(3);

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// `deploy`, `clean`…
    pub kind: String,
    /// Place of the step in the list.
    pub index: i64,
    /// `interface.step`.
    pub step: String,
    /// Which try.
    pub attempt: i64,
    /// `started`, `waiting`, `succeeded`, `failed`.
    pub phase: String,
    /// More about it.
    pub detail: Option<String>,
    /// When.
    pub at: Timestamp,
}

impl Row {
    /// The boundary that it is, whichever try.
    pub fn boundary(&self) -> String {
        format!("{} {} {}", self.kind, self.step, self.phase)
    }
}

/// A reading connection to a server's database.
#[derive(Debug)]
pub struct Journal {
    url: String,
    // Used by one at a time anyway; the lock makes it one that threads share.
    db: Mutex<AnyConnection>,
}

impl Journal {
    /// Opens the database with that URL.
    pub async fn open(url: &str) -> Result<Self> {
        sqlx::any::install_default_drivers();
        let url = match url.starts_with("sqlite:") {
            true => format!("{url}?mode=ro"),
            false => url.to_owned(),
        };
        let db = Mutex::new(connect(&url).await?);
        Ok(Self { url, db })
    }

    /// Number of the node's newest row; 0 when there is none.
    pub async fn last(&mut self, node: &str) -> Result<i64> {
        let sql = "SELECT CAST(COALESCE(MAX(id), 0) AS BIGINT) FROM node_journal \
                   WHERE node_uuid = $1";
        let row = sqlx::query(sql)
            .bind(node.to_owned())
            .fetch_one(self.db.get_mut());
        Ok(row.await.context("reading the journal")?.try_get(0)?)
    }

    /// How many rows the node has after number `since`.
    pub async fn count(&mut self, node: &str, since: i64) -> Result<usize> {
        let sql = "SELECT CAST(COUNT(*) AS BIGINT) FROM node_journal \
                   WHERE node_uuid = $1 AND id > $2";
        let asked = sqlx::query(sql).bind(node.to_owned()).bind(since);
        let count: i64 = match asked.fetch_one(self.db.get_mut()).await {
            Ok(row) => row.try_get(0)?,
            Err(error) => {
                // The database was started anew.
                tracing::debug!(%error, "journal not read");
                *self.db.get_mut() = connect(&self.url).await?;
                return Ok(0);
            }
        };
        Ok(usize::try_from(count)?)
    }

    /// The node's rows after number `since`, oldest first.
    pub async fn rows(&mut self, node: &str, since: i64) -> Result<Vec<Row>> {
        let sql = "SELECT kind, step_index, step, attempt, phase, detail, at FROM node_journal \
                   WHERE node_uuid = $1 AND id > $2 ORDER BY id";
        let asked = sqlx::query(sql).bind(node.to_owned()).bind(since);
        let rows = asked.fetch_all(self.db.get_mut()).await;
        let rows = rows.context("reading the journal")?;
        rows.iter()
            .map(|row| {
                Ok(Row {
                    kind: row.try_get(0)?,
                    index: row.try_get(1)?,
                    step: row.try_get(2)?,
                    attempt: row.try_get(3)?,
                    phase: row.try_get(4)?,
                    detail: row.try_get(5)?,
                    at: Timestamp::from_microsecond(row.try_get(6)?)?,
                })
            })
            .collect()
    }

    /// The nodes that `host` has locked, each with the epoch of its lock. None
    /// when the database does not answer just now.
    pub async fn held_by(&mut self, host: &str) -> Result<Vec<(String, i64)>> {
        let sql = "SELECT uuid, lock_epoch FROM nodes WHERE reservation = $1";
        let asked = sqlx::query(sql).bind(host.to_owned());
        match asked.fetch_all(self.db.get_mut()).await {
            Ok(rows) => rows
                .iter()
                .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
                .collect(),
            Err(error) => {
                tracing::debug!(%error, "locks not read");
                *self.db.get_mut() = connect(&self.url).await?;
                Ok(Vec::new())
            }
        }
    }

    /// The epoch of the node's last lock.
    pub async fn epoch(&mut self, node: &str) -> Result<i64> {
        let sql = "SELECT lock_epoch FROM nodes WHERE uuid = $1";
        let row = sqlx::query(sql)
            .bind(node.to_owned())
            .fetch_one(self.db.get_mut());
        Ok(row.await.context("reading a lock")?.try_get(0)?)
    }

    /// Waits until the node has `wanted` rows after number `since`. It looks
    /// without a pause for `close` after the row before.
    pub async fn reach(
        &mut self,
        node: &str,
        since: i64,
        wanted: usize,
        close: Duration,
    ) -> Result<()> {
        let mut before = None;
        loop {
            let count = self.count(node, since).await?;
            if count >= wanted {
                return Ok(());
            }
            let near = count + 1 == wanted;
            let at = *before.get_or_insert_with(tokio::time::Instant::now);
            if !near {
                before = None;
            } else if at.elapsed() < close {
                tokio::task::yield_now().await;
                continue;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

async fn connect(url: &str) -> Result<AnyConnection> {
    let made = AnyConnection::connect(url).await;
    made.context("opening the server's database")
}

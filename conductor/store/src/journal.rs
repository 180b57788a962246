//! The journal: what was begun on a node and how it ended, so that a
//! conductor that starts anew knows where to go on.

use jiff::Timestamp;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

use crate::Db;
use crate::Result;
use crate::Store;
use crate::codec::Columns;

/// Entries kept per node.
const KEPT: i64 = 500;

/// Where a step stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// About to be done; its outcome is not known.
    Started,
    /// Handed over; the agent or the machine is at it.
    Waiting,
    /// Done.
    Succeeded,
    /// Ended with an error.
    Failed,
}

impl Phase {
    /// The text in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Waiting => "waiting",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
        }
    }
}

/// A text that is no phase.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown journal phase {0:?}")]
pub struct UnknownPhase(String);

impl std::str::FromStr for Phase {
    type Err = UnknownPhase;

    fn from_str(text: &str) -> std::result::Result<Self, UnknownPhase> {
        [Self::Started, Self::Waiting, Self::Succeeded, Self::Failed]
            .into_iter()
            .find(|phase| phase.as_str() == text)
            .ok_or_else(|| UnknownPhase(text.to_owned()))
    }
}

/// One entry.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalEntry {
    /// The node.
    pub node: Uuid,
    /// The operation: `deploy`, `clean`…
    pub kind: String,
    /// Place of the step in the operation's list, from 0.
    pub step_index: u32,
    /// The step, such as `deploy.write_image`.
    pub step: String,
    /// Which try it is, from 1.
    pub attempt: u32,
    /// Where it stands.
    pub phase: Phase,
    /// More, for people or (as JSON) for the program.
    pub detail: Option<String>,
    /// When.
    pub at: Timestamp,
}

const COLUMNS: &[&str] = &[
    "node_uuid",
    "kind",
    "step_index",
    "step",
    "attempt",
    "phase",
    "detail",
    "at",
];

fn read(row: &SqliteRow) -> Result<JournalEntry> {
    let mut column = Columns::new(row, "node_journal", COLUMNS);
    Ok(JournalEntry {
        node: column.key()?,
        kind: column.text()?,
        step_index: column.small()?,
        step: column.text()?,
        attempt: column.small()?,
        phase: column.parse()?,
        detail: column.maybe_text()?,
        at: column.time()?,
    })
}

impl Store {
    /// The newest entry of the node.
    pub async fn last_journal(&self, node: Uuid) -> Result<Option<JournalEntry>> {
        self.read(move |db| {
            Box::pin(async move {
                let row = sqlx::query(
                    "SELECT node_uuid, kind, step_index, step, attempt, phase, detail, at \
                     FROM node_journal WHERE node_uuid = $1 ORDER BY id DESC LIMIT 1",
                )
                .bind(node.to_string())
                .fetch_optional(db)
                .await?;
                row.as_ref().map(read).transpose()
            })
        })
        .await
    }

    /// All entries of the node that are kept (the last 500), oldest first.
    pub async fn journal(&self, node: Uuid) -> Result<Vec<JournalEntry>> {
        self.read(move |db| {
            Box::pin(async move {
                let rows = sqlx::query(
                    "SELECT node_uuid, kind, step_index, step, attempt, phase, detail, at \
                     FROM node_journal WHERE node_uuid = $1 ORDER BY id",
                )
                .bind(node.to_string())
                .fetch_all(db)
                .await?;
                rows.iter().map(read).collect()
            })
        })
        .await
    }
}

/// Appends the entries and drops what is beyond the kept ones.
pub(crate) async fn append(db: &mut Db, entries: &[JournalEntry]) -> Result<()> {
    for entry in entries {
        sqlx::query(
            "INSERT INTO node_journal (node_uuid, kind, step_index, step, attempt, phase, detail, at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        )
        .bind(entry.node.to_string())
        .bind(&entry.kind)
        .bind(i64::from(entry.step_index))
        .bind(&entry.step)
        .bind(i64::from(entry.attempt))
        .bind(entry.phase.as_str())
        .bind(&entry.detail)
        .bind(entry.at.as_microsecond())
        .execute(&mut *db)
        .await?;
    }
    if let Some(entry) = entries.last() {
        sqlx::query(
            "DELETE FROM node_journal WHERE node_uuid = $1 AND id <= \
             (SELECT id FROM node_journal WHERE node_uuid = $1 ORDER BY id DESC LIMIT 1 OFFSET $2)",
        )
        .bind(entry.node.to_string())
        .bind(KEPT)
        .execute(&mut *db)
        .await?;
    }
    Ok(())
}

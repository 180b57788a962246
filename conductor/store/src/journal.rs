//! The journal: what was begun on a node and how it ended, so that a
//! conductor that starts anew knows where to go on.

use jiff::Timestamp;
use uuid::Uuid;

use crate::Result;
use crate::Store;
use crate::codec::Cell;
use crate::codec::Columns;
use crate::db::Db;
use crate::db::DbRow;

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

fn read(row: &DbRow) -> Result<JournalEntry> {
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
        self.read_row(move |db| {
            Box::pin(async move {
                let sql = "SELECT node_uuid, kind, step_index, step, attempt, phase, detail, at \
                           FROM node_journal WHERE node_uuid = $1 ORDER BY id DESC LIMIT 1";
                let row = db.optional(sql, [node.into()]).await?;
                row.as_ref().map(read).transpose()
            })
        })
        .await
    }

    /// All entries of the node that are kept (the last 500), oldest first.
    pub async fn journal(&self, node: Uuid) -> Result<Vec<JournalEntry>> {
        self.read(move |db| {
            Box::pin(async move {
                let sql = "SELECT node_uuid, kind, step_index, step, attempt, phase, detail, at \
                           FROM node_journal WHERE node_uuid = $1 ORDER BY id";
                let rows = db.all(sql, [node.into()]).await?;
                rows.iter().map(read).collect()
            })
        })
        .await
    }
}

/// Appends the entries and drops what is beyond the kept ones.
pub(crate) async fn append(db: &mut Db, entries: &[JournalEntry]) -> Result<()> {
    for entry in entries {
        db.execute(
            "INSERT INTO node_journal (node_uuid, kind, step_index, step, attempt, phase, detail, at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
            [
                entry.node.into(),
                Cell::text(&entry.kind),
                Cell::int(entry.step_index.into()),
                Cell::text(&entry.step),
                Cell::int(entry.attempt.into()),
                Cell::text(entry.phase.as_str()),
                Cell::maybe(entry.detail.as_ref()),
                entry.at.into(),
            ],
        )
        .await?;
    }
    if let Some(entry) = entries.last() {
        db.execute(
            "DELETE FROM node_journal WHERE node_uuid = $1 AND id <= \
             (SELECT id FROM node_journal WHERE node_uuid = $1 ORDER BY id DESC LIMIT 1 OFFSET $2)",
            [entry.node.into(), KEPT.into()],
        )
        .await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::JournalEntry;
    use super::Phase;
    use crate::Error;
    use crate::Lease;
    use crate::codec;
    use crate::testing;

    fn entry(lease: &Lease, step_index: u32, phase: Phase) -> JournalEntry {
        JournalEntry {
            node: lease.node,
            kind: "deploy".to_owned(),
            step_index,
            step: "deploy.write_image".to_owned(),
            attempt: 1,
            phase,
            detail: Some("{\"a\":1}".to_owned()),
            at: codec::now(),
        }
    }

    #[tokio::test]
    async fn written_with_the_node_or_not_at_all() {
        let store = testing::store().await;
        let mut node = testing::stored(&store, "a").await;
        let lease = store
            .lock_node(node.uuid, "c", Duration::from_secs(60))
            .await
            .unwrap();
        assert_eq!(store.last_journal(node.uuid).await.unwrap(), None);
        let started = entry(&lease, 0, Phase::Started);
        let waiting = entry(&lease, 0, Phase::Waiting);
        let both = [started.clone(), waiting.clone()];
        store
            .save_node_with(&lease, &mut node, &both, &[])
            .await
            .unwrap();
        assert_eq!(store.last_journal(node.uuid).await.unwrap(), Some(waiting));
        assert_eq!(store.journal(node.uuid).await.unwrap(), both);

        store.unlock(lease.clone()).await.unwrap();
        let done = [entry(&lease, 0, Phase::Succeeded)];
        let lost = store
            .save_node_with(&lease, &mut node, &done, &[])
            .await
            .unwrap_err();
        assert!(matches!(lost, Error::LeaseLost { .. }));
        assert_eq!(store.journal(node.uuid).await.unwrap(), both);
    }

    #[tokio::test]
    async fn keeps_the_newest() {
        let store = testing::store().await;
        let mut node = testing::stored(&store, "a").await;
        let lease = store
            .lock_node(node.uuid, "c", Duration::from_secs(60))
            .await
            .unwrap();
        let many: Vec<_> = (0..510).map(|n| entry(&lease, n, Phase::Failed)).collect();
        store
            .save_node_with(&lease, &mut node, &many, &[])
            .await
            .unwrap();
        let kept = store.journal(node.uuid).await.unwrap();
        assert_eq!((kept.len(), kept[0].step_index), (500, 10));
    }
}

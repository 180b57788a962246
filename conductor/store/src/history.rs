//! History: what happened to a node, for people.

use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;
use wrought_wire::state::ProvisionState;

use crate::Error;
use crate::Result;
use crate::Store;
use crate::codec::Cell;
use crate::codec::Columns;
use crate::db::Db;
use crate::db::DbRow;
use crate::db::is_foreign;
use crate::page::Listed;
use crate::page::Page;
use crate::page::SortDir;
use crate::select::Select;

/// Entries of a node that are kept at most, between two rounds of trimming.
const MOST: i64 = 3000;
/// Nodes that are looked up at once for trimming.
const NODES: i64 = 500;

/// What of the history is kept.
#[derive(Debug, Clone, Copy)]
pub struct Trim {
    /// The newest entries of each node.
    pub keep: u32,
    /// What is younger than this, however many they are.
    pub before: Timestamp,
    /// Entries that are deleted in one transaction.
    pub batch: u32,
}

/// One entry.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryEntry {
    /// Identity.
    pub uuid: Uuid,
    /// The node.
    pub node: Uuid,
    /// `ERROR`, `INFO`…
    pub severity: Option<String>,
    /// Kind of event, such as `deploying` or `power`.
    pub event_type: Option<String>,
    /// What happened.
    pub event: String,
    /// Who asked for it.
    pub user: Option<String>,
    /// Host of the conductor.
    pub conductor: Option<String>,
    /// When.
    pub created_at: Timestamp,
    /// The node's state then.
    pub state: Option<ProvisionState>,
    /// Its target then.
    pub target: Option<ProvisionState>,
    /// Project of who asked for it.
    pub project: Option<String>,
    /// How long that took which ended.
    pub duration: Option<Duration>,
}

/// Which page of a node's history is wanted.
#[derive(Debug, Clone, Default)]
pub struct HistoryQuery {
    /// Column to sort by; none: the order in time.
    pub sort_key: Option<String>,
    /// Direction.
    pub sort_dir: SortDir,
    /// Go on after this entry.
    pub marker: Option<Uuid>,
    /// At most so many.
    pub limit: Option<u32>,
}

const COLUMNS: &[&str] = &[
    "uuid",
    "node_uuid",
    "severity",
    "event_type",
    "event",
    "user_id",
    "conductor",
    "created_at",
    "state",
    "target_provision_state",
    "project",
    "duration",
];

const LISTED: Listed = Listed {
    table: "node_history",
    what: "history entry",
    sortable: &[
        "uuid",
        "severity",
        "event_type",
        "event",
        "conductor",
        "created_at",
        "state",
    ],
};

fn read(row: &DbRow) -> Result<HistoryEntry> {
    let mut column = Columns::new(row, "node_history", COLUMNS);
    Ok(HistoryEntry {
        uuid: column.key()?,
        node: column.parse()?,
        severity: column.maybe_text()?,
        event_type: column.maybe_text()?,
        event: column.text()?,
        user: column.maybe_text()?,
        conductor: column.maybe_text()?,
        created_at: column.time()?,
        state: column.maybe_parse()?,
        target: column.maybe_parse()?,
        project: column.maybe_text()?,
        duration: column.maybe_duration()?,
    })
}

fn select(node: Uuid) -> Select {
    let columns = COLUMNS.join(", ");
    let mut select = Select::new(format!(
        "SELECT {columns} FROM node_history WHERE node_uuid = "
    ));
    select.push_bind(node.to_string());
    select
}

impl Store {
    /// A page of the node's history.
    pub async fn history(&self, node: Uuid, query: &HistoryQuery) -> Result<Vec<HistoryEntry>> {
        let query = query.clone();
        self.read(move |db| {
            Box::pin(async move {
                let mut select = select(node);
                let page = Page {
                    sort_key: query.sort_key.as_deref(),
                    sort_dir: query.sort_dir,
                    marker: query.marker,
                    limit: query.limit,
                };
                LISTED.paged(db, &mut select, &page).await?;
                let rows = select.all(db).await?;
                rows.iter().map(read).collect()
            })
        })
        .await
    }

    /// One entry of the node's history.
    pub async fn history_entry(&self, node: Uuid, entry: Uuid) -> Result<Option<HistoryEntry>> {
        self.read(move |db| {
            Box::pin(async move {
                let mut select = select(node);
                select.push(" AND uuid = ").push_bind(entry.to_string());
                let row = select.optional(db).await?;
                row.as_ref().map(read).transpose()
            })
        })
        .await
    }

    /// Nodes with more entries than `keep`, after `marker` in the order of
    /// their UUIDs: some of them, none when there are no more.
    pub async fn long_histories(&self, keep: u32, marker: Option<Uuid>) -> Result<Vec<Uuid>> {
        let marker = marker.map(|uuid| uuid.to_string()).unwrap_or_default();
        self.read(move |db| {
            Box::pin(async move {
                let sql = "SELECT node_uuid FROM node_history WHERE node_uuid > $1 \
                           GROUP BY node_uuid HAVING COUNT(*) > $2 ORDER BY node_uuid LIMIT $3";
                let cells = [marker.into(), i64::from(keep).into(), NODES.into()];
                let rows = db.all(sql, cells).await?;
                rows.iter()
                    .map(|row| Columns::new(row, "node_history", &["node_uuid"]).key())
                    .collect()
            })
        })
        .await
    }

    /// Deletes old entries of a node, at most one batch of them; tells how
    /// many it were.
    pub async fn trim_history(&self, node: Uuid, trim: Trim) -> Result<u64> {
        self.write(move |db| {
            Box::pin(async move {
                let sql = "DELETE FROM node_history WHERE id IN (SELECT id FROM node_history \
                           WHERE node_uuid = $1 AND created_at < $2 AND id <= \
                           (SELECT id FROM node_history WHERE node_uuid = $1 \
                           ORDER BY id DESC LIMIT 1 OFFSET $3) ORDER BY id LIMIT $4)";
                let cells = [
                    node.into(),
                    trim.before.into(),
                    i64::from(trim.keep).into(),
                    i64::from(trim.batch).into(),
                ];
                Ok::<_, Error>(db.execute(sql, cells).await?)
            })
        })
        .await
    }

    /// Appends one entry without touching the node.
    pub async fn add_history(&self, entry: &HistoryEntry) -> Result<()> {
        let entry = entry.clone();
        self.write(move |db| Box::pin(async move { append(db, &[entry]).await }))
            .await
    }
}

/// Appends the entries and drops what is beyond the kept ones.
pub(crate) async fn append(db: &mut Db, entries: &[HistoryEntry]) -> Result<()> {
    for entry in entries {
        let inserted = db.execute(
            "INSERT INTO node_history (uuid, node_uuid, severity, event_type, event, user_id, conductor, \
             created_at, state, target_provision_state, project, duration) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
            [
                entry.uuid.into(),
                entry.node.into(),
                Cell::maybe(entry.severity.as_ref()),
                Cell::maybe(entry.event_type.as_ref()),
                Cell::text(&entry.event),
                Cell::maybe(entry.user.as_ref()),
                Cell::maybe(entry.conductor.as_ref()),
                entry.created_at.into(),
                Cell::shown(entry.state),
                Cell::shown(entry.target),
                Cell::maybe(entry.project.as_ref()),
                Cell::duration(entry.duration),
            ],
        );
        inserted.await.map_err(|error| match is_foreign(&error) {
            true => Error::no_node(entry.node),
            false => error.into(),
        })?;
    }
    if let Some(entry) = entries.last() {
        db.execute(
            "DELETE FROM node_history WHERE node_uuid = $1 AND id <= \
             (SELECT id FROM node_history WHERE node_uuid = $1 ORDER BY id DESC LIMIT 1 OFFSET $2)",
            [entry.node.into(), MOST.into()],
        )
        .await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use uuid::Uuid;
    use wrought_wire::state::ProvisionState;

    use super::HistoryEntry;
    use super::HistoryQuery;
    use super::Trim;
    use crate::Error;
    use crate::SortDir;
    use crate::codec;
    use crate::testing;

    fn entry(node: Uuid, event: &str) -> HistoryEntry {
        HistoryEntry {
            uuid: Uuid::new_v4(),
            node,
            severity: Some("ERROR".to_owned()),
            event_type: Some("deploying".to_owned()),
            event: event.to_owned(),
            user: None,
            conductor: Some("c".to_owned()),
            created_at: codec::now(),
            state: Some(ProvisionState::DeployFail),
            target: Some(ProvisionState::Active),
            project: Some("p".to_owned()),
            duration: Some(Duration::from_millis(1500)),
        }
    }

    #[tokio::test]
    async fn trimmed_paged_and_found() {
        let store = testing::store().await;
        let mut node = testing::stored(&store, "a").await;
        let other = testing::stored(&store, "b").await;
        store
            .add_history(&entry(other.uuid, "other"))
            .await
            .unwrap();
        let lease = store
            .lock_node(node.uuid, "c", Duration::from_secs(60))
            .await
            .unwrap();
        for part in 0..3 {
            let many: Vec<_> = (0..110)
                .map(|n| entry(node.uuid, &format!("e{:03}", part * 110 + n)))
                .collect();
            store
                .save_node_with(&lease, &mut node, &[], &many)
                .await
                .unwrap();
        }
        let trim = Trim {
            keep: 300,
            before: codec::now(),
            batch: 20,
        };
        let old = Trim {
            before: Timestamp::from_second(1).unwrap(),
            ..trim
        };
        let long = store.long_histories(300, None).await.unwrap();
        assert_eq!(long, [node.uuid]);
        let none = store.long_histories(300, Some(node.uuid)).await.unwrap();
        assert!(none.is_empty());
        assert_eq!(store.trim_history(node.uuid, old).await.unwrap(), 0);
        for deleted in [20, 10, 0] {
            let done = store.trim_history(node.uuid, trim).await.unwrap();
            assert_eq!(done, deleted);
        }
        let all = store
            .history(node.uuid, &HistoryQuery::default())
            .await
            .unwrap();
        assert_eq!((all.len(), all[0].event.as_str()), (300, "e030"));
        let newest = HistoryQuery {
            sort_key: Some("event".to_owned()),
            sort_dir: SortDir::Desc,
            marker: Some(all[299].uuid),
            limit: Some(2),
        };
        let page = store.history(node.uuid, &newest).await.unwrap();
        assert_eq!([&page[0], &page[1]], [&all[298], &all[297]]);
        let one = store.history_entry(node.uuid, all[7].uuid).await.unwrap();
        assert_eq!(one.as_ref(), Some(&all[7]));
        assert_eq!(
            store.history_entry(other.uuid, all[7].uuid).await.unwrap(),
            None
        );
        let rest = store
            .history(other.uuid, &HistoryQuery::default())
            .await
            .unwrap();
        assert_eq!(rest.len(), 1);
        let stray = store
            .add_history(&entry(Uuid::new_v4(), "x"))
            .await
            .unwrap_err();
        assert!(matches!(stray, Error::NotFound { what: "node", .. }));
    }
}

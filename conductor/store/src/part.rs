//! Parts of a node that its BMC tells of, such as BIOS settings: each kind has
//! a table of its own, and all are read and replaced in one and the same way.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::Error;
use crate::Lease;
use crate::Result;
use crate::Store;
use crate::codec;
use crate::codec::Columns;
use crate::db::Db;
use crate::db::DbRow;

/// Parts of one kind that one node may have; a BMC that tells of more is not
/// believed.
const MOST: usize = 4096;

const COLUMNS: &[&str] = &["name", "body", "created_at", "updated_at"];

/// A kind of part.
pub trait Part: Serialize + DeserializeOwned + Clone + PartialEq + Send + Sync + 'static {
    /// Its table.
    const TABLE: &'static str;
    /// What it is called; no two parts of a node share it.
    fn name(&self) -> &str;
    /// Takes over what outlives a reading from the one before.
    fn follow(&mut self, _before: &Self) {}
}

/// A part with the times of its record.
#[derive(Debug, Clone, PartialEq)]
pub struct Known<P> {
    /// The part.
    pub part: P,
    /// When it was first read.
    pub created_at: Timestamp,
    /// When a reading was last another than the one before.
    pub updated_at: Option<Timestamp>,
}

fn read<P: Part>(row: &DbRow) -> Result<Known<P>> {
    let mut column = Columns::new(row, P::TABLE, COLUMNS);
    let _name = column.text()?;
    Ok(Known {
        part: column.json()?,
        created_at: column.time()?,
        updated_at: column.maybe_time()?,
    })
}

fn select<P: Part>() -> String {
    let (columns, table) = (COLUMNS.join(", "), P::TABLE);
    format!("SELECT {columns} FROM {table} WHERE node_uuid = $1")
}

async fn all<P: Part>(db: &mut Db, node: Uuid) -> Result<Vec<Known<P>>> {
    // Made of constants of this program.
    let sql = AssertSqlSafe(format!("{} ORDER BY name", select::<P>()));
    let rows = db.all(sql, [node.into()]).await?;
    rows.iter().map(read).collect()
}

impl Store {
    /// The node's parts of a kind, by name.
    pub async fn parts<P: Part>(&self, node: Uuid) -> Result<Vec<Known<P>>> {
        self.read(move |db| Box::pin(all(db, node))).await
    }

    /// The node's part of that name.
    pub async fn part<P: Part>(&self, node: Uuid, name: &str) -> Result<Option<Known<P>>> {
        let name = name.to_owned();
        self.read(move |db| {
            Box::pin(async move {
                let sql = AssertSqlSafe(format!("{} AND name = $2", select::<P>()));
                let row = db.optional(sql, [node.into(), name.into()]).await?;
                row.as_ref().map(read).transpose()
            })
        })
        .await
    }

    /// Makes a reading the node's parts of a kind: what changed is stored,
    /// what is gone is dropped. The first 4096 parts count, of two with the
    /// same name the later one. Fails with [`Error::LeaseLost`].
    pub async fn replace_parts<P: Part>(&self, lease: &Lease, parts: Vec<P>) -> Result<()> {
        let lease = lease.clone();
        self.write_again(crate::nothing, move |db| {
            Box::pin(async move {
                // Changes nothing, and keeps the lock as it is until the end.
                let sql = "UPDATE nodes SET lock_epoch = lock_epoch WHERE uuid = $1 \
                           AND reservation = $2 AND lock_epoch = $3";
                lease.check(db.execute(sql, lease.cells()).await?)?;
                replace(db, lease.node, parts).await
            })
        })
        .await
    }
}

async fn replace<P: Part>(db: &mut Db, node: Uuid, parts: Vec<P>) -> Result<()> {
    let before = all::<P>(db, node).await?.into_iter();
    let mut before: BTreeMap<String, P> = before
        .map(|known| (known.part.name().to_owned(), known.part))
        .collect();
    let named = parts.into_iter().take(MOST);
    let named: BTreeMap<String, P> = named.map(|part| (part.name().to_owned(), part)).collect();
    let now = codec::now();
    for (name, mut part) in named {
        let old = before.remove(&name);
        if let Some(old) = &old {
            part.follow(old);
        }
        if old.as_ref() == Some(&part) {
            continue;
        }
        let body = serde_json::to_string(&part).map_err(|source| Error::Corrupt {
            table: P::TABLE,
            column: "body".to_owned(),
            row: name.clone(),
            source: Box::new(source),
        })?;
        let sql = match old {
            Some(_) => format!(
                "UPDATE {} SET body = $3, updated_at = $4 WHERE node_uuid = $1 AND name = $2",
                P::TABLE
            ),
            None => format!(
                "INSERT INTO {} (node_uuid, name, body, created_at) VALUES ($1, $2, $3, $4)",
                P::TABLE
            ),
        };
        let cells = [node.into(), name.into(), body.into(), now.into()];
        db.execute(AssertSqlSafe(sql), cells).await?;
    }
    for name in before.into_keys() {
        let sql = format!(
            "DELETE FROM {} WHERE node_uuid = $1 AND name = $2",
            P::TABLE
        );
        let cells = [node.into(), name.into()];
        db.execute(AssertSqlSafe(sql), cells).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::BiosSetting;
    use crate::Error;
    use crate::FirmwareComponent;
    use crate::testing;

    fn setting(name: &str, value: &str) -> BiosSetting {
        BiosSetting {
            name: name.to_owned(),
            value: Some(value.to_owned()),
            ..BiosSetting::default()
        }
    }

    #[tokio::test]
    async fn readings_replace_each_other() {
        let store = testing::store().await;
        let node = testing::stored(&store, "a").await;
        let minute = Duration::from_secs(60);
        let lease = store.lock_node(node.uuid, "c", minute).await.unwrap();
        let first = vec![setting("Virt", "on"), setting("Turbo", "off")];
        store.replace_parts(&lease, first).await.unwrap();
        let read = store.parts::<BiosSetting>(node.uuid).await.unwrap();
        let names: Vec<&str> = read.iter().map(|known| known.part.name.as_str()).collect();
        assert_eq!(names, ["Turbo", "Virt"]);
        assert_eq!(read[0].updated_at, None);

        let second = vec![setting("Virt", "off"), setting("Boot", "x")];
        store.replace_parts(&lease, second.clone()).await.unwrap();
        store.replace_parts(&lease, second).await.unwrap();
        let virt = store.part::<BiosSetting>(node.uuid, "Virt").await.unwrap();
        let virt = virt.unwrap();
        assert_eq!(virt.part.value.as_deref(), Some("off"));
        assert_eq!(virt.created_at, read[1].created_at);
        assert!(virt.updated_at.is_some());
        let gone = store.part::<BiosSetting>(node.uuid, "Turbo").await.unwrap();
        assert_eq!(gone, None);

        store.unlock(lease.clone()).await.unwrap();
        let late = store.replace_parts::<BiosSetting>(&lease, Vec::new()).await;
        assert!(matches!(late, Err(Error::LeaseLost { .. })), "{late:?}");
        let lease = store.lock_node(node.uuid, "c", minute).await.unwrap();
        store.destroy_node(&lease).await.unwrap();
        let left = store.parts::<BiosSetting>(node.uuid).await.unwrap();
        assert!(left.is_empty());
    }

    #[tokio::test]
    async fn firmware_remembers_where_it_began() {
        let store = testing::store().await;
        let node = testing::stored(&store, "a").await;
        let lease = store
            .lock_node(node.uuid, "c", Duration::from_secs(60))
            .await
            .unwrap();
        for version in ["1.0", "1.1"] {
            let bmc = FirmwareComponent::read("bmc", version);
            store.replace_parts(&lease, vec![bmc]).await.unwrap();
        }
        let bmc = store.part::<FirmwareComponent>(node.uuid, "bmc").await;
        let bmc = bmc.unwrap().unwrap().part;
        assert_eq!(
            (bmc.initial_version.as_str(), bmc.current_version.as_deref()),
            ("1.0", Some("1.1"))
        );
    }
}

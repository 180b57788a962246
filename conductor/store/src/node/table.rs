//! Making, finding, saving and deleting nodes.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use jiff::Timestamp;
use sqlx::AssertSqlSafe;
use uuid::Uuid;
use wrought_wire::state::ProvisionState;

use super::Node;
use super::row;
use crate::Error;
use crate::HistoryEntry;
use crate::JournalEntry;
use crate::Lease;
use crate::Result;
use crate::Store;
use crate::codec;
use crate::db::Db;
use crate::db::is_unique;
use crate::history;
use crate::journal;

impl Store {
    /// Stores a new node, unlocked. Fails with [`Error::DuplicateUuid`],
    /// [`Error::DuplicateName`] or [`Error::InstanceAssociated`].
    pub async fn create_node(&self, node: &Node) -> Result<()> {
        let node = node.clone();
        self.write(move |db| {
            Box::pin(async move {
                match db.execute(row::INSERT.as_str(), row::cells(&node)).await {
                    Ok(_) => Ok(()),
                    Err(error) if is_unique(&error) => Err(clash(db, &node, true, error).await),
                    Err(error) => Err(error.into()),
                }
            })
        })
        .await
    }

    /// The node with that UUID or name.
    pub async fn node(&self, ident: &str) -> Result<Option<Node>> {
        match Uuid::try_parse(ident) {
            Ok(uuid) => self.node_by_uuid(uuid).await,
            Err(_) => self.one_node("name", ident.to_owned()).await,
        }
    }

    /// The node with that UUID.
    pub async fn node_by_uuid(&self, uuid: Uuid) -> Result<Option<Node>> {
        self.one_node("uuid", uuid.to_string()).await
    }

    async fn one_node(&self, column: &'static str, value: String) -> Result<Option<Node>> {
        let clock = self.clock();
        self.read_row(move |db| Box::pin(async move { find(db, column, value, clock.now()).await }))
            .await
    }

    /// Deletes the node with its ports, journal and history. Fails with
    /// [`Error::LeaseLost`].
    pub async fn destroy_node(&self, lease: &Lease) -> Result<()> {
        let lease = lease.clone();
        self.write(move |db| {
            Box::pin(async move {
                let sql =
                    "DELETE FROM nodes WHERE uuid = $1 AND reservation = $2 AND lock_epoch = $3";
                lease.check(db.execute(sql, lease.cells()).await?)
            })
        })
        .await
    }

    /// Stores all of the node if the lease still holds, and sets its
    /// `updated_at` and `reservation` to what is stored. Fails with
    /// [`Error::LeaseLost`], [`Error::DuplicateName`] or
    /// [`Error::InstanceAssociated`].
    pub async fn save_node(&self, lease: &Lease, node: &mut Node) -> Result<()> {
        self.save_node_with(lease, node, &[], &[]).await
    }

    /// The same with entries for journal and history, all or nothing.
    pub async fn save_node_with(
        &self,
        lease: &Lease,
        node: &mut Node,
        journal: &[JournalEntry],
        history: &[HistoryEntry],
    ) -> Result<()> {
        if node.uuid != lease.node {
            return Err(Error::WrongLease {
                node: node.uuid,
                lease: lease.node,
            });
        }
        let mut saved = node.clone();
        saved.updated_at = Some(codec::now());
        saved.reservation = Some(lease.owner.clone());
        let lease = lease.clone();
        let journal = journal.to_vec();
        let history = history.to_vec();
        let tried = Arc::new(AtomicBool::new(false));
        let saved = self
            .write_again(crate::nothing, move |db| {
                Box::pin(async move {
                    if tried.swap(true, Ordering::Relaxed) && is_saved(db, &lease, &saved).await? {
                        return Ok(saved);
                    }
                    save(db, &lease, &saved).await?;
                    journal::append(db, &journal).await?;
                    history::append(db, &history).await?;
                    Ok::<_, Error>(saved)
                })
            })
            .await?;
        *node = saved;
        Ok(())
    }

    /// The node's state and, of its `driver_internal_info`, what `T` has
    /// fields for: far less work than the whole node.
    pub async fn glance<T>(&self, node: Uuid) -> Result<Option<(ProvisionState, T)>>
    where
        T: serde::de::DeserializeOwned + Send + 'static,
    {
        self.read_row(move |db| {
            Box::pin(async move {
                let names = &["provision_state", "driver_internal_info"];
                let sql = "SELECT provision_state, driver_internal_info FROM nodes WHERE uuid = $1";
                let found = db.optional(sql, [node.into()]).await?;
                let Some(found) = found else { return Ok(None) };
                let mut column = codec::Columns::new(&found, "nodes", names);
                Ok(Some((column.parse()?, column.json()?)))
            })
        })
        .await
    }
}

/// The node whose unique `column` has that value, with its lock as of `now`.
pub(crate) async fn find(
    db: &mut Db,
    column: &'static str,
    value: String,
    now: Timestamp,
) -> Result<Option<Node>> {
    let sql = format!("{} WHERE {column} = $1", row::SELECT.as_str());
    // Both parts are constants of this program.
    let found = db.optional(AssertSqlSafe(sql), [value.into()]).await?;
    found.map(|found| row::read(&found, now)).transpose()
}

/// Whether an earlier try to save this was committed although its answer was
/// lost: no other change under the lease has the same time.
async fn is_saved(db: &mut Db, lease: &Lease, node: &Node) -> Result<bool> {
    let sql = "SELECT uuid FROM nodes WHERE uuid = $1 AND reservation = $2 AND lock_epoch = $3 \
               AND updated_at = $4";
    let at = codec::Cell::time(node.updated_at);
    let cells = lease.cells().into_iter().chain([at]);
    Ok(db.optional(sql, cells).await?.is_some())
}

/// Stores all of a node under its lease. An allocation that the node no longer
/// has goes with the same transaction.
pub(crate) async fn save(db: &mut Db, lease: &Lease, node: &Node) -> Result<()> {
    if node.allocation_uuid.is_none() {
        let sql = "DELETE FROM allocations WHERE node_uuid = $1";
        db.execute(sql, [lease.node.into()]).await?;
    }
    let cells = row::cells(node).into_iter().skip(row::UNCHANGING);
    let cells = cells.chain(lease.cells());
    match db.execute(row::UPDATE.as_str(), cells).await {
        Ok(done) => lease.check(done),
        Err(error) if is_unique(&error) => Err(clash(db, node, false, error).await),
        Err(error) => Err(error.into()),
    }
}

/// Finds out which unique value of the node is taken.
async fn clash(db: &mut Db, node: &Node, new: bool, error: sqlx::Error) -> Error {
    match find_clash(db, node, new).await {
        Ok(Some(clash)) => clash,
        Ok(None) => error.into(),
        Err(failed) => failed.into(),
    }
}

async fn find_clash(
    db: &mut Db,
    node: &Node,
    new: bool,
) -> std::result::Result<Option<Error>, sqlx::Error> {
    db.recover().await?;
    if new {
        let sql = "SELECT uuid FROM nodes WHERE uuid = $1";
        let found = db.optional(sql, [node.uuid.into()]).await?;
        if found.is_some() {
            return Ok(Some(Error::DuplicateUuid {
                what: "node",
                uuid: node.uuid,
            }));
        }
    }
    if let Some(name) = &node.name {
        let sql = "SELECT uuid FROM nodes WHERE name = $1 AND uuid <> $2";
        let cells = [codec::Cell::text(name), node.uuid.into()];
        let found = db.optional(sql, cells).await?;
        if found.is_some() {
            return Ok(Some(Error::DuplicateName {
                what: "node",
                name: name.clone(),
            }));
        }
    }
    if let Some(instance) = node.instance_uuid {
        let sql = "SELECT uuid FROM nodes WHERE instance_uuid = $1 AND uuid <> $2";
        let cells = [instance.into(), node.uuid.into()];
        let found = db.optional(sql, cells).await?;
        if let Some(found) = found {
            let node = Uuid::try_parse(found.text(0)?.unwrap_or_default()).unwrap_or_default();
            return Ok(Some(Error::InstanceAssociated { instance, node }));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;

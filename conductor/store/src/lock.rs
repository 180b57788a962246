//! Locks on nodes. A lock is a lease: owner, epoch, expiry. It is taken by one
//! conditional update; when it has run out anybody may take it, and the epoch
//! that goes up with every taking keeps the former owner from writing.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;

use uuid::Uuid;

use crate::Change;
use crate::Error;
use crate::Result;
use crate::Store;
use crate::clock::Clock;
use crate::codec;
use crate::codec::Cell;
use crate::db::Db;
use crate::db::DbRow;
use crate::select::Select;

/// A lock that is held. It ends with [`Store::unlock`], or by itself when it
/// is not renewed in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The node.
    pub node: Uuid,
    /// Who holds it, as `reservation` shows it.
    pub owner: String,
    /// Goes up by one with every lock taken on the node.
    pub epoch: i64,
    /// For how long it holds after it was taken or renewed.
    pub ttl: Duration,
}

/// Why a lock was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// There is no such node.
    #[error("node {0} could not be found")]
    NotFound(Uuid),
    /// Somebody holds it.
    #[error("node {node} is locked by host {owner}")]
    Held {
        /// The node.
        node: Uuid,
        /// Who.
        owner: String,
    },
    /// The database failed.
    #[error(transparent)]
    Store(#[from] Error),
}

impl From<sqlx::Error> for LockError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

impl Lease {
    /// Node, owner and epoch, as conditions take them.
    pub(crate) fn cells(&self) -> [Cell; 3] {
        [self.node.into(), Cell::text(&self.owner), self.epoch.into()]
    }

    /// One row was changed under this lease, or it is lost.
    pub(crate) fn check(&self, rows: u64) -> Result<()> {
        if rows == 1 {
            return Ok(());
        }
        Err(Error::LeaseLost {
            node: self.node,
            owner: self.owner.clone(),
            epoch: self.epoch,
        })
    }
}

/// One try to lock a node.
#[derive(Clone)]
struct Claim {
    node: Uuid,
    owner: String,
    ttl: Duration,
    /// When the lease would end: no other claim of this owner says the same.
    until: i64,
    clock: Arc<Clock>,
    /// Whether it was made before, with an outcome that is not known.
    repeated: Arc<AtomicBool>,
}

impl Claim {
    async fn make(self, db: &mut Db) -> std::result::Result<Lease, LockError> {
        let sql = "UPDATE nodes SET reservation = $1, lock_epoch = lock_epoch + 1, \
                   lock_expires_at = $2 WHERE uuid = $3 AND (reservation IS NULL \
                   OR lock_expires_at IS NULL OR lock_expires_at <= $4) RETURNING lock_epoch";
        let now = self.clock.now();
        let cells = [
            Cell::text(&self.owner),
            self.until.into(),
            self.node.into(),
            now.into(),
        ];
        let repeated = self.repeated.swap(true, Ordering::Relaxed);
        if let Some(taken) = db.optional(sql, cells).await? {
            return Ok(self.lease(taken.int(0)?.unwrap_or_default()));
        }
        let sql = "SELECT reservation, lock_epoch, lock_expires_at FROM nodes WHERE uuid = $1";
        let held = db.optional(sql, [self.node.into()]).await?;
        let held = held.ok_or(LockError::NotFound(self.node))?;
        let owner = held.text(0)?.unwrap_or_default();
        if repeated && owner == self.owner && held.int(2)? == Some(self.until) {
            return Ok(self.lease(held.int(1)?.unwrap_or_default()));
        }
        Err(LockError::Held {
            node: self.node,
            owner: owner.to_owned(),
        })
    }

    fn lease(&self, epoch: i64) -> Lease {
        Lease {
            node: self.node,
            owner: self.owner.clone(),
            epoch,
            ttl: self.ttl,
        }
    }
}

impl Store {
    /// Tries once to lock the node. A lock that has run out is taken over,
    /// also one of the same owner that still runs is [`LockError::Held`].
    pub async fn lock_node(
        &self,
        node: Uuid,
        owner: &str,
        ttl: Duration,
    ) -> std::result::Result<Lease, LockError> {
        let clock = self.clock();
        let claim = Claim {
            node,
            owner: owner.to_owned(),
            ttl,
            until: clock.end_of(ttl),
            clock,
            repeated: Arc::default(),
        };
        self.write_again(crate::nothing, move |db| Box::pin(claim.make(db)))
            .await
    }

    /// Lets the lock run for its whole time again, also when it has run out
    /// and nobody has taken it yet. Fails with [`Error::LeaseLost`].
    pub async fn renew(&self, lease: &Lease) -> Result<()> {
        let (lease, clock) = (lease.clone(), self.clock());
        self.write_again(crate::nothing, move |db| {
            Box::pin(async move {
                let until = clock.end_of(lease.ttl);
                let done = db
                    .execute(
                        "UPDATE nodes SET lock_expires_at = $4 \
                         WHERE uuid = $1 AND reservation = $2 AND lock_epoch = $3",
                        lease.cells().into_iter().chain([until.into()]),
                    )
                    .await?;
                lease.check(done)
            })
        })
        .await
    }

    /// Ends the lock. One that is lost already is left to its new owner.
    pub async fn unlock(&self, lease: Lease) -> Result<()> {
        let node = lease.node;
        let freed = move |_: &()| vec![Change::Freed(node)];
        self.write_again(freed, move |db| {
            Box::pin(async move {
                let done = db
                    .execute(
                        "UPDATE nodes SET reservation = NULL, lock_expires_at = NULL \
                         WHERE uuid = $1 AND reservation = $2 AND lock_epoch = $3",
                        lease.cells(),
                    )
                    .await?;
                if done == 0 {
                    tracing::debug!(node = %lease.node, epoch = lease.epoch, "lock was gone before it was released");
                }
                Ok(())
            })
        })
        .await
    }

    /// Ends every lock of that owner, whatever the case of the name, and
    /// gives back the nodes: what a conductor does when it starts.
    pub async fn release_all(&self, owner: &str) -> Result<Vec<Uuid>> {
        let owner = owner.to_lowercase();
        self.write_again(
            |nodes: &Vec<Uuid>| freed(nodes),
            move |db| {
                Box::pin(async move {
                    let rows = db
                        .all(
                            "UPDATE nodes SET reservation = NULL, lock_expires_at = NULL \
                         WHERE LOWER(reservation) = $1 RETURNING uuid",
                            [owner.into()],
                        )
                        .await?;
                    keys(&rows)
                })
            },
        )
        .await
    }

    /// Ends the locks that have run out and whose owners are none of these
    /// hosts, whatever the case of the name, and gives back the nodes. A
    /// living owner may still renew one that nobody has taken.
    pub async fn free_orphans(&self, alive: &[String]) -> Result<Vec<Uuid>> {
        let alive: Vec<String> = alive.iter().map(|host| host.to_lowercase()).collect();
        let clock = self.clock();
        self.write_again(
            |nodes: &Vec<Uuid>| freed(nodes),
            move |db| {
                Box::pin(async move {
                    let mut free = Select::new(
                        "UPDATE nodes SET reservation = NULL, lock_expires_at = NULL \
                     WHERE reservation IS NOT NULL AND lock_expires_at <= ",
                    );
                    free.push_bind(clock.now());
                    free.push(" AND LOWER(reservation) NOT IN (''");
                    for host in alive {
                        free.push(", ").push_bind(host);
                    }
                    free.push(") RETURNING uuid");
                    keys(&free.all(db).await?)
                })
            },
        )
        .await
    }
}

fn keys(rows: &[DbRow]) -> Result<Vec<Uuid>> {
    rows.iter()
        .map(|row| codec::Columns::new(row, "nodes", &["uuid"]).key())
        .collect()
}

fn freed(nodes: &[Uuid]) -> Vec<Change> {
    nodes.iter().copied().map(Change::Freed).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use uuid::Uuid;

    use super::LockError;
    use crate::Error;
    use crate::Store;
    use crate::testing;

    const TTL: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn one_holder_at_a_time() {
        let store = testing::store().await;
        let node = testing::stored(&store, "a").await.uuid;
        let lease = store.lock_node(node, "host-1", TTL).await.unwrap();
        let shown = store.node_by_uuid(node).await.unwrap().unwrap().reservation;
        assert_eq!(shown.as_deref(), Some("host-1"));
        for owner in ["host-1", "host-2"] {
            let held = store.lock_node(node, owner, TTL).await.unwrap_err();
            assert!(matches!(held, LockError::Held { owner, .. } if owner == "host-1"));
        }
        store.unlock(lease.clone()).await.unwrap();
        let next = store.lock_node(node, "host-2", TTL).await.unwrap();
        assert_eq!(next.epoch, lease.epoch + 1);
        // The old lease ends nothing that is not its own.
        store.unlock(lease).await.unwrap();
        store.renew(&next).await.unwrap();
        let nowhere = store
            .lock_node(Uuid::new_v4(), "host-1", TTL)
            .await
            .unwrap_err();
        assert!(matches!(nowhere, LockError::NotFound(_)));
    }

    #[tokio::test]
    async fn a_lock_that_ran_out_is_taken_and_fences_its_owner() {
        let store = testing::store().await;
        let mut node = testing::stored(&store, "a").await;
        let old = store.lock_node(node.uuid, "host-1", SHORT).await.unwrap();
        tokio::time::sleep(2 * SHORT).await;
        let shown = store.node_by_uuid(node.uuid).await.unwrap().unwrap();
        assert_eq!(shown.reservation, None);
        // Late, but nobody came: it still holds.
        store.renew(&old).await.unwrap();
        store.save_node(&old, &mut node).await.unwrap();
        tokio::time::sleep(2 * SHORT).await;

        let new = store.lock_node(node.uuid, "host-1", TTL).await.unwrap();
        assert_eq!(new.epoch, old.epoch + 1);
        node.last_error = Some("from the past".to_owned());
        let lost = store.save_node(&old, &mut node).await.unwrap_err();
        assert!(matches!(lost, Error::LeaseLost { epoch, .. } if epoch == old.epoch));
        assert!(matches!(
            store.renew(&old).await,
            Err(Error::LeaseLost { .. })
        ));
        assert!(matches!(
            store.destroy_node(&old).await,
            Err(Error::LeaseLost { .. })
        ));
        let stored = store.node_by_uuid(node.uuid).await.unwrap().unwrap();
        assert_eq!(stored.last_error, None);
    }

    #[tokio::test]
    async fn a_conductor_that_starts_ends_its_old_locks() {
        let store = testing::store().await;
        let mut nodes = Vec::new();
        for (name, owner) in [("a", "Host-1"), ("b", "host-2"), ("c", "host-1")] {
            let mut node = testing::stored(&store, name).await;
            let lease = store.lock_node(node.uuid, owner, TTL).await.unwrap();
            store.save_node(&lease, &mut node).await.unwrap();
            nodes.push((node, lease));
        }
        let mut released = store.release_all("HOST-1").await.unwrap();
        released.sort();
        let mut expected = [nodes[0].0.uuid, nodes[2].0.uuid];
        expected.sort();
        assert_eq!(released, expected);
        let (node, lease) = &mut nodes[0];
        assert!(matches!(
            store.save_node(lease, node).await,
            Err(Error::LeaseLost { .. })
        ));
        let (node, lease) = &mut nodes[1];
        store.save_node(lease, node).await.unwrap();
    }

    #[tokio::test]
    async fn locks_of_the_dead_are_freed_when_they_have_run_out() {
        let store = testing::store().await;
        let mut nodes = Vec::new();
        for (name, owner, ttl) in [
            ("a", "dead", SHORT),
            ("b", "dead", TTL),
            ("c", "Alive", SHORT),
        ] {
            let node = testing::stored(&store, name).await.uuid;
            nodes.push(store.lock_node(node, owner, ttl).await.unwrap());
        }
        tokio::time::sleep(2 * SHORT).await;
        let freed = store.free_orphans(&["alive".to_owned()]).await.unwrap();
        assert_eq!(freed, [nodes[0].node]);
        assert!(matches!(
            store.renew(&nodes[0]).await,
            Err(Error::LeaseLost { .. })
        ));
        store.renew(&nodes[1]).await.unwrap();
        store.renew(&nodes[2]).await.unwrap();
    }

    /// Two processes, each with a connection of its own where there are two.
    #[tokio::test]
    async fn the_former_owner_is_fenced_in_every_table() {
        let (here, there) = testing::pair().await;
        let mut node = testing::stored(&here, "a").await;
        let old = here.lock_node(node.uuid, "c1", SHORT).await.unwrap();
        tokio::time::sleep(2 * SHORT).await;
        let new = there.lock_node(node.uuid, "c2", TTL).await.unwrap();
        assert_eq!(new.epoch, old.epoch + 1);
        let lost = |outcome: crate::Result<()>| matches!(outcome, Err(Error::LeaseLost { .. }));
        assert!(lost(here.renew(&old).await));
        assert!(lost(here.save_node(&old, &mut node).await));
        let parts = Vec::<crate::BiosSetting>::new();
        assert!(lost(here.replace_parts(&old, parts).await));
        assert!(lost(here.destroy_node(&old).await));
        here.unlock(old).await.unwrap();
        let held = here.lock_node(node.uuid, "c1", TTL).await.unwrap_err();
        assert!(matches!(held, LockError::Held { owner, .. } if owner == "c2"));
        there.save_node(&new, &mut node).await.unwrap();
    }

    /// Twenty tasks add up a number that only the lock protects, on a file
    /// with real readers beside the writer.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn competing_tasks_lose_no_update() {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", dir.path().join("w.db").display());
        let store = Store::open(&url).await.unwrap();
        let node = testing::stored(&store, "a").await.uuid;
        let holders = Arc::new(AtomicU32::new(0));
        let mut tasks = Vec::new();
        for number in 0..20 {
            let (store, holders) = (store.clone(), holders.clone());
            tasks.push(tokio::spawn(async move {
                let owner = format!("host-{number}");
                let lease = loop {
                    match store.lock_node(node, &owner, TTL).await {
                        Ok(lease) => break lease,
                        Err(LockError::Held { .. }) => {
                            tokio::time::sleep(Duration::from_millis(2)).await;
                        }
                        Err(error) => panic!("{error}"),
                    }
                };
                assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                let mut stored = store.node_by_uuid(node).await.unwrap().unwrap();
                let sum = stored
                    .extra
                    .get("sum")
                    .and_then(|sum| sum.as_i64())
                    .unwrap_or(0);
                stored.extra.insert("sum".to_owned(), (sum + 1).into());
                store.save_node(&lease, &mut stored).await.unwrap();
                holders.fetch_sub(1, Ordering::SeqCst);
                store.unlock(lease).await.unwrap();
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        let stored = store.node_by_uuid(node).await.unwrap().unwrap();
        assert_eq!(stored.extra["sum"], 20);
        assert_eq!(stored.reservation, None);
        store.close().await;
    }
}

//! Locks on nodes. A lock is a lease: owner, epoch, expiry. It is taken by one
//! conditional update; when it has run out anybody may take it, and the epoch
//! that goes up with every taking keeps the former owner from writing.

use std::time::Duration;

use jiff::Timestamp;
use sqlx::Row;
use uuid::Uuid;

use crate::Error;
use crate::Result;
use crate::Store;
use crate::codec;

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

/// The moment at which a lease taken now ends.
fn expiry(now: Timestamp, ttl: Duration) -> i64 {
    let ttl = i64::try_from(ttl.as_micros()).unwrap_or(i64::MAX);
    now.as_microsecond().saturating_add(ttl)
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
        let owner = owner.to_owned();
        self.write(move |db| {
            Box::pin(async move {
                let now = codec::now();
                let taken = sqlx::query(
                    "UPDATE nodes SET reservation = $1, lock_epoch = lock_epoch + 1, lock_expires_at = $2 \
                     WHERE uuid = $3 AND (reservation IS NULL OR lock_expires_at IS NULL OR lock_expires_at <= $4) \
                     RETURNING lock_epoch",
                )
                .bind(&owner)
                .bind(expiry(now, ttl))
                .bind(node.to_string())
                .bind(now.as_microsecond())
                .fetch_optional(&mut *db)
                .await?;
                if let Some(taken) = taken {
                    return Ok(Lease { node, owner, epoch: taken.try_get(0)?, ttl });
                }
                let held = sqlx::query("SELECT reservation FROM nodes WHERE uuid = $1")
                    .bind(node.to_string())
                    .fetch_optional(&mut *db)
                    .await?
                    .ok_or(LockError::NotFound(node))?;
                let owner: Option<String> = held.try_get(0)?;
                Err(LockError::Held { node, owner: owner.unwrap_or_default() })
            })
        })
        .await
    }

    /// Lets the lock run for its whole time again, also when it has run out
    /// and nobody has taken it yet. Fails with [`Error::LeaseLost`].
    pub async fn renew(&self, lease: &Lease) -> Result<()> {
        let lease = lease.clone();
        self.write(move |db| {
            Box::pin(async move {
                let done = sqlx::query(
                    "UPDATE nodes SET lock_expires_at = $1 WHERE uuid = $2 AND reservation = $3 AND lock_epoch = $4",
                )
                .bind(expiry(codec::now(), lease.ttl))
                .bind(lease.node.to_string())
                .bind(&lease.owner)
                .bind(lease.epoch)
                .execute(db)
                .await?;
                lease.check(done.rows_affected())
            })
        })
        .await
    }

    /// Ends the lock. One that is lost already is left to its new owner.
    pub async fn unlock(&self, lease: Lease) -> Result<()> {
        self.write(move |db| {
            Box::pin(async move {
                let done = sqlx::query(
                    "UPDATE nodes SET reservation = NULL, lock_expires_at = NULL \
                     WHERE uuid = $1 AND reservation = $2 AND lock_epoch = $3",
                )
                .bind(lease.node.to_string())
                .bind(&lease.owner)
                .bind(lease.epoch)
                .execute(db)
                .await?;
                if done.rows_affected() == 0 {
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
        self.write(move |db| {
            Box::pin(async move {
                let rows = sqlx::query(
                    "UPDATE nodes SET reservation = NULL, lock_expires_at = NULL \
                     WHERE LOWER(reservation) = $1 RETURNING uuid",
                )
                .bind(owner)
                .fetch_all(db)
                .await?;
                rows.iter()
                    .map(|row| codec::Columns::new(row, "nodes", &["uuid"]).key())
                    .collect()
            })
        })
        .await
    }
}

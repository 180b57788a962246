//! What a search for a node reads and stores.

use uuid::Uuid;
use wrought_wire::state::AllocationState;
use wrought_wire::state::ProvisionState;

use super::Allocation;
use crate::Error;
use crate::HistoryEntry;
use crate::Lease;
use crate::Node;
use crate::Result;
use crate::Store;
use crate::codec;
use crate::codec::Cell;
use crate::codec::Columns;
use crate::history;
use crate::node;
use crate::page;
use crate::select::Select;

/// A node that may be given to an allocation, as far as a look without its
/// lock can tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Identity.
    pub uuid: Uuid,
    /// Name.
    pub name: Option<String>,
    /// Traits.
    pub traits: Vec<String>,
}

const CANDIDATE: &[&str] = &["uuid", "name", "traits"];

impl Store {
    /// The nodes that are free for the allocation, traits apart: of its class
    /// (any when it names none), `available`, without an instance, not in
    /// maintenance, with a known power state, among its candidates, and of its
    /// owner.
    pub async fn allocation_candidates(&self, wanted: &Allocation) -> Result<Vec<Candidate>> {
        let wanted = wanted.clone();
        self.read(move |db| {
            Box::pin(async move {
                let mut select = Select::new(
                    "SELECT uuid, name, traits FROM nodes WHERE instance_uuid IS NULL \
                     AND power_state IS NOT NULL AND maintenance = 0",
                );
                let available = ProvisionState::Available.as_str().to_owned();
                page::equal(&mut select, "provision_state", Some(available));
                page::equal(&mut select, "resource_class", wanted.resource_class);
                let among = wanted.candidate_nodes.iter().map(Uuid::to_string);
                page::within(&mut select, "uuid", among);
                if let Some(owner) = wanted.owner {
                    select.push(" AND (owner = ").push_bind(owner.clone());
                    select.push(" OR lessee = ").push_bind(owner).push(")");
                }
                let rows = select.all(db).await?;
                let candidate = |row| {
                    let mut column = Columns::new(row, "nodes", CANDIDATE);
                    Ok(Candidate {
                        uuid: column.key()?,
                        name: column.maybe_text()?,
                        traits: column.json()?,
                    })
                };
                rows.iter().map(candidate).collect()
            })
        })
        .await
    }

    /// Gives a locked node, whose new values are in `node`, to an allocation:
    /// both or neither is stored. False when the allocation is gone or no
    /// longer `allocating`. Fails as [`Store::save_node`] does.
    pub async fn allocate(
        &self,
        lease: &Lease,
        node: &mut Node,
        allocation: Uuid,
        history: &[HistoryEntry],
    ) -> Result<bool> {
        let mut saved = node.clone();
        saved.allocation_uuid = Some(allocation);
        saved.updated_at = Some(codec::now());
        let (lease, history) = (lease.clone(), history.to_vec());
        let saved = self
            .write(move |db| {
                Box::pin(async move {
                    let sql = "UPDATE allocations SET node_uuid = $1, state = $2, \
                               last_error = NULL, updated_at = $3 WHERE uuid = $4 AND state = $5";
                    let cells = [
                        lease.node.into(),
                        Cell::text(AllocationState::Active.as_str()),
                        codec::now().into(),
                        allocation.into(),
                        Cell::text(AllocationState::Allocating.as_str()),
                    ];
                    if db.execute(sql, cells).await? == 0 {
                        return Ok(None);
                    }
                    node::save(db, &lease, &saved).await?;
                    history::append(db, &history).await?;
                    Ok::<_, Error>(Some(saved))
                })
            })
            .await?;
        let Some(saved) = saved else { return Ok(false) };
        *node = saved;
        Ok(true)
    }

    /// Deletes an allocation that has no node. False when it has one by now,
    /// or is gone.
    pub async fn remove_waiting_allocation(&self, allocation: Uuid) -> Result<bool> {
        self.write(move |db| {
            Box::pin(async move {
                let sql = "DELETE FROM allocations WHERE uuid = $1 AND node_uuid IS NULL";
                Ok::<_, Error>(db.execute(sql, [allocation.into()]).await? == 1)
            })
        })
        .await
    }

    /// Says that the conductor on `host` looks for the allocation's node from
    /// now on. False when another one was faster, or nobody needs to.
    pub async fn claim_allocation(&self, found: &Allocation, host: &str) -> Result<bool> {
        let before = found.conductor.clone().unwrap_or_default();
        let (allocation, host) = (found.uuid, host.to_owned());
        self.write_again(crate::nothing, move |db| {
            Box::pin(async move {
                let sql = "UPDATE allocations SET conductor = $1 WHERE uuid = $2 AND state = $3 \
                           AND COALESCE(conductor, '') IN ($4, $1)";
                let cells = [
                    Cell::text(host),
                    allocation.into(),
                    Cell::text(AllocationState::Allocating.as_str()),
                    Cell::text(before),
                ];
                Ok::<_, Error>(db.execute(sql, cells).await? == 1)
            })
        })
        .await
    }

    /// Ends the search for a node without one. An allocation that is gone or
    /// no longer `allocating` is left alone.
    pub async fn fail_allocation(&self, allocation: Uuid, reason: &str) -> Result<()> {
        let reason = reason.to_owned();
        self.write_again(crate::nothing, move |db| {
            Box::pin(async move {
                let sql = "UPDATE allocations SET state = $1, last_error = $2, updated_at = $3 \
                           WHERE uuid = $4 AND state = $5";
                let cells = [
                    Cell::text(AllocationState::Error.as_str()),
                    Cell::text(reason),
                    codec::now().into(),
                    allocation.into(),
                    Cell::text(AllocationState::Allocating.as_str()),
                ];
                db.execute(sql, cells).await?;
                Ok::<_, Error>(())
            })
        })
        .await
    }
}

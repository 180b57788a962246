//! Allocations: requests for a node, and the nodes that they got.
//!
//! `allocations.node_uuid` is the only tie between an allocation and its node;
//! a node's `allocation_uuid` is read from it. A node that is saved without
//! its allocation loses it in the same transaction.

use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Map;
use serde_json::Value;
use uuid::Uuid;
use wrought_wire::state::AllocationState;
use wrought_wire::state::ProvisionState;

use crate::Error;
use crate::HistoryEntry;
use crate::Lease;
use crate::Node;
use crate::Result;
use crate::Store;
use crate::codec;
use crate::codec::Cell;
use crate::codec::Columns;
use crate::db::DbRow;
use crate::history;
use crate::node;
use crate::page;
use crate::row::Filter;
use crate::row::Reference;
use crate::row::Row;
use crate::row::Table;
use crate::row::identity;
use crate::row::unique_name;
use crate::select::Select;

/// One allocation. Field names are the API's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Allocation {
    /// Identity; also the `instance_uuid` of the node that it gets.
    pub uuid: Uuid,
    /// Optional unique name.
    pub name: Option<String>,
    /// The node that it got.
    pub node_uuid: Option<Uuid>,
    /// How far it is.
    pub state: AllocationState,
    /// Why it got none.
    pub last_error: Option<String>,
    /// Class of the wanted node.
    pub resource_class: Option<String>,
    /// Traits that the node must have.
    pub traits: Vec<String>,
    /// The only nodes that come into question; empty: any.
    pub candidate_nodes: Vec<Uuid>,
    /// Operator's own data.
    pub extra: Map<String, Value>,
    /// Project that it is for; only nodes that it owns or leases fit (1.60).
    pub owner: Option<String>,
    /// The conductor that looks for a node.
    pub conductor: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Option<Timestamp>,
}

impl Default for Allocation {
    fn default() -> Self {
        Self {
            uuid: Uuid::new_v4(),
            name: None,
            node_uuid: None,
            state: AllocationState::Allocating,
            last_error: None,
            resource_class: None,
            traits: Vec::new(),
            candidate_nodes: Vec::new(),
            extra: Map::new(),
            owner: None,
            conductor: None,
            created_at: codec::now(),
            updated_at: None,
        }
    }
}

static TABLE: Table = Table::new(
    "allocations",
    "allocation",
    &[
        "uuid",
        "created_at",
        "name",
        "node_uuid",
        "state",
        "last_error",
        "resource_class",
        "traits",
        "candidate_nodes",
        "extra",
        "owner",
        "conductor",
        "updated_at",
    ],
    &[
        "uuid",
        "created_at",
        "name",
        "node_uuid",
        "state",
        "last_error",
        "resource_class",
        "owner",
        "updated_at",
    ],
    &[unique_name!("allocation")],
    &[Reference::NODE],
);

impl Row for Allocation {
    identity!(TABLE);

    fn read(row: &DbRow) -> Result<Self> {
        let mut column = TABLE.columns(row);
        Ok(Self {
            uuid: column.key()?,
            created_at: column.time()?,
            name: column.maybe_text()?,
            node_uuid: column.maybe_parse()?,
            state: column.parse()?,
            last_error: column.maybe_text()?,
            resource_class: column.maybe_text()?,
            traits: column.json()?,
            candidate_nodes: column.json()?,
            extra: column.json()?,
            owner: column.maybe_text()?,
            conductor: column.maybe_text()?,
            updated_at: column.maybe_time()?,
        })
    }

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(self.uuid.to_string()),
            Cell::time(Some(self.created_at)),
            Cell::maybe(self.name.as_ref()),
            Cell::shown(self.node_uuid),
            Cell::text(self.state.as_str()),
            Cell::maybe(self.last_error.as_ref()),
            Cell::maybe(self.resource_class.as_ref()),
            Cell::json(&self.traits),
            Cell::json(&self.candidate_nodes),
            Cell::json(&self.extra),
            Cell::maybe(self.owner.as_ref()),
            Cell::maybe(self.conductor.as_ref()),
            Cell::time(self.updated_at),
        ]
    }
}

/// Which allocations are wanted.
#[derive(Debug, Clone, Default)]
pub struct AllocationQuery {
    /// That of this node.
    pub node_uuid: Option<Uuid>,
    /// For this class.
    pub resource_class: Option<String>,
    /// This far.
    pub state: Option<String>,
    /// For this project.
    pub owner: Option<String>,
}

impl Filter for AllocationQuery {
    type Row = Allocation;

    fn push(&self, select: &mut Select) {
        let node = self.node_uuid.map(|uuid| uuid.to_string());
        page::equal(select, "node_uuid", node);
        page::equal(select, "resource_class", self.resource_class.clone());
        page::equal(select, "state", self.state.clone());
        page::equal(select, "owner", self.owner.clone());
    }
}

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

    /// Ends the search for a node without one. An allocation that is gone or
    /// no longer `allocating` is left alone.
    pub async fn fail_allocation(&self, allocation: Uuid, reason: &str) -> Result<()> {
        let reason = reason.to_owned();
        self.write(move |db| {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use uuid::Uuid;
    use wrought_wire::state::AllocationState;
    use wrought_wire::state::PowerState;
    use wrought_wire::state::ProvisionState;

    use super::Allocation;
    use super::AllocationQuery;
    use crate::Error;
    use crate::Node;
    use crate::row::PageQuery;
    use crate::testing;

    const TTL: Duration = Duration::from_secs(60);

    fn allocation(name: &str) -> Allocation {
        Allocation {
            name: Some(name.to_owned()),
            resource_class: Some("baremetal".to_owned()),
            ..Allocation::default()
        }
    }

    fn free(name: &str) -> Node {
        let mut node = testing::node(name);
        node.resource_class = Some("baremetal".to_owned());
        node.provision_state = ProvisionState::Available;
        node.power_state = Some(PowerState::Off);
        node
    }

    #[tokio::test]
    async fn a_node_has_at_most_one_and_loses_it_when_saved_without() {
        let store = testing::store().await;
        let wanted = allocation("one");
        store.insert(&wanted).await.unwrap();
        assert_eq!(store.row(wanted.uuid).await.unwrap(), Some(wanted.clone()));
        let mut node = free("a");
        store.create_node(&node).await.unwrap();
        let lease = store.lock_node(node.uuid, "host-1", TTL).await.unwrap();
        node.instance_uuid = Some(wanted.uuid);
        assert!(
            store
                .allocate(&lease, &mut node, wanted.uuid, &[])
                .await
                .unwrap()
        );
        let shown = store.node_by_uuid(node.uuid).await.unwrap().unwrap();
        assert_eq!(shown.allocation_uuid, Some(wanted.uuid));
        let got: Allocation = store.row_by_ident("one").await.unwrap().unwrap();
        assert_eq!(got.node_uuid, Some(node.uuid));
        assert_eq!(got.state, AllocationState::Active);
        // Once only.
        assert!(
            !store
                .allocate(&lease, &mut node, wanted.uuid, &[])
                .await
                .unwrap()
        );
        assert!(!store.remove_waiting_allocation(wanted.uuid).await.unwrap());
        store
            .fail_allocation(wanted.uuid, "too late")
            .await
            .unwrap();
        let of_node = AllocationQuery {
            node_uuid: Some(node.uuid),
            ..AllocationQuery::default()
        };
        let found = store.rows(&of_node, &PageQuery::default()).await.unwrap();
        assert_eq!(found, [got]);
        // Saved with it, it stays; saved without, it goes.
        store.save_node(&lease, &mut node).await.unwrap();
        assert!(
            store
                .row::<Allocation>(wanted.uuid)
                .await
                .unwrap()
                .is_some()
        );
        node.allocation_uuid = None;
        store.save_node(&lease, &mut node).await.unwrap();
        assert!(
            store
                .row::<Allocation>(wanted.uuid)
                .await
                .unwrap()
                .is_none()
        );
    }

    #[tokio::test]
    async fn it_goes_with_its_node_and_not_without_the_lease() {
        let store = testing::store().await;
        let wanted = allocation("one");
        store.insert(&wanted).await.unwrap();
        let mut node = free("a");
        store.create_node(&node).await.unwrap();
        let old = store.lock_node(node.uuid, "host-1", TTL).await.unwrap();
        store.unlock(old.clone()).await.unwrap();
        let error = store
            .allocate(&old, &mut node, wanted.uuid, &[])
            .await
            .unwrap_err();
        assert!(matches!(error, Error::LeaseLost { .. }), "{error}");
        let kept: Allocation = store.row(wanted.uuid).await.unwrap().unwrap();
        assert_eq!(kept.state, AllocationState::Allocating);
        let lease = store.lock_node(node.uuid, "host-1", TTL).await.unwrap();
        assert!(
            store
                .allocate(&lease, &mut node, wanted.uuid, &[])
                .await
                .unwrap()
        );
        node.allocation_uuid = None;
        assert!(store.save_node(&old, &mut node).await.is_err());
        assert!(
            store
                .row::<Allocation>(wanted.uuid)
                .await
                .unwrap()
                .is_some()
        );
        store.destroy_node(&lease).await.unwrap();
        assert!(
            store
                .row::<Allocation>(wanted.uuid)
                .await
                .unwrap()
                .is_none()
        );
    }

    #[tokio::test]
    async fn candidates_are_free_nodes() {
        let store = testing::store().await;
        let mut good = free("good");
        good.owner = Some("p".to_owned());
        good.traits = vec!["CUSTOM_A".to_owned()];
        store.create_node(&good).await.unwrap();
        type Change = (&'static str, fn(&mut Node));
        let changes: [Change; 5] = [
            ("class", |node| node.resource_class = None),
            ("state", |node| {
                node.provision_state = ProvisionState::Active
            }),
            ("instance", |node| node.instance_uuid = Some(Uuid::new_v4())),
            ("maintenance", |node| node.maintenance = true),
            ("power", |node| node.power_state = None),
        ];
        for (name, change) in changes {
            let mut node = free(name);
            change(&mut node);
            store.create_node(&node).await.unwrap();
        }
        let mut wanted = allocation("one");
        let found = store.allocation_candidates(&wanted).await.unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].uuid, &found[0].traits), (good.uuid, &good.traits));
        wanted.owner = Some("other".to_owned());
        assert!(
            store
                .allocation_candidates(&wanted)
                .await
                .unwrap()
                .is_empty()
        );
        wanted.owner = Some("p".to_owned());
        wanted.candidate_nodes = vec![Uuid::new_v4()];
        assert!(
            store
                .allocation_candidates(&wanted)
                .await
                .unwrap()
                .is_empty()
        );
        wanted.candidate_nodes.push(good.uuid);
        assert_eq!(store.allocation_candidates(&wanted).await.unwrap(), found);
        wanted.resource_class = Some("other".to_owned());
        assert!(
            store
                .allocation_candidates(&wanted)
                .await
                .unwrap()
                .is_empty()
        );
    }
}

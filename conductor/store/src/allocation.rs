//! Allocations: requests for a node, and the nodes that they got.
//!
//! `allocations.node_uuid` is the only tie between an allocation and its node;
//! a node's `allocation_uuid` is read from it. A node that is saved without
//! its allocation loses it in the same transaction.

mod search;

pub use search::Candidate;

use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Map;
use serde_json::Value;
use uuid::Uuid;
use wrought_wire::state::AllocationState;

use crate::Result;
use crate::codec;
use crate::codec::Cell;
use crate::db::DbRow;
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

#[cfg(test)]
mod tests;

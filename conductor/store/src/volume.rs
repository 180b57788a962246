//! Remote volumes of nodes: connectors (who a node is for the storage) and
//! targets (which volumes it has).

mod connector;
mod target;

use uuid::Uuid;

pub use connector::VolumeConnector;
pub use target::VolumeTarget;

use crate::page;
use crate::row::Filter;
use crate::select::Select;

/// Which connectors are wanted.
#[derive(Debug, Clone, Default)]
pub struct ConnectorQuery {
    /// Of this node.
    pub node_uuid: Option<Uuid>,
}

/// Which targets are wanted.
#[derive(Debug, Clone, Default)]
pub struct TargetQuery {
    /// Of this node.
    pub node_uuid: Option<Uuid>,
}

impl Filter for ConnectorQuery {
    type Row = VolumeConnector;

    fn push(&self, select: &mut Select) {
        of_node(select, self.node_uuid);
    }
}

impl Filter for TargetQuery {
    type Row = VolumeTarget;

    fn push(&self, select: &mut Select) {
        of_node(select, self.node_uuid);
    }
}

fn of_node(select: &mut Select, node: Option<Uuid>) {
    page::equal(select, "node_uuid", node.map(|uuid| uuid.to_string()));
}

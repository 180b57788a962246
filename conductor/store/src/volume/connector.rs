//! The table of volume connectors.

use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Map;
use serde_json::Value;
use uuid::Uuid;

use crate::Error;
use crate::Result;
use crate::codec;
use crate::codec::Cell;
use crate::db::DbRow;
use crate::row::Reference;
use crate::row::Row;
use crate::row::Table;
use crate::row::Unique;
use crate::row::identity;

/// What a node is known as to a storage network. Field names are the API's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeConnector {
    /// Identity.
    pub uuid: Uuid,
    /// The node that has it.
    pub node_uuid: Uuid,
    /// Kind of `connector_id`: `iqn`, `ip`, `mac`, `wwnn`, `wwpn`, `port`,
    /// `portgroup`, or another that a storage interface knows.
    #[serde(rename = "type")]
    pub kind: String,
    /// The name.
    pub connector_id: String,
    /// Operator's own data.
    pub extra: Map<String, Value>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Option<Timestamp>,
}

impl Default for VolumeConnector {
    fn default() -> Self {
        Self {
            uuid: Uuid::new_v4(),
            node_uuid: Uuid::nil(),
            kind: String::new(),
            connector_id: String::new(),
            extra: Map::new(),
            created_at: codec::now(),
            updated_at: None,
        }
    }
}

static TABLE: Table = Table::new(
    "volume_connectors",
    "volume connector",
    &[
        "uuid",
        "created_at",
        "node_uuid",
        "type",
        "connector_id",
        "extra",
        "updated_at",
    ],
    &[
        "uuid",
        "created_at",
        "node_uuid",
        "type",
        "connector_id",
        "updated_at",
    ],
    &[Unique {
        columns: &["type", "connector_id"],
        taken: |values, other| Error::Duplicate {
            what: "volume connector",
            values: format!("type and connector_id {}", values.join(" ")),
            other,
        },
    }],
    &[Reference::NODE],
);

impl Row for VolumeConnector {
    identity!(TABLE);

    fn read(row: &DbRow) -> Result<Self> {
        let mut column = TABLE.columns(row);
        Ok(Self {
            uuid: column.key()?,
            created_at: column.time()?,
            node_uuid: column.parse()?,
            kind: column.text()?,
            connector_id: column.text()?,
            extra: column.json()?,
            updated_at: column.maybe_time()?,
        })
    }

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(self.uuid.to_string()),
            Cell::time(Some(self.created_at)),
            Cell::text(self.node_uuid.to_string()),
            Cell::text(self.kind.clone()),
            Cell::text(self.connector_id.clone()),
            Cell::json(&self.extra),
            Cell::time(self.updated_at),
        ]
    }
}

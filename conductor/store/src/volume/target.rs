//! The table of volume targets.

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

/// A volume that a node has. Field names are the API's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeTarget {
    /// Identity.
    pub uuid: Uuid,
    /// The node that has it.
    pub node_uuid: Uuid,
    /// How it is reached, such as `iscsi`.
    pub volume_type: String,
    /// Its name in the storage.
    pub volume_id: String,
    /// Place in the boot order; 0 is the root disk.
    pub boot_index: u32,
    /// How it is reached in detail; secrets are in it.
    pub properties: Map<String, Value>,
    /// Operator's own data.
    pub extra: Map<String, Value>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Option<Timestamp>,
}

impl Default for VolumeTarget {
    fn default() -> Self {
        Self {
            uuid: Uuid::new_v4(),
            node_uuid: Uuid::nil(),
            volume_type: String::new(),
            volume_id: String::new(),
            boot_index: 0,
            properties: Map::new(),
            extra: Map::new(),
            created_at: codec::now(),
            updated_at: None,
        }
    }
}

static TABLE: Table = Table::new(
    "volume_targets",
    "volume target",
    &[
        "uuid",
        "created_at",
        "node_uuid",
        "volume_type",
        "volume_id",
        "boot_index",
        "properties",
        "extra",
        "updated_at",
    ],
    &[
        "uuid",
        "created_at",
        "node_uuid",
        "volume_type",
        "volume_id",
        "boot_index",
        "updated_at",
    ],
    &[Unique {
        columns: &["node_uuid", "boot_index"],
        taken: |values, other| Error::Duplicate {
            what: "volume target",
            values: format!("node_uuid and boot_index {}", values.join(" ")),
            other,
        },
    }],
    &[Reference::NODE],
);

impl Row for VolumeTarget {
    identity!(TABLE);

    fn read(row: &DbRow) -> Result<Self> {
        let mut column = TABLE.columns(row);
        Ok(Self {
            uuid: column.key()?,
            created_at: column.time()?,
            node_uuid: column.parse()?,
            volume_type: column.text()?,
            volume_id: column.text()?,
            boot_index: column.small()?,
            properties: column.json()?,
            extra: column.json()?,
            updated_at: column.maybe_time()?,
        })
    }

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(self.uuid.to_string()),
            Cell::time(Some(self.created_at)),
            Cell::text(self.node_uuid.to_string()),
            Cell::text(self.volume_type.clone()),
            Cell::text(self.volume_id.clone()),
            Cell::Int(Some(i64::from(self.boot_index))),
            Cell::json(&self.properties),
            Cell::json(&self.extra),
            Cell::time(self.updated_at),
        ]
    }
}

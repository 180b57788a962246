//! Chassis: what nodes are mounted in.

use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Map;
use serde_json::Value;
use uuid::Uuid;

use crate::Result;
use crate::codec;
use crate::codec::Cell;
use crate::db::DbRow;
use crate::row::Filter;
use crate::row::Row;
use crate::row::Table;
use crate::row::identity;
use crate::select::Select;

/// One chassis. Field names are the API's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chassis {
    /// Identity.
    pub uuid: Uuid,
    /// Free text.
    pub description: Option<String>,
    /// Operator's own data.
    pub extra: Map<String, Value>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Option<Timestamp>,
}

impl Default for Chassis {
    fn default() -> Self {
        Self {
            uuid: Uuid::new_v4(),
            description: None,
            extra: Map::new(),
            created_at: codec::now(),
            updated_at: None,
        }
    }
}

/// All chassis.
#[derive(Debug, Clone, Default)]
pub struct ChassisQuery;

static TABLE: Table = Table::new(
    "chassis",
    "chassis",
    &["uuid", "created_at", "description", "extra", "updated_at"],
    &["uuid", "created_at", "description", "updated_at"],
    &[],
    &[],
);

impl Row for Chassis {
    identity!(TABLE);

    fn read(row: &DbRow) -> Result<Self> {
        let mut column = TABLE.columns(row);
        Ok(Self {
            uuid: column.key()?,
            created_at: column.time()?,
            description: column.maybe_text()?,
            extra: column.json()?,
            updated_at: column.maybe_time()?,
        })
    }

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(self.uuid.to_string()),
            Cell::time(Some(self.created_at)),
            Cell::maybe(self.description.as_ref()),
            Cell::json(&self.extra),
            Cell::time(self.updated_at),
        ]
    }
}

impl Filter for ChassisQuery {
    type Row = Chassis;

    fn push(&self, _: &mut Select) {}
}

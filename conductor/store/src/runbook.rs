//! Runbooks: named lists of steps for cleaning and servicing.

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
use crate::row::unique_name;
use crate::select::Select;

/// One runbook. Field names are the API's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Runbook {
    /// Identity.
    pub uuid: Uuid,
    /// Unique name.
    pub name: String,
    /// What is done.
    pub steps: Vec<RunbookStep>,
    /// Whether it runs without the ramdisk.
    pub disable_ramdisk: bool,
    /// Whether everybody may use it.
    pub public: bool,
    /// The project whose it is; none: the operators'.
    pub owner: Option<String>,
    /// Free text.
    pub description: Option<String>,
    /// Traits of which a node must have one (1.112).
    pub traits: Vec<String>,
    /// Operator's own data.
    pub extra: Map<String, Value>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Option<Timestamp>,
}

/// A step of a runbook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunbookStep {
    /// Interface that has it.
    pub interface: String,
    /// Its name.
    pub step: String,
    /// Arguments; they may hold secrets.
    pub args: Map<String, Value>,
    /// Smaller is earlier.
    pub order: u32,
}

impl Default for Runbook {
    fn default() -> Self {
        Self {
            uuid: Uuid::new_v4(),
            name: String::new(),
            steps: Vec::new(),
            disable_ramdisk: false,
            public: false,
            owner: None,
            description: None,
            traits: Vec::new(),
            extra: Map::new(),
            created_at: codec::now(),
            updated_at: None,
        }
    }
}

/// All runbooks.
#[derive(Debug, Clone, Default)]
pub struct RunbookQuery;

static TABLE: Table = Table::new(
    "runbooks",
    "runbook",
    &[
        "uuid",
        "created_at",
        "name",
        "steps",
        "disable_ramdisk",
        "public",
        "owner",
        "description",
        "traits",
        "extra",
        "updated_at",
    ],
    &[
        "uuid",
        "created_at",
        "name",
        "disable_ramdisk",
        "public",
        "owner",
        "description",
        "updated_at",
    ],
    &[unique_name!("runbook")],
    &[],
);

impl Row for Runbook {
    identity!(TABLE);

    fn read(row: &DbRow) -> Result<Self> {
        let mut column = TABLE.columns(row);
        Ok(Self {
            uuid: column.key()?,
            created_at: column.time()?,
            name: column.text()?,
            steps: column.json()?,
            disable_ramdisk: column.bool()?,
            public: column.bool()?,
            owner: column.maybe_text()?,
            description: column.maybe_text()?,
            traits: column.json()?,
            extra: column.json()?,
            updated_at: column.maybe_time()?,
        })
    }

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(self.uuid.to_string()),
            Cell::time(Some(self.created_at)),
            Cell::text(self.name.clone()),
            Cell::json(&self.steps),
            Cell::bool(self.disable_ramdisk),
            Cell::bool(self.public),
            Cell::maybe(self.owner.as_ref()),
            Cell::maybe(self.description.as_ref()),
            Cell::json(&self.traits),
            Cell::json(&self.extra),
            Cell::time(self.updated_at),
        ]
    }
}

impl Filter for RunbookQuery {
    type Row = Runbook;

    fn push(&self, _: &mut Select) {}
}

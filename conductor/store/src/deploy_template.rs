//! Deploy templates: steps that a deployment gets when its instance asks for
//! the trait of that name.

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
use crate::page;
use crate::row::Filter;
use crate::row::Row;
use crate::row::Table;
use crate::row::identity;
use crate::row::unique_name;
use crate::select::Select;

/// One template. Field names are the API's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeployTemplate {
    /// Identity.
    pub uuid: Uuid,
    /// Unique name: a trait.
    pub name: String,
    /// What a deployment gets.
    pub steps: Vec<TemplateStep>,
    /// Operator's own data.
    pub extra: Map<String, Value>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Option<Timestamp>,
}

/// A step of a template.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TemplateStep {
    /// Interface that has it.
    pub interface: String,
    /// Its name.
    pub step: String,
    /// Arguments; they may hold secrets.
    pub args: Map<String, Value>,
    /// Larger is earlier; 0 switches a default step off.
    pub priority: u32,
}

impl Default for DeployTemplate {
    fn default() -> Self {
        Self {
            uuid: Uuid::new_v4(),
            name: String::new(),
            steps: Vec::new(),
            extra: Map::new(),
            created_at: codec::now(),
            updated_at: None,
        }
    }
}

/// Which templates are wanted.
#[derive(Debug, Clone, Default)]
pub struct DeployTemplateQuery {
    /// With one of these names; empty: any.
    pub names: Vec<String>,
}

static TABLE: Table = Table::new(
    "deploy_templates",
    "deploy template",
    &["uuid", "created_at", "name", "steps", "extra", "updated_at"],
    &["uuid", "created_at", "name", "updated_at"],
    &[unique_name!("deploy template")],
    &[],
);

impl Row for DeployTemplate {
    identity!(TABLE);

    fn read(row: &DbRow) -> Result<Self> {
        let mut column = TABLE.columns(row);
        Ok(Self {
            uuid: column.key()?,
            created_at: column.time()?,
            name: column.text()?,
            steps: column.json()?,
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
            Cell::json(&self.extra),
            Cell::time(self.updated_at),
        ]
    }
}

impl Filter for DeployTemplateQuery {
    type Row = DeployTemplate;

    fn push(&self, select: &mut Select) {
        page::within(select, "name", self.names.iter().cloned());
    }
}

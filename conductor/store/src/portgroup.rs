//! Portgroups: ports of a node that work as one, such as a bond.

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
use crate::page;
use crate::row::Filter;
use crate::row::Reference;
use crate::row::Row;
use crate::row::Table;
use crate::row::Unique;
use crate::row::identity;
use crate::row::unique_name;
use crate::select::Select;

/// One portgroup. Field names are the API's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Portgroup {
    /// Identity.
    pub uuid: Uuid,
    /// The node that has it.
    pub node_uuid: Uuid,
    /// Optional unique name.
    pub name: Option<String>,
    /// MAC address, lower case, with colons.
    pub address: Option<String>,
    /// How the ports work together, such as `active-backup` (1.26).
    pub mode: String,
    /// Settings of the bond (1.26).
    pub properties: Map<String, Value>,
    /// Operator's own data.
    pub extra: Map<String, Value>,
    /// The service's own data.
    pub internal_info: Map<String, Value>,
    /// Whether its ports may also be used alone.
    pub standalone_ports_supported: bool,
    /// Physical network (1.102).
    pub physical_network: Option<String>,
    /// Category (1.103).
    pub category: Option<String>,
    /// Whether it was made on demand (1.111).
    pub dynamic_portgroup: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Option<Timestamp>,
}

/// The mode without a setting.
pub const DEFAULT_MODE: &str = "active-backup";

impl Default for Portgroup {
    fn default() -> Self {
        Self {
            uuid: Uuid::new_v4(),
            node_uuid: Uuid::nil(),
            name: None,
            address: None,
            mode: DEFAULT_MODE.to_owned(),
            properties: Map::new(),
            extra: Map::new(),
            internal_info: Map::new(),
            standalone_ports_supported: true,
            physical_network: None,
            category: None,
            dynamic_portgroup: false,
            created_at: codec::now(),
            updated_at: None,
        }
    }
}

/// Which portgroups are wanted.
#[derive(Debug, Clone, Default)]
pub struct PortgroupQuery {
    /// Of this node.
    pub node_uuid: Option<Uuid>,
    /// With this MAC address, in any case.
    pub address: Option<String>,
    /// Of nodes in one of these shards; empty: any.
    pub shard: Vec<String>,
    /// Of nodes in one of these conductor groups; empty: any.
    pub conductor_groups: Vec<String>,
}

static TABLE: Table = Table::new(
    "portgroups",
    "portgroup",
    &[
        "uuid",
        "created_at",
        "node_uuid",
        "name",
        "address",
        "mode",
        "properties",
        "extra",
        "internal_info",
        "standalone_ports_supported",
        "physical_network",
        "category",
        "dynamic_portgroup",
        "updated_at",
    ],
    &[
        "uuid",
        "created_at",
        "node_uuid",
        "name",
        "address",
        "mode",
        "standalone_ports_supported",
        "physical_network",
        "category",
        "dynamic_portgroup",
        "updated_at",
    ],
    &[
        Unique {
            columns: &["address"],
            taken: |values, other| Error::DuplicateAddress {
                what: "portgroup",
                address: values.concat(),
                other,
            },
        },
        unique_name!("portgroup"),
    ],
    &[Reference::NODE],
);

impl Row for Portgroup {
    identity!(TABLE);

    fn normalise(&mut self) {
        if let Some(address) = &mut self.address {
            address.make_ascii_lowercase();
        }
    }

    fn read(row: &DbRow) -> Result<Self> {
        let mut column = TABLE.columns(row);
        Ok(Self {
            uuid: column.key()?,
            created_at: column.time()?,
            node_uuid: column.parse()?,
            name: column.maybe_text()?,
            address: column.maybe_text()?,
            mode: column.text()?,
            properties: column.json()?,
            extra: column.json()?,
            internal_info: column.json()?,
            standalone_ports_supported: column.bool()?,
            physical_network: column.maybe_text()?,
            category: column.maybe_text()?,
            dynamic_portgroup: column.bool()?,
            updated_at: column.maybe_time()?,
        })
    }

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(self.uuid.to_string()),
            Cell::time(Some(self.created_at)),
            Cell::text(self.node_uuid.to_string()),
            Cell::maybe(self.name.as_ref()),
            Cell::maybe(self.address.as_ref()),
            Cell::text(self.mode.clone()),
            Cell::json(&self.properties),
            Cell::json(&self.extra),
            Cell::json(&self.internal_info),
            Cell::bool(self.standalone_ports_supported),
            Cell::maybe(self.physical_network.as_ref()),
            Cell::maybe(self.category.as_ref()),
            Cell::bool(self.dynamic_portgroup),
            Cell::time(self.updated_at),
        ]
    }
}

impl Filter for PortgroupQuery {
    type Row = Portgroup;

    fn push(&self, select: &mut Select) {
        page::equal(
            select,
            "node_uuid",
            self.node_uuid.map(|uuid| uuid.to_string()),
        );
        let address = self.address.as_ref().map(|text| text.to_lowercase());
        page::equal(select, "address", address);
        page::of_nodes(select, &self.shard, &self.conductor_groups);
    }
}

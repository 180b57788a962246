//! Lists of nodes.

use jiff::Timestamp;
use uuid::Uuid;
use wrought_wire::state::PowerState;
use wrought_wire::state::ProvisionState;

use super::Node;
use super::row;
use crate::Result;
use crate::Store;
use crate::packed;
use crate::packed::Packed;
use crate::page;
use crate::page::Listed;
use crate::page::Page;
use crate::page::SortDir;
use crate::select::Select;

/// Which nodes are wanted, and which page of them. The default is every node
/// that has no parent, oldest first, in one page.
#[derive(Debug, Clone, Default)]
pub struct NodeQuery {
    /// Whether it has an instance.
    pub associated: Option<bool>,
    /// Whether it is in maintenance.
    pub maintenance: Option<bool>,
    /// Whether it is retired.
    pub retired: Option<bool>,
    /// In one of these states; empty: any.
    pub provision_state: Vec<ProvisionState>,
    /// Hardware type.
    pub driver: Option<String>,
    /// Scheduling class.
    pub resource_class: Option<String>,
    /// Fault.
    pub fault: Option<String>,
    /// Group of conductors (lower case).
    pub conductor_group: Option<String>,
    /// Owner's project.
    pub owner: Option<String>,
    /// Lessee's project.
    pub lessee: Option<String>,
    /// Owned or leased by this project.
    pub project: Option<String>,
    /// Text that the description contains, whatever the case.
    pub description_contains: Option<String>,
    /// In one of these shards; empty: any.
    pub shard: Vec<String>,
    /// Whether it has a shard.
    pub sharded: Option<bool>,
    /// Children of this node only.
    pub parent_node: Option<String>,
    /// Whether nodes that have a parent are listed too.
    pub include_children: bool,
    /// The node of this instance.
    pub instance_uuid: Option<Uuid>,
    /// Nodes of instances with this name.
    pub instance_name: Option<String>,
    /// In this chassis.
    pub chassis_uuid: Option<Uuid>,
    /// Whether somebody holds its lock now.
    pub reserved: Option<bool>,
    /// Whether only those are wanted whose power is being changed.
    pub power_moving: bool,
    /// Not last taken charge of by the conductor on this host.
    pub affinity_not: Option<String>,
    /// Column to sort by; none: the order of creation.
    pub sort_key: Option<String>,
    /// Direction.
    pub sort_dir: SortDir,
    /// Go on after this node.
    pub marker: Option<Uuid>,
    /// At most so many.
    pub limit: Option<u32>,
}

/// What a brief list shows of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeBrief {
    /// Identity.
    pub uuid: Uuid,
    /// Name.
    pub name: Option<String>,
    /// Instance.
    pub instance_uuid: Option<Uuid>,
    /// Maintenance.
    pub maintenance: bool,
    /// Power as last seen.
    pub power_state: Option<PowerState>,
    /// Where it is in its life.
    pub provision_state: ProvisionState,
}

const LISTED: Listed = Listed {
    table: "nodes",
    what: "node",
    sortable: row::SORTABLE,
};

const BRIEF: &[&str] = &[
    "uuid",
    "name",
    "instance_uuid",
    "maintenance",
    "power_state",
    "provision_state",
];

impl Store {
    /// The nodes that the query asks for.
    pub async fn list_nodes(&self, query: &NodeQuery) -> Result<Vec<Node>> {
        let (query, clock) = (query.clone(), self.clock());
        self.read(move |db| {
            Box::pin(async move {
                let now = clock.now();
                let mut select = Select::new(row::SELECT.as_str());
                filter(&mut select, &query, now);
                LISTED.paged(db, &mut select, &query.page()).await?;
                let rows = select.all(db).await?;
                rows.iter().map(|found| row::read(found, now)).collect()
            })
        })
        .await
    }

    /// The same list with only what a brief list shows: far less work.
    pub async fn list_nodes_brief(&self, query: &NodeQuery) -> Result<Vec<NodeBrief>> {
        let (query, clock) = (query.clone(), self.clock());
        self.read(move |db| {
            Box::pin(async move {
                let mut select = Select::new(format!(
                    "SELECT string_agg(line, '') FROM (SELECT {} AS line FROM nodes",
                    packed::fields(BRIEF)
                ));
                filter(&mut select, &query, clock.now());
                LISTED.paged(db, &mut select, &query.page()).await?;
                select.push(") AS page");
                let page = select.one(db).await?;
                let rows = page.text(0)?.unwrap_or_default();
                let mut column = Packed::new(rows, "nodes", BRIEF);
                let mut nodes = Vec::new();
                while !column.is_empty() {
                    nodes.push(NodeBrief {
                        uuid: column.parse()?,
                        name: column.maybe_text()?.map(str::to_owned),
                        instance_uuid: column.maybe_parse()?,
                        maintenance: column.text()? != "0",
                        power_state: column.maybe_parse()?,
                        provision_state: column.parse()?,
                    });
                }
                Ok(nodes)
            })
        })
        .await
    }

    /// Every shard with the number of its nodes, in order; none first.
    pub async fn shards(&self) -> Result<Vec<(Option<String>, u64)>> {
        self.read(|db| {
            Box::pin(async move {
                let sql = "SELECT shard, COUNT(*) FROM nodes GROUP BY shard \
                           ORDER BY CASE WHEN shard IS NULL THEN 0 ELSE 1 END, shard";
                let rows = db.all(sql, []).await?;
                rows.iter()
                    .map(|found| {
                        let count = found.int(1)?.unwrap_or_default().unsigned_abs();
                        Ok((found.text(0)?.map(str::to_owned), count))
                    })
                    .collect()
            })
        })
        .await
    }
}

impl NodeQuery {
    fn page(&self) -> Page<'_> {
        Page {
            sort_key: self.sort_key.as_deref(),
            sort_dir: self.sort_dir,
            marker: self.marker,
            limit: self.limit,
        }
    }
}

fn filter(select: &mut Select, query: &NodeQuery, now: Timestamp) {
    select.push(" WHERE 1 = 1");
    let present = |select: &mut Select, column: &str, wanted: Option<bool>| {
        match wanted {
            Some(true) => select.push(format_args!(" AND {column} IS NOT NULL")),
            Some(false) => select.push(format_args!(" AND {column} IS NULL")),
            None => select,
        };
    };
    present(select, "instance_uuid", query.associated);
    present(select, "shard", query.sharded);
    page::equal(select, "maintenance", query.maintenance.map(i64::from));
    page::equal(select, "retired", query.retired.map(i64::from));
    let states = query
        .provision_state
        .iter()
        .map(|state| state.as_str().to_owned());
    page::within(select, "provision_state", states);
    page::equal(select, "driver", query.driver.clone());
    page::equal(select, "resource_class", query.resource_class.clone());
    page::equal(select, "fault", query.fault.clone());
    page::equal(select, "conductor_group", query.conductor_group.clone());
    page::equal(select, "owner", query.owner.clone());
    page::equal(select, "lessee", query.lessee.clone());
    if let Some(project) = &query.project {
        select.push(" AND (owner = ").push_bind(project.clone());
        select
            .push(" OR lessee = ")
            .push_bind(project.clone())
            .push(")");
    }
    page::contains(select, "description", query.description_contains.as_ref());
    page::within(select, "shard", query.shard.iter().cloned());
    match &query.parent_node {
        Some(parent) => page::equal(select, "parent_node", Some(parent.clone())),
        None if query.include_children => {}
        None => present(select, "parent_node", Some(false)),
    }
    page::equal(
        select,
        "instance_uuid",
        query.instance_uuid.map(|uuid| uuid.to_string()),
    );
    page::equal(select, "instance_name", query.instance_name.clone());
    page::equal(
        select,
        "chassis_uuid",
        query.chassis_uuid.map(|uuid| uuid.to_string()),
    );
    match query.reserved {
        Some(true) => {
            select
                .push(" AND lock_expires_at > ")
                .push_bind(now.as_microsecond());
        }
        Some(false) => {
            select.push(" AND (lock_expires_at IS NULL OR lock_expires_at <= ");
            select.push_bind(now.as_microsecond()).push(")");
        }
        None => {}
    }
    if query.power_moving {
        select.push(" AND target_power_state IS NOT NULL");
    }
    if let Some(host) = &query.affinity_not {
        select.push(" AND (conductor_affinity IS NULL OR conductor_affinity <> ");
        select.push_bind(host.clone()).push(")");
    }
}

#[cfg(test)]
mod tests;

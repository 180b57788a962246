//! A node as a row: the columns, and the way in and out.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jiff::Timestamp;

use super::INTERFACE_KINDS;
use super::Node;
use crate::Result;
use crate::codec;
use crate::codec::Cell;
use crate::codec::Columns;
use crate::db::DbRow;

/// The columns that a node is written to, in order. The first
/// [`UNCHANGING`] are written once. The interfaces follow the order of
/// [`INTERFACE_KINDS`].
pub(super) const COLUMNS: &[&str] = &[
    "uuid",
    "created_at",
    "name",
    "driver",
    "driver_info",
    "driver_internal_info",
    "properties",
    "instance_info",
    "instance_uuid",
    "instance_name",
    "extra",
    "clean_step",
    "deploy_step",
    "service_step",
    "raid_config",
    "target_raid_config",
    "conductor_group",
    "power_state",
    "target_power_state",
    "provision_state",
    "target_provision_state",
    "provision_updated_at",
    "maintenance",
    "maintenance_reason",
    "fault",
    "last_error",
    "console_enabled",
    "resource_class",
    "inspection_started_at",
    "inspection_finished_at",
    "automated_clean",
    "protected",
    "protected_reason",
    "owner",
    "lessee",
    "description",
    "retired",
    "retired_reason",
    "network_data",
    "boot_mode",
    "secure_boot",
    "health",
    "shard",
    "parent_node",
    "disable_power_off",
    "chassis_uuid",
    "traits",
    "conductor_affinity",
    "bios_interface",
    "boot_interface",
    "console_interface",
    "deploy_interface",
    "firmware_interface",
    "inspect_interface",
    "management_interface",
    "network_interface",
    "power_interface",
    "raid_interface",
    "rescue_interface",
    "storage_interface",
    "vendor_interface",
    "updated_at",
];

/// Columns that are written at creation alone.
pub(super) const UNCHANGING: usize = 2;

/// Columns that a list can be sorted by: all that hold no JSON.
pub(super) const SORTABLE: &[&str] = &[
    "uuid",
    "created_at",
    "name",
    "driver",
    "instance_uuid",
    "instance_name",
    "conductor_group",
    "power_state",
    "target_power_state",
    "provision_state",
    "target_provision_state",
    "provision_updated_at",
    "maintenance",
    "maintenance_reason",
    "fault",
    "last_error",
    "console_enabled",
    "resource_class",
    "inspection_started_at",
    "inspection_finished_at",
    "automated_clean",
    "protected",
    "protected_reason",
    "owner",
    "lessee",
    "description",
    "retired",
    "retired_reason",
    "boot_mode",
    "secure_boot",
    "health",
    "shard",
    "parent_node",
    "disable_power_off",
    "bios_interface",
    "boot_interface",
    "console_interface",
    "deploy_interface",
    "firmware_interface",
    "inspect_interface",
    "management_interface",
    "network_interface",
    "power_interface",
    "raid_interface",
    "rescue_interface",
    "storage_interface",
    "vendor_interface",
    "updated_at",
    "reservation",
];

/// The allocation that has the node.
const ALLOCATION: &str =
    "(SELECT allocations.uuid FROM allocations WHERE allocations.node_uuid = nodes.uuid)";

/// `SELECT` of everything that [`read`] takes.
pub(super) static SELECT: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {}, reservation, lock_expires_at, {ALLOCATION} FROM nodes",
        COLUMNS.join(", ")
    )
});

/// `INSERT` of what [`cells`] gives.
pub(super) static INSERT: LazyLock<String> = LazyLock::new(|| {
    let values = codec::placeholders(COLUMNS.len());
    format!(
        "INSERT INTO nodes ({}) VALUES ({values})",
        COLUMNS.join(", ")
    )
});

/// `UPDATE` of what [`cells`] gives after the unchanging ones; then come
/// UUID, owner and epoch.
pub(super) static UPDATE: LazyLock<String> = LazyLock::new(|| {
    let columns = &COLUMNS[UNCHANGING..];
    let sets: Vec<String> = columns
        .iter()
        .enumerate()
        .map(|(i, column)| format!("{column} = ${}", i + 1))
        .collect();
    let n = columns.len();
    format!(
        "UPDATE nodes SET {} WHERE uuid = ${} AND reservation = ${} AND lock_epoch = ${}",
        sets.join(", "),
        n + 1,
        n + 2,
        n + 3
    )
});

/// The node's values in the order of [`COLUMNS`].
pub(super) fn cells(node: &Node) -> Vec<Cell> {
    let mut cells = vec![
        Cell::text(node.uuid.to_string()),
        Cell::time(Some(node.created_at)),
        Cell::maybe(node.name.as_ref()),
        Cell::text(&node.driver),
        Cell::json(&node.driver_info),
        Cell::json(&node.driver_internal_info),
        Cell::json(&node.properties),
        Cell::json(&node.instance_info),
        Cell::shown(node.instance_uuid),
        Cell::maybe(node.instance_name.as_ref()),
        Cell::json(&node.extra),
        Cell::json(&node.clean_step),
        Cell::json(&node.deploy_step),
        Cell::json(&node.service_step),
        Cell::json(&node.raid_config),
        Cell::json(&node.target_raid_config),
        Cell::text(&node.conductor_group),
        Cell::shown(node.power_state),
        Cell::shown(node.target_power_state),
        Cell::text(node.provision_state.as_str()),
        Cell::shown(node.target_provision_state),
        Cell::time(node.provision_updated_at),
        Cell::bool(node.maintenance),
        Cell::maybe(node.maintenance_reason.as_ref()),
        Cell::maybe(node.fault.as_ref()),
        Cell::maybe(node.last_error.as_ref()),
        Cell::bool(node.console_enabled),
        Cell::maybe(node.resource_class.as_ref()),
        Cell::time(node.inspection_started_at),
        Cell::time(node.inspection_finished_at),
        Cell::maybe_bool(node.automated_clean),
        Cell::bool(node.protected),
        Cell::maybe(node.protected_reason.as_ref()),
        Cell::maybe(node.owner.as_ref()),
        Cell::maybe(node.lessee.as_ref()),
        Cell::maybe(node.description.as_ref()),
        Cell::bool(node.retired),
        Cell::maybe(node.retired_reason.as_ref()),
        Cell::json(&node.network_data),
        Cell::maybe(node.boot_mode.as_ref()),
        Cell::maybe_bool(node.secure_boot),
        Cell::maybe(node.health.as_ref()),
        Cell::maybe(node.shard.as_ref()),
        Cell::maybe(node.parent_node.as_ref()),
        Cell::bool(node.disable_power_off),
        Cell::shown(node.chassis_uuid),
        Cell::json(&node.traits),
        Cell::maybe(node.conductor_affinity.as_ref()),
    ];
    cells.extend(
        INTERFACE_KINDS
            .iter()
            .map(|kind| Cell::maybe(node.interfaces.get(*kind))),
    );
    cells.push(Cell::time(node.updated_at));
    cells
}

/// A node from a row of [`SELECT`]; a lock that has run out by `now` does not
/// show.
pub(super) fn read(row: &DbRow, now: Timestamp) -> Result<Node> {
    let mut columns = Columns::new(row, "nodes", COLUMNS);
    let column = &mut columns;
    let mut node = Node {
        uuid: column.key()?,
        created_at: column.time()?,
        name: column.maybe_text()?,
        driver: column.text()?,
        driver_info: column.json()?,
        driver_internal_info: column.json()?,
        properties: column.json()?,
        instance_info: column.json()?,
        instance_uuid: column.maybe_parse()?,
        instance_name: column.maybe_text()?,
        extra: column.json()?,
        clean_step: column.json()?,
        deploy_step: column.json()?,
        service_step: column.json()?,
        raid_config: column.json()?,
        target_raid_config: column.json()?,
        conductor_group: column.text()?,
        power_state: column.maybe_parse()?,
        target_power_state: column.maybe_parse()?,
        provision_state: column.parse()?,
        target_provision_state: column.maybe_parse()?,
        provision_updated_at: column.maybe_time()?,
        maintenance: column.bool()?,
        maintenance_reason: column.maybe_text()?,
        fault: column.maybe_text()?,
        last_error: column.maybe_text()?,
        console_enabled: column.bool()?,
        resource_class: column.maybe_text()?,
        inspection_started_at: column.maybe_time()?,
        inspection_finished_at: column.maybe_time()?,
        automated_clean: column.maybe_bool()?,
        protected: column.bool()?,
        protected_reason: column.maybe_text()?,
        owner: column.maybe_text()?,
        lessee: column.maybe_text()?,
        description: column.maybe_text()?,
        retired: column.bool()?,
        retired_reason: column.maybe_text()?,
        network_data: column.json()?,
        boot_mode: column.maybe_text()?,
        secure_boot: column.maybe_bool()?,
        health: column.maybe_text()?,
        shard: column.maybe_text()?,
        parent_node: column.maybe_text()?,
        disable_power_off: column.bool()?,
        chassis_uuid: column.maybe_parse()?,
        traits: column.json()?,
        conductor_affinity: column.maybe_text()?,
        allocation_uuid: None,
        interfaces: BTreeMap::new(),
        updated_at: None,
        reservation: None,
    };
    for kind in INTERFACE_KINDS {
        if let Some(implementation) = column.maybe_text()? {
            node.interfaces.insert(kind.to_owned(), implementation);
        }
    }
    node.updated_at = column.maybe_time()?;
    let reservation = column.maybe_text()?;
    let expires = column.maybe_time()?;
    node.allocation_uuid = column.maybe_parse()?;
    node.reservation = reservation.filter(|_| expires.is_some_and(|expires| expires > now));
    Ok(node)
}

#[cfg(test)]
mod tests {
    use super::COLUMNS;
    use super::INTERFACE_KINDS;
    use super::SORTABLE;

    #[test]
    fn columns_match_the_kinds_of_interface() {
        let interfaces: Vec<String> = INTERFACE_KINDS
            .iter()
            .map(|kind| format!("{kind}_interface"))
            .collect();
        let found: Vec<&str> = COLUMNS
            .iter()
            .copied()
            .filter(|name| name.ends_with("_interface"))
            .collect();
        assert_eq!(found, interfaces);
        for key in SORTABLE {
            assert!(COLUMNS.contains(key) || *key == "reservation", "{key}");
        }
    }
}

//! The fields of a node with the version that first has each, and what may be
//! done with it.

use crate::context::Context;
use crate::error::Result;
use crate::fields;
use crate::fields::Field;
use crate::query::Query;

/// Name and first version (the N of 1.N) of every field that is not a link.
pub(crate) const FIELDS: &[Field] = &[
    ("uuid", 1),
    ("created_at", 1),
    ("updated_at", 1),
    ("automated_clean", 47),
    ("bios_interface", 40),
    ("boot_interface", 31),
    ("boot_mode", 75),
    ("clean_step", 7),
    ("conductor_group", 46),
    ("console_enabled", 1),
    ("console_interface", 31),
    ("disable_power_off", 95),
    ("deploy_interface", 31),
    ("deploy_step", 44),
    ("description", 51),
    ("driver", 1),
    ("driver_info", 1),
    ("driver_internal_info", 3),
    ("extra", 1),
    ("fault", 42),
    ("firmware_interface", 86),
    ("health", 109),
    ("inspection_finished_at", 6),
    ("inspection_started_at", 6),
    ("inspect_interface", 31),
    ("instance_info", 1),
    ("instance_name", 104),
    ("instance_uuid", 1),
    ("last_error", 1),
    ("lessee", 65),
    ("maintenance", 1),
    ("maintenance_reason", 1),
    ("management_interface", 31),
    ("name", 5),
    ("network_data", 66),
    ("network_interface", 20),
    ("owner", 50),
    ("parent_node", 83),
    ("power_interface", 31),
    ("power_state", 1),
    ("properties", 1),
    ("protected", 48),
    ("protected_reason", 48),
    ("provision_state", 1),
    ("provision_updated_at", 1),
    ("raid_config", 12),
    ("raid_interface", 31),
    ("rescue_interface", 38),
    ("reservation", 1),
    ("resource_class", 21),
    ("retired", 61),
    ("retired_reason", 61),
    ("secure_boot", 75),
    ("service_step", 87),
    ("shard", 82),
    ("storage_interface", 33),
    ("target_power_state", 1),
    ("target_provision_state", 1),
    ("target_raid_config", 12),
    ("traits", 37),
    ("vendor_interface", 31),
    ("conductor", 49),
    ("allocation_uuid", 52),
    ("chassis_uuid", 1),
];

/// Links to what is below a node, with the version that first has each.
pub(crate) const SUBRESOURCES: &[(&str, u16)] = &[
    ("ports", 1),
    ("states", 14),
    ("portgroups", 24),
    ("volume", 32),
];

/// What a brief list shows.
pub(crate) const BRIEF: &[&str] = &[
    "instance_uuid",
    "maintenance",
    "power_state",
    "provision_state",
    "uuid",
    "name",
];

/// Fields that a client may change.
pub(crate) const CHANGEABLE: &[&str] = &[
    "automated_clean",
    "bios_interface",
    "boot_interface",
    "chassis_uuid",
    "conductor_group",
    "console_interface",
    "deploy_interface",
    "description",
    "disable_power_off",
    "driver",
    "driver_info",
    "extra",
    "firmware_interface",
    "inspect_interface",
    "instance_info",
    "instance_name",
    "instance_uuid",
    "lessee",
    "maintenance",
    "management_interface",
    "name",
    "network_data",
    "network_interface",
    "owner",
    "parent_node",
    "power_interface",
    "properties",
    "protected",
    "protected_reason",
    "raid_interface",
    "rescue_interface",
    "resource_class",
    "retired",
    "retired_reason",
    "shard",
    "storage_interface",
    "vendor_interface",
];

/// As [`fields::find`].
pub(crate) fn find(name: &str) -> Option<Field> {
    fields::find(FIELDS, name)
}

/// As [`fields::check_version`].
pub(crate) fn check_version(context: &Context, name: &str) -> Result<()> {
    fields::check_version(FIELDS, context, name)
}

/// As [`fields::requested`].
pub(crate) fn requested(query: &Query, context: &Context) -> Result<Option<Vec<&'static str>>> {
    fields::requested(FIELDS, query, |name| check_version(context, name))
}

#[cfg(test)]
mod tests {
    use wrought_store::node::INTERFACE_KINDS;

    use super::BRIEF;
    use super::CHANGEABLE;
    use super::find;

    #[test]
    fn tables_agree() {
        for name in BRIEF.iter().chain(CHANGEABLE) {
            assert!(find(name).is_some(), "{name}");
        }
        for kind in INTERFACE_KINDS {
            assert!(
                CHANGEABLE.contains(&format!("{kind}_interface").as_str()),
                "{kind}"
            );
        }
    }
}

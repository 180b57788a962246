//! Shapes of fields and query arguments by their names: a name means the same
//! thing in every resource that has it.

use super::schema::Schema;
use super::schema::Schema::AtLeast;
use super::schema::Schema::Bool;
use super::schema::Schema::Int;
use super::schema::Schema::List;
use super::schema::Schema::Nullable;
use super::schema::Schema::Object;
use super::schema::Schema::OneOf;
use super::schema::Schema::Ref;
use super::schema::Schema::Text;
use super::schema::Schema::Time;
use super::schema::Schema::Uuid;

/// The shape of a field as it is shown; none for a name that no resource has.
pub(crate) fn field(name: &str) -> Option<Schema> {
    Some(match name {
        "uuid" => Uuid,
        "allocation_uuid" | "chassis_uuid" | "instance_uuid" | "node_uuid" | "portgroup_uuid" => {
            Nullable(&Uuid)
        }
        "created_at" | "updated_at" => Nullable(&Time),
        "provision_updated_at" | "inspection_started_at" | "inspection_finished_at" => {
            Nullable(&Time)
        }
        "alive"
        | "available_for_dynamic_portgroup"
        | "console_enabled"
        | "disable_power_off"
        | "disable_ramdisk"
        | "dynamic_portgroup"
        | "is_smartnic"
        | "maintenance"
        | "protected"
        | "public"
        | "pxe_enabled"
        | "retired"
        | "sensitive"
        | "standalone_ports_supported" => Bool,
        "automated_clean" | "secure_boot" => Nullable(&Bool),
        "clean_step"
        | "deploy_step"
        | "driver_info"
        | "driver_internal_info"
        | "extra"
        | "instance_info"
        | "internal_info"
        | "local_link_connection"
        | "network_data"
        | "properties"
        | "raid_config"
        | "service_step"
        | "target_raid_config" => Object,
        "candidate_nodes" => List(&Uuid),
        "drivers" | "traits" => List(&Text),
        "steps" => List(&Ref("Step")),
        "actions" | "conditions" => Nullable(&List(&Object)),
        "boot_index" => Int,
        "priority" => AtLeast(0),
        "driver" | "hostname" | "conductor_group" => Text,
        "address"
        | "boot_mode"
        | "category"
        | "conductor"
        | "connector_id"
        | "description"
        | "fault"
        | "health"
        | "instance_name"
        | "last_error"
        | "lessee"
        | "maintenance_reason"
        | "mode"
        | "name"
        | "owner"
        | "parent_node"
        | "phase"
        | "physical_network"
        | "power_state"
        | "protected_reason"
        | "provision_state"
        | "reservation"
        | "resource_class"
        | "retired_reason"
        | "shard"
        | "state"
        | "target_power_state"
        | "target_provision_state"
        | "type"
        | "vendor"
        | "volume_id"
        | "volume_type" => Nullable(&Text),
        name if name.ends_with("_interface") => Nullable(&Text),
        _ => return None,
    })
}

/// The shape of a query argument.
pub(super) fn argument(name: &str) -> Schema {
    match name {
        "limit" => AtLeast(1),
        "sort_dir" => OneOf(&["asc", "desc"]),
        "associated" | "detail" | "include_children" | "maintenance" | "reset_interfaces"
        | "retired" | "sharded" => Bool,
        "chassis_uuid" | "instance_uuid" => Uuid,
        _ => Text,
    }
}

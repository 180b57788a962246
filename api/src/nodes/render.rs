//! Nodes as a version shows them.

use serde::Serialize;
use serde::Serializer;
use serde::ser::SerializeMap;
use serde_json::Value;
use serde_json::json;
use uuid::Uuid;
use wrought_rpc::Conductor;
use wrought_store::Node;
use wrought_store::node::query::NodeBrief;
use wrought_wire::state::ProvisionState;

use super::fields::FIELDS;
use super::fields::SUBRESOURCES;
use crate::ApiState;
use crate::context::Context;
use crate::links;
use crate::mask::Masked;
use crate::mask::MaskedInstance;
use crate::mask::MaskedInternal;
use crate::time;
use crate::version::since;

/// Shows nodes in one version with one choice of fields.
pub(crate) struct Renderer<'a> {
    context: &'a Context,
    /// None: all that the version has, with links to what is below.
    fields: Option<Vec<&'static str>>,
    conductor: &'a dyn Conductor,
}

/// A node as it is shown: written straight into the answer.
pub(crate) struct Shown<'a> {
    renderer: &'a Renderer<'a>,
    node: &'a Node,
}

impl<'a> Renderer<'a> {
    pub(crate) fn new(
        state: &'a ApiState,
        context: &'a Context,
        fields: Option<Vec<&'static str>>,
    ) -> Self {
        Self {
            context,
            fields,
            conductor: state.conductor.as_ref(),
        }
    }

    /// One node.
    pub(crate) fn node(&'a self, node: &'a Node) -> Shown<'a> {
        Shown {
            renderer: self,
            node,
        }
    }

    fn field<M: SerializeMap>(
        &self,
        shown: &mut M,
        node: &Node,
        field: &str,
    ) -> Result<(), M::Error> {
        let time = |at: Option<jiff::Timestamp>| at.map(time::text);
        match field {
            "uuid" => shown.serialize_entry(field, &node.uuid),
            "created_at" => shown.serialize_entry(field, &time(Some(node.created_at))),
            "updated_at" => shown.serialize_entry(field, &time(node.updated_at)),
            "allocation_uuid" => shown.serialize_entry(field, &node.allocation_uuid),
            "automated_clean" => shown.serialize_entry(field, &node.automated_clean),
            "boot_mode" => shown.serialize_entry(field, &node.boot_mode),
            "clean_step" => shown.serialize_entry(field, &Masked(&node.clean_step)),
            "conductor_group" => shown.serialize_entry(field, &node.conductor_group),
            "console_enabled" => shown.serialize_entry(field, &node.console_enabled),
            "disable_power_off" => shown.serialize_entry(field, &node.disable_power_off),
            "deploy_step" => shown.serialize_entry(field, &Masked(&node.deploy_step)),
            "description" => shown.serialize_entry(field, &node.description),
            "driver" => shown.serialize_entry(field, &node.driver),
            "driver_info" => shown.serialize_entry(field, &Masked(&node.driver_info)),
            "driver_internal_info" => {
                shown.serialize_entry(field, &MaskedInternal(&node.driver_internal_info))
            }
            "extra" => shown.serialize_entry(field, &node.extra),
            "fault" => shown.serialize_entry(field, &node.fault),
            "health" => shown.serialize_entry(field, &node.health),
            "inspection_finished_at" => {
                shown.serialize_entry(field, &time(node.inspection_finished_at))
            }
            "inspection_started_at" => {
                shown.serialize_entry(field, &time(node.inspection_started_at))
            }
            "instance_info" => shown.serialize_entry(field, &MaskedInstance(&node.instance_info)),
            "instance_name" => shown.serialize_entry(field, &node.instance_name),
            "instance_uuid" => shown.serialize_entry(field, &node.instance_uuid),
            "last_error" => shown.serialize_entry(field, &node.last_error),
            "lessee" => shown.serialize_entry(field, &node.lessee),
            "maintenance" => shown.serialize_entry(field, &node.maintenance),
            "maintenance_reason" => shown.serialize_entry(field, &node.maintenance_reason),
            "name" => shown.serialize_entry(field, &node.name),
            "network_data" => shown.serialize_entry(field, &node.network_data),
            "owner" => shown.serialize_entry(field, &node.owner),
            "parent_node" => shown.serialize_entry(field, &node.parent_node),
            "power_state" => shown.serialize_entry(field, &node.power_state),
            "properties" => shown.serialize_entry(field, &node.properties),
            "protected" => shown.serialize_entry(field, &node.protected),
            "protected_reason" => shown.serialize_entry(field, &node.protected_reason),
            "provision_state" => {
                shown.serialize_entry(field, &shown_state(self.context, node.provision_state))
            }
            "provision_updated_at" => {
                shown.serialize_entry(field, &time(node.provision_updated_at))
            }
            "raid_config" => shown.serialize_entry(field, &node.raid_config),
            "reservation" => shown.serialize_entry(field, &node.reservation),
            "resource_class" => shown.serialize_entry(field, &node.resource_class),
            "retired" => shown.serialize_entry(field, &node.retired),
            "retired_reason" => shown.serialize_entry(field, &node.retired_reason),
            "secure_boot" => shown.serialize_entry(field, &node.secure_boot),
            "service_step" => shown.serialize_entry(field, &Masked(&node.service_step)),
            "shard" => shown.serialize_entry(field, &node.shard),
            "target_power_state" => shown.serialize_entry(field, &node.target_power_state),
            "target_provision_state" => shown.serialize_entry(field, &node.target_provision_state),
            "target_raid_config" => shown.serialize_entry(field, &node.target_raid_config),
            "traits" => shown.serialize_entry(field, &node.traits),
            "conductor" => shown.serialize_entry(field, &self.conductor(node)),
            "chassis_uuid" => shown.serialize_entry(field, &node.chassis_uuid),
            other => {
                let kind = other.strip_suffix("_interface");
                let implementation = kind.and_then(|kind| node.interfaces.get(kind));
                shown.serialize_entry(field, &implementation)
            }
        }
    }

    /// The host of the conductor that looks after a node.
    pub(crate) fn conductor(&self, node: &Node) -> Option<String> {
        self.conductor
            .owner(&node.conductor_group, &node.driver, node.uuid)
    }
}

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (renderer, node) = (self.renderer, self.node);
        let context = renderer.context;
        let mut uuid = Uuid::encode_buffer();
        let uuid = &*node.uuid.hyphenated().encode_lower(&mut uuid);
        let mut shown = serializer.serialize_map(None)?;
        match &renderer.fields {
            Some(fields) => {
                for field in fields {
                    renderer.field(&mut shown, node, field)?;
                }
            }
            None => {
                let has = |(_, since): &&(&str, u16)| context.has(*since);
                for (field, _) in FIELDS.iter().filter(has) {
                    renderer.field(&mut shown, node, field)?;
                }
                for (name, _) in SUBRESOURCES.iter().filter(has) {
                    let resource = ["nodes/", uuid, "/", name].concat();
                    shown.serialize_entry(name, &links::pair(context, &resource))?;
                }
            }
        }
        let own = links::pair(context, &["nodes/", uuid].concat());
        shown.serialize_entry("links", &own)?;
        shown.end()
    }
}

/// A provision state in the words of a version: `available` was null before
/// 1.2, `inspect wait` was `inspecting` before 1.39.
fn shown_state(context: &Context, state: ProvisionState) -> Option<ProvisionState> {
    match state {
        ProvisionState::Available if !context.has(since::AVAILABLE) => None,
        ProvisionState::InspectWait if !context.has(since::INSPECT_WAIT) => {
            Some(ProvisionState::Inspecting)
        }
        state => Some(state),
    }
}

/// The same as JSON.
pub(crate) fn provision_state(context: &Context, state: ProvisionState) -> Value {
    json!(shown_state(context, state))
}

/// A node in a brief list, written as text at once: this is the answer that
/// clients poll most.
pub(crate) fn write_brief(out: &mut Vec<u8>, context: &Context, node: &NodeBrief) {
    let mut uuid = Uuid::encode_buffer();
    let uuid = node.uuid.hyphenated().encode_lower(&mut uuid).as_bytes();
    let base = context.base.as_bytes();
    let mut put = |parts: &[&[u8]]| parts.iter().for_each(|part| out.extend_from_slice(part));
    put(&[b"{\"uuid\":\"", uuid, b"\",\"instance_uuid\":"]);
    match node.instance_uuid {
        Some(instance) => {
            let mut text = Uuid::encode_buffer();
            let text = instance.hyphenated().encode_lower(&mut text);
            put(&[b"\"", text.as_bytes(), b"\""]);
        }
        None => put(&[b"null"]),
    }
    let maintenance: &[u8] = if node.maintenance { b"true" } else { b"false" };
    put(&[b",\"maintenance\":", maintenance, b",\"power_state\":"]);
    match node.power_state {
        Some(state) => put(&[b"\"", state.as_str().as_bytes(), b"\""]),
        None => put(&[b"null"]),
    }
    put(&[b",\"provision_state\":"]);
    match shown_state(context, node.provision_state) {
        Some(state) => put(&[b"\"", state.as_str().as_bytes(), b"\""]),
        None => put(&[b"null"]),
    }
    if context.has(since::NAMES) {
        // A string always becomes JSON; this is where escapes may be needed.
        let name = serde_json::to_vec(&node.name).unwrap_or_else(|_| b"null".to_vec());
        put(&[b",\"name\":", &name]);
    }
    put(&[b",\"links\":[{\"href\":\"", base, b"/v1/nodes/", uuid]);
    put(&[b"\",\"rel\":\"self\"},{\"href\":\"", base, b"/nodes/", uuid]);
    put(&[b"\",\"rel\":\"bookmark\"}]}"]);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::Value;
    use serde_json::json;
    use uuid::Uuid;
    use wrought_store::node::query::NodeBrief;
    use wrought_wire::microversion::Microversion;
    use wrought_wire::state::PowerState;
    use wrought_wire::state::ProvisionState;

    use super::write_brief;
    use crate::context::Context;

    fn written(version: Microversion, node: &NodeBrief) -> Value {
        let base = Arc::from("https://h");
        let mut out = Vec::new();
        write_brief(&mut out, &Context { version, base }, node);
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn brief_nodes_are_json_in_every_version() {
        let uuid = Uuid::nil();
        let mut node = NodeBrief {
            uuid,
            name: None,
            instance_uuid: None,
            maintenance: false,
            power_state: None,
            provision_state: ProvisionState::InspectWait,
        };
        let links = json!([
            {"href": format!("https://h/v1/nodes/{uuid}"), "rel": "self"},
            {"href": format!("https://h/nodes/{uuid}"), "rel": "bookmark"},
        ]);
        let old = json!({"uuid": uuid, "instance_uuid": null, "maintenance": false,
            "power_state": null, "provision_state": "inspecting", "links": links});
        assert_eq!(written(Microversion::MIN, &node), old);
        node.name = Some("a\"b\\é".to_owned());
        node.instance_uuid = Some(Uuid::max());
        node.maintenance = true;
        node.power_state = Some(PowerState::On);
        let new = json!({"uuid": uuid, "instance_uuid": Uuid::max(), "maintenance": true,
            "power_state": "power on", "provision_state": "inspect wait", "name": "a\"b\\é",
            "links": links});
        assert_eq!(written(Microversion::MAX, &node), new);
        node.provision_state = ProvisionState::Available;
        assert_eq!(
            written(Microversion::MIN, &node)["provision_state"],
            Value::Null
        );
    }
}

//! Nodes as a version shows them.

use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use uuid::Uuid;
use wrought_store::Node;
use wrought_store::node::query::NodeBrief;
use wrought_wire::state::ProvisionState;

use super::fields::FIELDS;
use super::fields::SUBRESOURCES;
use crate::ApiState;
use crate::context::Context;
use crate::links;
use crate::mask;
use crate::time;
use crate::version::since;

/// Shows nodes in one version with one choice of fields.
pub(crate) struct Renderer<'a> {
    context: &'a Context,
    /// None: all that the version has, with links to what is below.
    fields: Option<Vec<&'static str>>,
    host: String,
    drivers: Vec<String>,
}

impl<'a> Renderer<'a> {
    pub(crate) fn new(
        state: &ApiState,
        context: &'a Context,
        fields: Option<Vec<&'static str>>,
    ) -> Self {
        let wants_conductor = fields
            .as_ref()
            .is_none_or(|fields| fields.contains(&"conductor"));
        let drivers = match wants_conductor && context.has(since::CONDUCTORS) {
            true => state
                .conductor
                .drivers()
                .into_iter()
                .map(|driver| driver.name)
                .collect(),
            false => Vec::new(),
        };
        Self {
            context,
            fields,
            host: state.conductor.host().to_owned(),
            drivers,
        }
    }

    /// One node.
    pub(crate) fn node(&self, node: &Node) -> Value {
        let mut body = Map::new();
        match &self.fields {
            Some(fields) => {
                for field in fields {
                    body.insert((*field).to_owned(), self.field(node, field));
                }
            }
            None => {
                let shown = |(_, since): &&(&str, u16)| self.context.has(*since);
                for (field, _) in FIELDS.iter().filter(shown) {
                    body.insert((*field).to_owned(), self.field(node, field));
                }
                for (name, _) in SUBRESOURCES.iter().filter(shown) {
                    let resource = format!("nodes/{}/{name}", node.uuid);
                    body.insert((*name).to_owned(), links::links(self.context, &resource));
                }
            }
        }
        let own = links::links(self.context, &format!("nodes/{}", node.uuid));
        body.insert("links".to_owned(), own);
        Value::Object(body)
    }

    fn field(&self, node: &Node, field: &str) -> Value {
        match field {
            "uuid" => json!(node.uuid),
            "created_at" => json!(time::text(node.created_at)),
            "updated_at" => time::value(node.updated_at),
            "allocation_uuid" => json!(node.allocation_uuid),
            "automated_clean" => json!(node.automated_clean),
            "boot_mode" => json!(node.boot_mode),
            "clean_step" => mask::masked(&node.clean_step),
            "conductor_group" => json!(node.conductor_group),
            "console_enabled" => json!(node.console_enabled),
            "disable_power_off" => json!(node.disable_power_off),
            "deploy_step" => mask::masked(&node.deploy_step),
            "description" => json!(node.description),
            "driver" => json!(node.driver),
            "driver_info" => mask::masked(&node.driver_info),
            "driver_internal_info" => mask::masked_internal(&node.driver_internal_info),
            "extra" => json!(node.extra),
            "fault" => json!(node.fault),
            "health" => json!(node.health),
            "inspection_finished_at" => time::value(node.inspection_finished_at),
            "inspection_started_at" => time::value(node.inspection_started_at),
            "instance_info" => mask::masked_instance(&node.instance_info),
            "instance_name" => json!(node.instance_name),
            "instance_uuid" => json!(node.instance_uuid),
            "last_error" => json!(node.last_error),
            "lessee" => json!(node.lessee),
            "maintenance" => json!(node.maintenance),
            "maintenance_reason" => json!(node.maintenance_reason),
            "name" => json!(node.name),
            "network_data" => json!(node.network_data),
            "owner" => json!(node.owner),
            "parent_node" => json!(node.parent_node),
            "power_state" => json!(node.power_state),
            "properties" => json!(node.properties),
            "protected" => json!(node.protected),
            "protected_reason" => json!(node.protected_reason),
            "provision_state" => provision_state(self.context, node.provision_state),
            "provision_updated_at" => time::value(node.provision_updated_at),
            "raid_config" => json!(node.raid_config),
            "reservation" => json!(node.reservation),
            "resource_class" => json!(node.resource_class),
            "retired" => json!(node.retired),
            "retired_reason" => json!(node.retired_reason),
            "secure_boot" => json!(node.secure_boot),
            "service_step" => mask::masked(&node.service_step),
            "shard" => json!(node.shard),
            "target_power_state" => json!(node.target_power_state),
            "target_provision_state" => json!(node.target_provision_state),
            "target_raid_config" => json!(node.target_raid_config),
            "traits" => json!(node.traits),
            "conductor" => json!(self.conductor(node)),
            "chassis_uuid" => json!(node.chassis_uuid),
            other => match other.strip_suffix("_interface") {
                Some(kind) => json!(node.interfaces.get(kind)),
                None => Value::Null,
            },
        }
    }

    /// The host of the conductor that looks after a node.
    pub(crate) fn conductor(&self, node: &Node) -> Option<&str> {
        self.drivers
            .contains(&node.driver)
            .then_some(self.host.as_str())
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

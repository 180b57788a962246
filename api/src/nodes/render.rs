//! Nodes as a version shows them.

use serde::Serialize;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
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
                // Allocations and health are not built yet.
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
pub(crate) fn provision_state(context: &Context, state: ProvisionState) -> Value {
    match state {
        ProvisionState::Available if !context.has(since::AVAILABLE) => Value::Null,
        ProvisionState::InspectWait if !context.has(since::INSPECT_WAIT) => {
            json!(ProvisionState::Inspecting)
        }
        state => json!(state),
    }
}

/// A node in a brief list, written without a tree of values in between:
/// this is the answer that clients poll most.
#[derive(Serialize)]
pub(crate) struct Brief<'a> {
    uuid: uuid::Uuid,
    instance_uuid: Option<uuid::Uuid>,
    maintenance: bool,
    power_state: Option<wrought_wire::state::PowerState>,
    provision_state: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<Option<&'a str>>,
    links: [Link; 2],
}

#[derive(Serialize)]
struct Link {
    href: String,
    rel: &'static str,
}

impl<'a> Brief<'a> {
    pub(crate) fn of(context: &Context, node: &'a NodeBrief) -> Self {
        let base = &context.base;
        let uuid = node.uuid;
        Self {
            uuid,
            instance_uuid: node.instance_uuid,
            maintenance: node.maintenance,
            power_state: node.power_state,
            provision_state: provision_state(context, node.provision_state),
            name: context.has(since::NAMES).then_some(node.name.as_deref()),
            links: [
                Link {
                    href: format!("{base}/v1/nodes/{uuid}"),
                    rel: "self",
                },
                Link {
                    href: format!("{base}/nodes/{uuid}"),
                    rel: "bookmark",
                },
            ],
        }
    }
}

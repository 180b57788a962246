//! What a command says of the node that it is for.

use serde_json::Map;
use serde_json::Value;
use wrought_wire::lookup::LookupNode;

use crate::command::Args;
use crate::command::CommandFailure;
use crate::command::Context;
use crate::disk::DiskRules;

/// The node's data that deploying and cleaning need.
#[derive(Debug, Clone, Default)]
pub(super) struct NodeData {
    pub(super) uuid: String,
    pub(super) properties: Map<String, Value>,
    pub(super) instance_info: Map<String, Value>,
    pub(super) driver_internal_info: Map<String, Value>,
    /// Only where the command brought the node; secrets masked.
    pub(super) driver_info: Map<String, Value>,
    /// The node as the command brought it, or what is known of it.
    pub(super) raw: Value,
}

impl NodeData {
    /// The node of a command's `node` parameter, which also becomes what the
    /// agent knows; without it what the last lookup said. Hints may have
    /// been changed since the agent was started. A command that is for
    /// another node is refused: its disk is not here.
    pub(super) fn refresh(context: &Context, args: &Args) -> Result<Self, CommandFailure> {
        let cache = &context.agent.node;
        if let Some(node @ Value::Object(_)) = args.get("node") {
            match serde_json::from_value::<LookupNode>(node.clone()) {
                Ok(node) => match cache.node() {
                    Some(known) if known.uuid != node.uuid => {
                        return Err(CommandFailure::invalid_params(format!(
                            "the command is for node {}, this machine is node {}; if it was \
                             enrolled anew, restart it",
                            node.uuid, known.uuid
                        )));
                    }
                    _ => cache.set_node(node),
                },
                Err(error) => {
                    tracing::warn!(%error, "the command's node cannot be read, the lookup's is used");
                }
            }
        }
        // Hints may have changed since the agent was started; a command that
        // does not bring the node has it asked for.
        let given = args.get("node").is_some_and(Value::is_object);
        let Some(node) = (if given { cache.node() } else { cache.ask() }) else {
            return Ok(Self::default());
        };
        let known = || serde_json::to_value(&node).unwrap_or_default();
        let raw = args.get("node").filter(|node| node.is_object());
        let raw = raw.cloned().unwrap_or_else(known);
        let map = |key: &str| {
            let map = raw.get(key).and_then(Value::as_object);
            map.cloned().unwrap_or_default()
        };
        Ok(Self {
            driver_info: map("driver_info"),
            raw,
            uuid: node.uuid.to_string(),
            properties: node.properties,
            instance_info: node.instance_info,
            driver_internal_info: node.driver_internal_info,
        })
    }

    /// The software RAID that the node has, or is to have.
    pub(super) fn software_raid(&self) -> Option<&Map<String, Value>> {
        ["raid_config", "target_raid_config"]
            .into_iter()
            .filter_map(|key| self.raw.get(key)?.as_object())
            .find(|config| {
                let disks = config.get("logical_disks").and_then(Value::as_array);
                disks.is_some_and(|disks| disks.iter().any(|disk| disk["controller"] == "software"))
            })
    }

    /// Which disk is meant, and which must be left alone.
    pub(super) fn disk_rules(&self) -> Result<DiskRules, CommandFailure> {
        DiskRules::of_node(&self.properties, &self.instance_info)
            .map_err(|error| CommandFailure::device_not_found(error.to_string()))
    }
}

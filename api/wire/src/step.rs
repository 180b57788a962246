//! Steps of deploying, cleaning and servicing.

use serde::Deserialize;
use serde::Serialize;
use serde_json::Map;
use serde_json::Value;

/// One step with its metadata, as it stands in `driver_internal_info`, in the
/// agent's step lists and in requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The interface that runs it: `deploy`, `raid`, `management`…
    pub interface: String,
    /// Its name on that interface.
    pub step: String,
    /// Higher runs first; 0 is switched off.
    #[serde(default)]
    pub priority: i64,
    /// Named arguments.
    #[serde(default)]
    pub args: Map<String, Value>,
    /// Whether an abort may cut it short.
    #[serde(default)]
    pub abortable: bool,
    /// Whether the machine is restarted after it.
    #[serde(default)]
    pub reboot_requested: bool,
    /// Whether the ramdisk must be running.
    #[serde(default)]
    pub requires_ramdisk: bool,
    /// Description of the arguments, if it takes any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argsinfo: Option<Value>,
    /// Whether it may run again after its outcome was lost. False unless the
    /// step says so; real Ironic does not send it.
    #[serde(default)]
    pub repeatable: bool,
    /// Seconds that one try of it may take; none: the service decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    /// Whether it runs on the children of the node instead of the node.
    #[serde(default, skip_serializing_if = "is_false")]
    pub execute_on_child_nodes: bool,
    /// Which children, by UUID or name; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limit_child_node_execution: Vec<String>,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Step;

    #[test]
    fn what_few_steps_have_is_left_out() {
        let step: Step = serde_json::from_value(json!({"interface": "raid", "step": "x"})).unwrap();
        let plain = serde_json::to_value(&step).unwrap();
        for key in [
            "argsinfo",
            "timeout",
            "execute_on_child_nodes",
            "limit_child_node_execution",
        ] {
            assert_eq!(plain.get(key), None, "{key}");
        }
        let full = json!({
            "interface": "raid", "step": "x", "timeout": 5, "execute_on_child_nodes": true,
            "limit_child_node_execution": ["a"],
        });
        let step: Step = serde_json::from_value(full).unwrap();
        assert!(step.execute_on_child_nodes);
        assert_eq!(step.timeout, Some(5));
    }
}

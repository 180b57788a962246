//! Software RAID: what the agent is told of what is to be, and what the node
//! keeps of what was made. It is for nodes whose RAID interface is `agent`.

use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use wrought_store::node::Node;
use wrought_wire::step::Step;

use crate::error::Error;
use crate::steps::name;

/// Whether the agent makes this node's RAID, and this is a step of it.
fn concerns(node: &Node, step: &Step) -> bool {
    step.interface == "raid"
        && node
            .interfaces
            .get("raid")
            .is_some_and(|name| name == "agent")
}

/// Puts that part of the node's target into the step's parameters that its
/// arguments ask for.
pub(crate) fn prepare(
    node: &Node,
    step: &Step,
    params: &mut Map<String, Value>,
) -> Result<(), Error> {
    if !concerns(node, step) || step.step != "create_configuration" {
        return Ok(());
    }
    let wants = |key: &str| step.args.get(key).and_then(Value::as_bool).unwrap_or(true);
    let (root, others) = (wants("create_root_volume"), wants("create_nonroot_volumes"));
    let mut config = node.target_raid_config.clone();
    let disks = config
        .get_mut("logical_disks")
        .and_then(Value::as_array_mut);
    let Some(disks) = disks.filter(|disks| !disks.is_empty()) else {
        return Err(Error::Step(format!(
            "step {} on node {}: the node has no target RAID configuration; set one with PUT \
             /v1/nodes/{}/states/raid",
            name(step),
            node.uuid,
            node.uuid
        )));
    };
    disks.retain(|disk| match disk["is_root_volume"] == true {
        true => root,
        false => others,
    });
    if disks.is_empty() {
        return Err(Error::Step(format!(
            "step {} on node {}: no logical disk of the target RAID configuration is left with \
             create_root_volume {root} and create_nonroot_volumes {others}",
            name(step),
            node.uuid
        )));
    }
    if let Some(shown) = params.get_mut("node") {
        shown["target_raid_config"] = Value::Object(config);
    }
    Ok(())
}

/// Notes what the agent has made or deleted.
pub(crate) fn ended(node: &mut Node, step: &Step, result: &Value) {
    if !concerns(node, step) {
        return;
    }
    match step.step.as_str() {
        "delete_configuration" => node.raid_config = Map::new(),
        "create_configuration" | "apply_configuration" => {
            let made = result.as_object().filter(|made| !made.is_empty());
            if let Some(made) = made {
                note(node, made.clone());
            }
        }
        _ => {}
    }
}

/// As Ironic does it: the configuration with its time, and what the root volume
/// says of the node.
fn note(node: &mut Node, mut made: Map<String, Value>) {
    let now = jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M:%S%.6f");
    made.insert("last_updated".to_owned(), now.to_string().into());
    let disks = made.get("logical_disks").and_then(Value::as_array);
    let root = disks.and_then(|disks| disks.iter().find(|disk| disk["is_root_volume"] == true));
    if let Some(root) = root.cloned() {
        let properties = &mut node.properties;
        if let Some(hint) = root.get("root_device_hint").filter(|hint| hint.is_object()) {
            properties.insert("root_device".to_owned(), hint.clone());
        }
        if let Some(size) = root.get("size_gb").and_then(Value::as_u64) {
            properties.insert("local_gb".to_owned(), size.into());
        }
        if let Some(level) = root.get("raid_level").and_then(Value::as_str) {
            match properties.get_mut("capabilities") {
                Some(Value::Object(map)) => {
                    map.insert("raid_level".to_owned(), level.into());
                }
                other => {
                    let old = other.and_then(|old| old.as_str());
                    let capabilities = with_level(old.unwrap_or_default(), level);
                    properties.insert("capabilities".to_owned(), json!(capabilities));
                }
            }
        }
    }
    node.raid_config = made;
}

/// `key:value,…` with this RAID level.
fn with_level(capabilities: &str, level: &str) -> String {
    let others = capabilities
        .split(',')
        .map(str::trim)
        .filter(|pair| !pair.is_empty() && !pair.starts_with("raid_level:"));
    let mut pairs: Vec<String> = others.map(str::to_owned).collect();
    pairs.push(format!("raid_level:{level}"));
    pairs.join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::Map;
    use serde_json::Value;
    use serde_json::json;
    use wrought_store::node::Node;
    use wrought_wire::step::Step;

    use super::ended;
    use super::prepare;
    use crate::steps::list::lenient;
    use crate::testing;

    fn node() -> Node {
        let mut node = testing::node("redfish");
        node.interfaces
            .insert("raid".to_owned(), "agent".to_owned());
        let target = json!({"logical_disks": [
            {"raid_level": "1", "size_gb": 100, "controller": "software", "is_root_volume": true},
            {"raid_level": "0", "size_gb": "MAX", "controller": "software"},
        ]});
        node.target_raid_config = target.as_object().unwrap().clone();
        node
    }

    fn step(name: &str, args: Value) -> Step {
        lenient(&json!({"interface": "raid", "step": name, "args": args})).unwrap()
    }

    /// What the agent is told.
    fn told(node: &Node, args: Value) -> Result<Value, String> {
        let mut params = Map::new();
        params.insert("node".to_owned(), json!({"target_raid_config": {}}));
        let step = step("create_configuration", args);
        prepare(node, &step, &mut params).map_err(|error| error.to_string())?;
        Ok(params["node"]["target_raid_config"]["logical_disks"].clone())
    }

    #[test]
    fn the_agent_is_told_what_its_arguments_ask_for() {
        let node = node();
        assert_eq!(told(&node, json!({})).unwrap().as_array().unwrap().len(), 2);
        let root = told(&node, json!({"create_nonroot_volumes": false})).unwrap();
        assert_eq!(root[0]["size_gb"], 100);
        assert_eq!(root.as_array().unwrap().len(), 1);
        let others = told(&node, json!({"create_root_volume": false})).unwrap();
        assert_eq!(others[0]["size_gb"], "MAX");
        let none = json!({"create_root_volume": false, "create_nonroot_volumes": false});
        let refused = told(&node, none).unwrap_err();
        assert!(
            refused.contains("no logical disk of the target"),
            "{refused}"
        );
        let mut empty = node;
        empty.target_raid_config = Map::new();
        let refused = told(&empty, json!({})).unwrap_err();
        assert!(
            refused.contains("has no target RAID configuration"),
            "{refused}"
        );
        // Others make this node's RAID.
        empty
            .interfaces
            .insert("raid".to_owned(), "redfish".to_owned());
        assert_eq!(told(&empty, json!({})).unwrap(), Value::Null);
    }

    #[test]
    fn what_was_made_is_kept_and_what_was_deleted_is_not() {
        let mut node = node();
        node.properties.insert(
            "capabilities".to_owned(),
            json!("boot_mode:uefi,raid_level:5"),
        );
        let made = Value::Object(node.target_raid_config.clone());
        ended(&mut node, &step("create_configuration", json!({})), &made);
        assert_eq!(node.raid_config["logical_disks"], made["logical_disks"]);
        let time = node.raid_config["last_updated"].as_str().unwrap();
        assert_eq!((time.len(), &time[10..11]), (26, " "));
        assert_eq!(node.properties["local_gb"], 100);
        assert_eq!(
            node.properties["capabilities"],
            "boot_mode:uefi,raid_level:1"
        );
        ended(
            &mut node,
            &step("delete_configuration", json!({})),
            &json!("done"),
        );
        assert!(node.raid_config.is_empty());
        ended(
            &mut node,
            &step("apply_configuration", json!({})),
            &Value::Null,
        );
        assert!(node.raid_config.is_empty());
    }
}

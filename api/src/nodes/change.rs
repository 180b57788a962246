//! Setting one field of a node from JSON, for new nodes and for patches alike.

use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use wrought_store::Node;

use super::names;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::mask;
use crate::value::Noun;

const NODE: Noun = Noun("node");

/// The value of a field that can be changed, with its secrets.
pub(crate) fn get(node: &Node, field: &str) -> Value {
    match field {
        "automated_clean" => json!(node.automated_clean),
        "chassis_uuid" => json!(node.chassis_uuid),
        "conductor_group" => json!(node.conductor_group),
        "description" => json!(node.description),
        "disable_power_off" => json!(node.disable_power_off),
        "driver" => json!(node.driver),
        "driver_info" => json!(node.driver_info),
        "extra" => json!(node.extra),
        "instance_info" => json!(node.instance_info),
        "instance_name" => json!(node.instance_name),
        "instance_uuid" => json!(node.instance_uuid),
        "lessee" => json!(node.lessee),
        "maintenance" => json!(node.maintenance),
        "name" => json!(node.name),
        "network_data" => json!(node.network_data),
        "owner" => json!(node.owner),
        "parent_node" => json!(node.parent_node),
        "properties" => json!(node.properties),
        "protected" => json!(node.protected),
        "protected_reason" => json!(node.protected_reason),
        "resource_class" => json!(node.resource_class),
        "retired" => json!(node.retired),
        "retired_reason" => json!(node.retired_reason),
        "shard" => json!(node.shard),
        other => match other.strip_suffix("_interface") {
            Some(kind) => json!(node.interfaces.get(kind)),
            None => Value::Null,
        },
    }
}

/// Sets a field. Null takes it back to what it is without a setting.
pub(crate) fn set(node: &mut Node, field: &str, value: Value, context: &Context) -> Result<()> {
    match field {
        "automated_clean" => node.automated_clean = NODE.boolean(field, &value)?,
        "chassis_uuid" => node.chassis_uuid = NODE.uuid(field, &value)?,
        "conductor_group" => node.conductor_group = group(&value)?,
        "description" => node.description = NODE.text(field, value, 4096)?,
        "disable_power_off" => {
            node.disable_power_off = NODE.boolean(field, &value)?.unwrap_or(false)
        }
        "driver" => {
            node.driver = NODE
                .text(field, value, 255)?
                .ok_or_else(|| NODE.bad(field, "expected the name of a driver, found null"))?;
        }
        "driver_info" => replace(&mut node.driver_info, field, value)?,
        "extra" => replace(&mut node.extra, field, value)?,
        "instance_info" => replace(&mut node.instance_info, field, value)?,
        "instance_name" => node.instance_name = NODE.text(field, value, 255)?,
        "instance_uuid" => node.instance_uuid = NODE.uuid(field, &value)?,
        "lessee" => node.lessee = NODE.text(field, value, 255)?,
        "maintenance" => node.maintenance = NODE.boolean(field, &value)?.unwrap_or(false),
        "name" => node.name = name(value, context)?,
        "network_data" => {
            check_network_data(&value)?;
            replace(&mut node.network_data, field, value)?;
        }
        "owner" => node.owner = NODE.text(field, value, 255)?,
        "parent_node" => node.parent_node = NODE.text(field, value, 255)?,
        "properties" => replace(&mut node.properties, field, value)?,
        "protected" => node.protected = NODE.boolean(field, &value)?.unwrap_or(false),
        "protected_reason" => node.protected_reason = NODE.text(field, value, 4096)?,
        "resource_class" => node.resource_class = NODE.text(field, value, 80)?,
        "retired" => node.retired = NODE.boolean(field, &value)?.unwrap_or(false),
        "retired_reason" => node.retired_reason = NODE.text(field, value, 4096)?,
        "shard" => node.shard = NODE.text(field, value, 255)?,
        other => {
            let kind = other
                .strip_suffix("_interface")
                .ok_or_else(|| NODE.bad(field, "cannot be set"))?;
            match NODE.text(field, value, 255)? {
                Some(name) => node.interfaces.insert(kind.to_owned(), name),
                None => node.interfaces.remove(kind),
            };
        }
    }
    Ok(())
}

/// What instances read has three lists, whose items are theirs; or nothing.
fn check_network_data(value: &Value) -> Result<()> {
    let map = match value {
        Value::Object(map) if !map.is_empty() => map,
        _ => return Ok(()),
    };
    let lists = ["links", "networks", "services"];
    match lists
        .iter()
        .find(|list| !map.get(**list).is_some_and(Value::is_array))
    {
        Some(list) => Err(NODE.bad("network_data", &format!("expected a list {list}"))),
        None => Ok(()),
    }
}

fn name(value: Value, context: &Context) -> Result<Option<String>> {
    let Some(name) = NODE.text("name", value, 255)? else {
        return Ok(None);
    };
    match name.is_empty() {
        true => Ok(None),
        false if names::is_valid(&name, context) => Ok(Some(name)),
        false => Err(ApiError::bad_request(format!(
            "Cannot create node with invalid name '{name}'"
        ))),
    }
}

fn group(value: &Value) -> Result<String> {
    let field = "conductor_group";
    let group = NODE
        .text(field, value.clone(), 255)?
        .unwrap_or_default()
        .to_lowercase();
    let fine = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    match group.chars().all(fine) {
        true => Ok(group),
        false => Err(NODE.bad(
            field,
            "expected letters, digits, dots, dashes and underscores alone",
        )),
    }
}

fn replace(target: &mut Map<String, Value>, field: &str, value: Value) -> Result<()> {
    let mut object = NODE.object(field, value)?;
    mask::unmask(&mut object, target);
    *target = object;
    Ok(())
}

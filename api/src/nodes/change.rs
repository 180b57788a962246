//! Setting one field of a node from JSON, for new nodes and for patches alike.

use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use uuid::Uuid;
use wrought_store::Node;

use super::names;
use crate::body;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::mask;

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
        "automated_clean" => node.automated_clean = boolean(field, &value)?,
        "chassis_uuid" => match uuid(field, &value)? {
            None => node.chassis_uuid = None,
            Some(chassis) => {
                return Err(ApiError::bad_request(format!(
                    "Chassis {chassis} could not be found."
                )));
            }
        },
        "conductor_group" => node.conductor_group = group(&value)?,
        "description" => node.description = text(field, value, 4096)?,
        "disable_power_off" => node.disable_power_off = boolean(field, &value)?.unwrap_or(false),
        "driver" => {
            node.driver = text(field, value, 255)?
                .ok_or_else(|| schema(field, "expected the name of a driver, found null"))?;
        }
        "driver_info" => replace(&mut node.driver_info, field, value)?,
        "extra" => replace(&mut node.extra, field, value)?,
        "instance_info" => replace(&mut node.instance_info, field, value)?,
        "instance_name" => node.instance_name = text(field, value, 255)?,
        "instance_uuid" => node.instance_uuid = uuid(field, &value)?,
        "lessee" => node.lessee = text(field, value, 255)?,
        "maintenance" => node.maintenance = boolean(field, &value)?.unwrap_or(false),
        "name" => node.name = name(value, context)?,
        "network_data" => replace(&mut node.network_data, field, value)?,
        "owner" => node.owner = text(field, value, 255)?,
        "parent_node" => node.parent_node = text(field, value, 255)?,
        "properties" => replace(&mut node.properties, field, value)?,
        "protected" => node.protected = boolean(field, &value)?.unwrap_or(false),
        "protected_reason" => node.protected_reason = text(field, value, 4096)?,
        "resource_class" => node.resource_class = text(field, value, 80)?,
        "retired" => node.retired = boolean(field, &value)?.unwrap_or(false),
        "retired_reason" => node.retired_reason = text(field, value, 4096)?,
        "shard" => node.shard = text(field, value, 255)?,
        other => {
            let kind = other
                .strip_suffix("_interface")
                .ok_or_else(|| schema(field, "cannot be set"))?;
            match text(field, value, 255)? {
                Some(name) => node.interfaces.insert(kind.to_owned(), name),
                None => node.interfaces.remove(kind),
            };
        }
    }
    Ok(())
}

fn schema(field: &str, problem: &str) -> ApiError {
    ApiError::bad_request(format!("Schema error for node: {field}: {problem}"))
}

fn mismatch(field: &str, expected: &str, value: &Value) -> ApiError {
    schema(
        field,
        &format!("expected {expected}, found {}", body::kind(value)),
    )
}

fn text(field: &str, value: Value, longest: usize) -> Result<Option<String>> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) if text.chars().count() <= longest => Ok(Some(text)),
        Value::String(_) => Err(schema(field, &format!("longer than {longest} characters"))),
        other => Err(mismatch(field, "a string or null", &other)),
    }
}

/// A boolean, also in the words that command line clients send.
fn boolean(field: &str, value: &Value) -> Result<Option<bool>> {
    match value {
        Value::Null => Ok(None),
        Value::Bool(flag) => Ok(Some(*flag)),
        Value::String(word) => match word.trim().to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" | "t" | "y" => Ok(Some(true)),
            "false" | "0" | "no" | "off" | "f" | "n" => Ok(Some(false)),
            _ => Err(schema(
                field,
                &format!("expected true or false, found {word:?}"),
            )),
        },
        other => Err(mismatch(field, "true or false", other)),
    }
}

fn uuid(field: &str, value: &Value) -> Result<Option<Uuid>> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => text
            .parse()
            .map(Some)
            .map_err(|_| ApiError::bad_request(format!("Expected UUID for {field}: {text}"))),
        other => Err(mismatch(field, "a UUID or null", other)),
    }
}

fn name(value: Value, context: &Context) -> Result<Option<String>> {
    let Some(name) = text("name", value, 255)? else {
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
    let group = text(field, value.clone(), 255)?
        .unwrap_or_default()
        .to_lowercase();
    let fine = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    match group.chars().all(fine) {
        true => Ok(group),
        false => Err(schema(
            field,
            "expected letters, digits, dots, dashes and underscores alone",
        )),
    }
}

fn replace(target: &mut Map<String, Value>, field: &str, value: Value) -> Result<()> {
    match value {
        Value::Null => target.clear(),
        Value::Object(mut object) => {
            mask::unmask(&mut object, target);
            *target = object;
        }
        other => return Err(mismatch(field, "an object", &other)),
    }
    Ok(())
}

//! Setting one field of a port from JSON.

use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use wrought_store::Port;

use super::mac;
use crate::body;
use crate::error::ApiError;
use crate::error::Result;

/// The value of a field that can be changed.
pub(crate) fn get(port: &Port, field: &str) -> Value {
    match field {
        "address" => json!(port.address),
        "available_for_dynamic_portgroup" => Value::Bool(true),
        "category" => json!(port.category),
        "description" => json!(port.description),
        "extra" => json!(port.extra),
        "is_smartnic" => json!(port.is_smartnic),
        "local_link_connection" => json!(port.local_link_connection),
        "name" => json!(port.name),
        "node_uuid" => json!(port.node_uuid),
        "physical_network" => json!(port.physical_network),
        "pxe_enabled" => json!(port.pxe_enabled),
        "vendor" => json!(port.vendor),
        _ => Value::Null,
    }
}

/// Sets a field other than `node_uuid`. Null takes it back to its default.
pub(crate) fn set(port: &mut Port, field: &str, value: Value) -> Result<()> {
    match field {
        "address" => port.address = address(&value)?,
        "available_for_dynamic_portgroup" => match boolean(field, &value, true)? {
            true => {}
            false => {
                return Err(bad(
                    field,
                    "portgroups are not offered, so only true is possible",
                ));
            }
        },
        "category" => port.category = text(field, value, 80)?,
        "description" => port.description = text(field, value, 255)?,
        "extra" => port.extra = object(field, value)?,
        "is_smartnic" => port.is_smartnic = boolean(field, &value, false)?,
        "local_link_connection" => port.local_link_connection = link(field, value)?,
        "name" => port.name = text(field, value, 255)?.filter(|name| !name.is_empty()),
        "physical_network" => {
            port.physical_network = text(field, value, 64)?;
            if port.physical_network.as_deref() == Some("") {
                return Err(bad(field, "must not be empty"));
            }
        }
        "portgroup_uuid" => match value {
            Value::Null => {}
            other => {
                return Err(bad(
                    field,
                    &format!("Portgroup {other} could not be found."),
                ));
            }
        },
        "pxe_enabled" => port.pxe_enabled = boolean(field, &value, true)?,
        "vendor" => port.vendor = text(field, value, 32)?,
        _ => return Err(bad(field, "cannot be changed")),
    }
    Ok(())
}

/// What must hold for the port as a whole.
pub(crate) fn check(port: &Port) -> Result<()> {
    let has = |key: &str| port.local_link_connection.contains_key(key);
    if port.is_smartnic && !(has("hostname") && has("port_id")) {
        return Err(bad(
            "local_link_connection",
            "a smart NIC needs hostname and port_id",
        ));
    }
    Ok(())
}

fn bad(field: &str, problem: &str) -> ApiError {
    ApiError::bad_request(format!("Schema error for port: {field}: {problem}"))
}

fn mismatch(field: &str, expected: &str, value: &Value) -> ApiError {
    bad(
        field,
        &format!("expected {expected}, found {}", body::kind(value)),
    )
}

fn address(value: &Value) -> Result<String> {
    let text = value
        .as_str()
        .ok_or_else(|| mismatch("address", "a MAC address", value))?;
    mac(text).ok_or_else(|| {
        ApiError::bad_request(format!("Expected valid MAC address for address: {text}"))
    })
}

fn text(field: &str, value: Value, longest: usize) -> Result<Option<String>> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) if text.chars().count() <= longest => Ok(Some(text)),
        Value::String(_) => Err(bad(field, &format!("longer than {longest} characters"))),
        other => Err(mismatch(field, "a string or null", &other)),
    }
}

fn boolean(field: &str, value: &Value, default: bool) -> Result<bool> {
    match value {
        Value::Null => Ok(default),
        Value::Bool(flag) => Ok(*flag),
        Value::String(word) => match word.trim().to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" | "t" | "y" => Ok(true),
            "false" | "0" | "no" | "off" | "f" | "n" => Ok(false),
            _ => Err(bad(
                field,
                &format!("expected true or false, found {word:?}"),
            )),
        },
        other => Err(mismatch(field, "true or false", other)),
    }
}

fn object(field: &str, value: Value) -> Result<Map<String, Value>> {
    match value {
        Value::Null => Ok(Map::new()),
        Value::Object(object) => Ok(object),
        other => Err(mismatch(field, "an object", &other)),
    }
}

/// Switch and port that the NIC hangs on: nothing, a switch port, a smart NIC,
/// or an unmanaged network.
fn link(field: &str, value: Value) -> Result<Map<String, Value>> {
    const KEYS: [&str; 5] = [
        "hostname",
        "network_type",
        "port_id",
        "switch_id",
        "switch_info",
    ];
    let mut link = object(field, value)?;
    if let Some(key) = link.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(bad(field, &format!("additional property {key:?}")));
    }
    if let Some((key, value)) = link.iter().find(|(_, value)| !value.is_string()) {
        return Err(mismatch(&format!("{field}.{key}"), "a string", value));
    }
    let has = |key: &str| link.contains_key(key);
    let unmanaged = link
        .get("network_type")
        .is_some_and(|kind| kind == "unmanaged");
    let whole = has("port_id") && (has("switch_id") || has("hostname"));
    if !(link.is_empty() || unmanaged || whole) {
        return Err(bad(
            field,
            "expected switch_id and port_id, or hostname and port_id, or network_type unmanaged",
        ));
    }
    if let Some(Value::String(id)) = link.get_mut("switch_id") {
        let path = id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        *id = match (mac(id), path) {
            (Some(mac), _) => mac,
            (None, true) => id.to_ascii_lowercase(),
            (None, false) => {
                return Err(bad(
                    field,
                    "switch_id is neither a MAC address nor a datapath id",
                ));
            }
        };
    }
    Ok(link)
}

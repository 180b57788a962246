//! Setting one field of a port from JSON.

use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use wrought_store::Port;

use super::mac;
use crate::error::ApiError;
use crate::error::Result;
use crate::value::Noun;

pub(super) const PORT: Noun = Noun("port");

/// The value of a field that can be changed.
pub(crate) fn get(port: &Port, field: &str) -> Value {
    match field {
        "address" => json!(port.address),
        "available_for_dynamic_portgroup" => json!(port.available_for_dynamic_portgroup),
        "category" => json!(port.category),
        "description" => json!(port.description),
        "extra" => json!(port.extra),
        "is_smartnic" => json!(port.is_smartnic),
        "local_link_connection" => json!(port.local_link_connection),
        "name" => json!(port.name),
        "node_uuid" => json!(port.node_uuid),
        "physical_network" => json!(port.physical_network),
        "portgroup_uuid" => json!(port.portgroup_uuid),
        "pxe_enabled" => json!(port.pxe_enabled),
        "vendor" => json!(port.vendor),
        _ => Value::Null,
    }
}

/// Sets a field other than `node_uuid`. Null takes it back to its default.
pub(crate) fn set(port: &mut Port, field: &str, value: Value) -> Result<()> {
    match field {
        "address" => port.address = address(&value)?,
        "available_for_dynamic_portgroup" => {
            port.available_for_dynamic_portgroup = PORT.boolean(field, &value)?.unwrap_or(true);
        }
        "category" => port.category = PORT.text(field, value, 80)?,
        "description" => port.description = PORT.text(field, value, 255)?,
        "extra" => port.extra = PORT.object(field, value)?,
        "is_smartnic" => port.is_smartnic = PORT.boolean(field, &value)?.unwrap_or(false),
        "local_link_connection" => port.local_link_connection = link(field, value)?,
        "name" => {
            port.name = PORT
                .text(field, value, 255)?
                .filter(|name| !name.is_empty())
        }
        "physical_network" => {
            port.physical_network = PORT.text(field, value, 64)?;
            if port.physical_network.as_deref() == Some("") {
                return Err(PORT.bad(field, "must not be empty"));
            }
        }
        "portgroup_uuid" => port.portgroup_uuid = PORT.uuid(field, &value)?,
        "pxe_enabled" => port.pxe_enabled = PORT.boolean(field, &value)?.unwrap_or(true),
        "vendor" => port.vendor = PORT.text(field, value, 32)?,
        _ => return Err(PORT.bad(field, "cannot be changed")),
    }
    Ok(())
}

/// What must hold for the port as a whole.
pub(crate) fn check(port: &Port) -> Result<()> {
    let has = |key: &str| port.local_link_connection.contains_key(key);
    if port.is_smartnic && !(has("hostname") && has("port_id")) {
        return Err(PORT.bad(
            "local_link_connection",
            "a smart NIC needs hostname and port_id",
        ));
    }
    Ok(())
}

fn address(value: &Value) -> Result<String> {
    let text = value
        .as_str()
        .ok_or_else(|| PORT.mismatch("address", "a MAC address", value))?;
    mac(text).ok_or_else(|| {
        ApiError::bad_request(format!("Expected valid MAC address for address: {text}"))
    })
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
    let mut link = PORT.object(field, value)?;
    if let Some(key) = link.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(PORT.bad(field, &format!("additional property {key:?}")));
    }
    if let Some((key, value)) = link.iter().find(|(_, value)| !value.is_string()) {
        return Err(PORT.mismatch(&format!("{field}.{key}"), "a string", value));
    }
    let has = |key: &str| link.contains_key(key);
    let unmanaged = link
        .get("network_type")
        .is_some_and(|kind| kind == "unmanaged");
    let whole = has("port_id") && (has("switch_id") || has("hostname"));
    if !(link.is_empty() || unmanaged || whole) {
        return Err(PORT.bad(
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
                return Err(PORT.bad(
                    field,
                    "switch_id is neither a MAC address nor a datapath id",
                ));
            }
        };
    }
    Ok(link)
}

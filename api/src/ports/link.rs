//! `local_link_connection`: where a NIC is plugged in.

use serde_json::Map;
use serde_json::Value;
use wrought_store::Port;
use wrought_wire::mac::normalised as mac;

use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::resource::Resource;
use crate::value::Noun;
use crate::version::since;

const PORT: Noun = Port::NOUN;
const FIELD: &str = "local_link_connection";

/// The keys of a switch port, a smart NIC or an unmanaged network.
const KEYS: [&str; 5] = [
    "hostname",
    "network_type",
    "port_id",
    "switch_id",
    "switch_info",
];
/// The keys of a port of a virtual switch.
const VTEP: [&str; 3] = ["port_id", "vtep-logical-switch", "vtep-physical-switch"];

/// Nothing, a switch port, a smart NIC, an unmanaged network, or (1.90 to
/// 1.104) a port of a virtual switch.
pub(super) fn link(value: Value, context: &Context) -> Result<Map<String, Value>> {
    let mut link = PORT.object(FIELD, value)?;
    let vtep = link.contains_key(VTEP[1]) || link.contains_key(VTEP[2]);
    let keys: &[&str] = if vtep { &VTEP } else { &KEYS };
    if let Some(key) = link.keys().find(|key| !keys.contains(&key.as_str())) {
        return Err(PORT.bad(FIELD, &format!("additional property {key:?}")));
    }
    if let Some((key, value)) = link.iter().find(|(_, value)| !value.is_string()) {
        return Err(PORT.mismatch(&format!("{FIELD}.{key}"), "a string", value));
    }
    let has = |key: &str| link.contains_key(key);
    if has("network_type") {
        context.needs("network_type in local_link_connection", since::NETWORK_TYPE)?;
    }
    if vtep {
        virtual_switch(&link, context)?;
        return Ok(link);
    }
    let kind = link.get("network_type").and_then(Value::as_str);
    if kind.is_some_and(|kind| !matches!(kind, "managed" | "unmanaged")) {
        return Err(PORT.bad(FIELD, "network_type is neither managed nor unmanaged"));
    }
    let whole = has("port_id") && (has("switch_id") || has("hostname"));
    if !(link.is_empty() || kind == Some("unmanaged") || whole) {
        return Err(PORT.bad(
            FIELD,
            "expected switch_id and port_id, or hostname and port_id, or network_type unmanaged",
        ));
    }
    if let Some(Value::String(id)) = link.get_mut("switch_id") {
        *id = switch_id(id)?;
    }
    Ok(link)
}

fn virtual_switch(link: &Map<String, Value>, context: &Context) -> Result<()> {
    if !context.has(since::VTEP) || context.has(since::NO_VTEP) {
        return Err(ApiError::not_acceptable(format!(
            "Request not acceptable. Ports of virtual switches need an API version from 1.{} to 1.{}.",
            since::VTEP,
            since::NO_VTEP - 1
        )));
    }
    match VTEP.iter().find(|key| !link.contains_key(**key)) {
        Some(key) => Err(PORT.bad(FIELD, &format!("'{key}' is a required property"))),
        None => Ok(()),
    }
}

/// A MAC address or an OpenFlow datapath id, in lower case.
fn switch_id(id: &str) -> Result<String> {
    let path = id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    match (mac(id), path) {
        (Some(mac), _) => Ok(mac),
        (None, true) => Ok(id.to_ascii_lowercase()),
        (None, false) => Err(PORT.bad(
            FIELD,
            "switch_id is neither a MAC address nor a datapath id",
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::Value;
    use serde_json::json;
    use wrought_wire::microversion::Microversion;

    use super::link;
    use crate::context::Context;

    fn status(version: u16, value: Value) -> u16 {
        let context = Context {
            version: Microversion(version),
            base: Arc::from(""),
        };
        link(value, &context).map_or_else(|error| error.status(), |_| 200)
    }

    #[test]
    fn shapes_by_version() {
        let vtep = json!({"port_id": "a", "vtep-logical-switch": "b", "vtep-physical-switch": "c"});
        let smart = json!({"port_id": "a", "hostname": "b"});
        for (version, value, expected) in [
            (19, Value::Null, 200),
            (19, smart, 200),
            (63, json!({"network_type": "unmanaged"}), 406),
            (64, json!({"network_type": "unmanaged"}), 200),
            (64, json!({"network_type": "odd"}), 400),
            (64, json!({"network_type": "managed"}), 400),
            (89, vtep.clone(), 406),
            (90, vtep.clone(), 200),
            (104, json!({"vtep-logical-switch": "b"}), 400),
            (105, vtep, 406),
            (
                115,
                json!({"switch_id": "52:54:00:bb:00:01", "port_id": "1"}),
                200,
            ),
            (
                115,
                json!({"switch_id": "0000000000000AbC", "port_id": "1"}),
                200,
            ),
            (115, json!({"switch_id": "zz", "port_id": "1"}), 400),
            (115, json!({"switch_id": "52:54:00:bb:00:01"}), 400),
            (115, json!({"port_id": 1}), 400),
            (115, json!({"bogus": "x"}), 400),
            (115, json!([]), 400),
        ] {
            assert_eq!(
                status(version, value.clone()),
                expected,
                "1.{version} {value}"
            );
        }
    }
}

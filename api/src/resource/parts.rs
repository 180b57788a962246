//! What several resources have in common.

use serde_json::Value;
use uuid::Uuid;
use wrought_wire::mac::normalised as mac;

use crate::error::ApiError;
use crate::error::Result;
use crate::value::Noun;

/// Below another resource there are lists only: 400 for anything else.
pub(crate) async fn nested() -> ApiError {
    ApiError::bad_request(
        "Malformed request URI: single resources are only served below their own collection.",
    )
}

/// The node that something belongs to.
pub(crate) fn node(noun: Noun, value: &Value) -> Result<Uuid> {
    noun.uuid("node_uuid", value)?
        .ok_or_else(|| noun.bad("node_uuid", "must not be null"))
}

/// The name of a physical network.
pub(crate) fn physical_network(noun: Noun, value: Value) -> Result<Option<String>> {
    let field = "physical_network";
    match noun.text(field, value, 64)? {
        Some(name) if name.is_empty() => Err(noun.bad(field, "must not be empty")),
        name => Ok(name),
    }
}

/// A MAC address from a text that must be one, with colons.
pub(crate) fn mac_address(text: &str) -> Result<String> {
    mac(text)
        .filter(|mac| mac.eq_ignore_ascii_case(text))
        .ok_or_else(|| {
            ApiError::bad_request(format!("Expected valid MAC address for address: {text}"))
        })
}

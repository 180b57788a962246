//! Properties of a node's `driver_info`, whatever the protocol.

use serde_json::Map;
use serde_json::Value;

/// A text; numbers are taken as text, null and an empty one as nothing.
///
/// # Errors
/// What was expected and found, where it is of another type.
pub(crate) fn text(info: &Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match info.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(_) => Err("expected a text, found another type".to_owned()),
    }
}

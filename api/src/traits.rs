//! Traits: which there are, and how lists of them come in bodies.

use axum::extract::Request;
use serde_json::Value;

use crate::body;
use crate::error::ApiError;
use crate::error::Result;

/// Traits of one node or runbook, at most.
const MOST: usize = 50;
/// What standard traits begin with, beside `CUSTOM_`.
const NAMESPACES: [&str; 5] = ["CUSTOM_", "COMPUTE_", "HW_", "MISC_", "STORAGE_"];

/// Whether it is a trait.
pub(crate) fn is_trait(name: &str) -> bool {
    let word = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let rest = NAMESPACES
        .iter()
        .find_map(|namespace| name.strip_prefix(namespace));
    rest.is_some_and(|rest| !rest.is_empty() && name.len() <= 255 && rest.chars().all(word))
}

/// 400 for what is no trait.
pub(crate) fn check(name: &str) -> Result<()> {
    match is_trait(name) {
        true => Ok(()),
        false => Err(ApiError::bad_request(format!(
            "Schema error for trait: '{name}' is neither a standard trait nor does it match '^CUSTOM_[A-Z0-9_]+$'"
        ))),
    }
}

/// Reads `{"traits": […]}`.
pub(crate) async fn read(request: Request) -> Result<Vec<String>> {
    let (parts, body) = request.into_parts();
    let given = body::object(&parts.headers, body, body::ORDINARY).await?;
    body::only(&given, &["traits"])?;
    let Some(Value::Array(items)) = given.get("traits") else {
        return Err(ApiError::bad_request("Expected an array for traits"));
    };
    let read = |item: &Value| {
        let name = item
            .as_str()
            .ok_or_else(|| ApiError::bad_request("Expected strings in traits"))?;
        check(name)?;
        Ok(name.to_owned())
    };
    items.iter().map(read).collect()
}

/// 400 for a body where a trait is named by the path alone.
pub(crate) async fn no_body(request: Request) -> Result<()> {
    let (parts, body) = request.into_parts();
    match body::maybe_json(&parts.headers, body, body::ORDINARY).await? {
        Some(_) => Err(ApiError::bad_request(
            "No body is expected when adding a trait",
        )),
        None => Ok(()),
    }
}

/// The traits in order, each once; 400 when there are too many.
pub(crate) fn ordered(mut traits: Vec<String>) -> Result<Vec<String>> {
    traits.sort();
    traits.dedup();
    match traits.len() > MOST {
        true => Err(ApiError::bad_request(format!(
            "At most {MOST} traits can be set, found {}",
            traits.len()
        ))),
        false => Ok(traits),
    }
}

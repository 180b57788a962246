//! Request bodies: bounded in size, depth and time, JSON only.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use axum::body::Body;
use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use hyper::body::Body as _;
use serde_json::Map;
use serde_json::Value;

use crate::error::ApiError;
use crate::error::Result;

/// Largest ordinary body, in bytes.
pub(crate) const ORDINARY: usize = 1 << 20;
/// Largest body of a provision request, in bytes: config drives are in it.
pub(crate) const PROVISION: usize = 64 << 20;
/// Largest body with what a ramdisk found, in bytes.
pub(crate) const INSPECTION: usize = 16 << 20;
/// Deepest nesting.
const DEPTH: usize = 25;
/// Longest time that a body may take to arrive.
const PATIENCE: Duration = Duration::from_secs(60);

/// Reads a JSON body of at most `limit` bytes; none when it is empty.
pub(crate) async fn maybe_json(
    headers: &HeaderMap,
    body: Body,
    limit: usize,
) -> Result<Option<Value>> {
    parse(&bytes(headers, body, limit).await?)
}

/// Reads a body of at most `limit` bytes.
pub(crate) async fn bytes(headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes> {
    let announced = headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<u64>().ok())
        .or(body.size_hint().exact());
    if announced.is_some_and(|length| length > limit as u64) {
        return Err(ApiError::too_large(limit));
    }
    tokio::time::timeout(PATIENCE, whole(body, limit))
        .await
        .unwrap_or_else(|_| Err(ApiError::too_slow()))
}

async fn whole(mut body: Body, limit: usize) -> Result<Bytes> {
    let mut read = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|_| {
            ApiError::bad_request("The request body broke off, or is not cut in good chunks.")
        })?;
        let Some(data) = frame.data_ref() else {
            // Trailers say nothing here.
            continue;
        };
        if data.len() > limit - read.len() {
            return Err(ApiError::too_large(limit));
        }
        read.extend_from_slice(data);
    }
    Ok(Bytes::from(read))
}

/// Makes JSON of a body; none of an empty one.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<Value>> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let value: Value = serde_json::from_slice(bytes).map_err(|error| {
        ApiError::bad_request(format!(
            "Malformed JSON in the request body at line {}, column {}.",
            error.line(),
            error.column()
        ))
    })?;
    if depth(&value) > DEPTH {
        return Err(ApiError::bad_request(format!(
            "The JSON of the request body is nested more than {DEPTH} levels deep."
        )));
    }
    Ok(Some(value))
}

/// Reads a JSON body that must be there.
pub(crate) async fn json(headers: &HeaderMap, body: Body, limit: usize) -> Result<Value> {
    maybe_json(headers, body, limit)
        .await?
        .ok_or_else(|| ApiError::bad_request("A JSON body is required, found none."))
}

/// Reads a JSON object that must be there.
pub(crate) async fn object(
    headers: &HeaderMap,
    body: Body,
    limit: usize,
) -> Result<Map<String, Value>> {
    match json(headers, body, limit).await? {
        Value::Object(object) => Ok(object),
        other => Err(ApiError::bad_request(format!(
            "Expected a JSON object as the request body, found {}.",
            kind(&other)
        ))),
    }
}

/// 400 for the first key of an object that is not in `known`.
pub(crate) fn only(object: &Map<String, Value>, known: &[&str]) -> Result<()> {
    match object.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(ApiError::bad_request(format!(
            "Unexpected arguments: {key}"
        ))),
        None => Ok(()),
    }
}

/// The kind of a JSON value, for messages.
pub(crate) const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(object) => 1 + object.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::HeaderMap;

    use super::bytes;
    use super::maybe_json;

    #[tokio::test]
    async fn bounds_hold() {
        let read = |text: String| async move {
            maybe_json(&HeaderMap::new(), Body::from(text), 100).await
        };
        assert_eq!(read(String::new()).await.unwrap(), None);
        assert_eq!(read("{".to_owned()).await.unwrap_err().status(), 400);
        assert_eq!(read("x".repeat(101)).await.unwrap_err().status(), 413);
        // As it comes when nobody says how long it will be.
        let pieces = |count: usize| {
            let pieces = (0..count).map(|_| Ok::<_, std::io::Error>("0123456789"));
            Body::from_stream(futures_util::stream::iter(pieces.collect::<Vec<_>>()))
        };
        let counted = |count| async move { bytes(&HeaderMap::new(), pieces(count), 100).await };
        assert_eq!(counted(10).await.unwrap().len(), 100);
        assert_eq!(counted(11).await.unwrap_err().status(), 413);
        let broken = [Ok("1"), Err(std::io::Error::other("broken"))];
        let broken = Body::from_stream(futures_util::stream::iter(broken));
        let refused = bytes(&HeaderMap::new(), broken, 100).await.unwrap_err();
        assert_eq!(refused.status(), 400);
        let nested = |levels| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(read(nested(25)).await.is_ok());
        assert_eq!(read(nested(26)).await.unwrap_err().status(), 400);
    }
}

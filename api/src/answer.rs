//! Answers with a JSON body.

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use serde::Serialize;

use crate::error::ApiError;
use crate::error::Result;

/// Bytes of an ordinary answer, so that its buffer seldom grows.
const ORDINARY: usize = 4096;

/// 200 with what `shown` becomes as JSON.
pub(crate) fn json(shown: &impl Serialize) -> Result<Response> {
    let mut text = Vec::with_capacity(ORDINARY);
    serde_json::to_writer(&mut text, shown).map_err(|error| ApiError::internal(&error))?;
    Ok(of_text(text))
}

/// 200 with a text that is JSON already.
pub(crate) fn of_text(text: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(text));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

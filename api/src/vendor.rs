//! Calls of vendor methods, of nodes and of drivers alike.

use axum::Json;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::response::Response;
use serde_json::Map;
use serde_json::Value;
use wrought_rpc::VendorCall;

use crate::body;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::query::Query;

/// Reads a call. The method stands in the path, or in the query.
pub(crate) async fn read(
    context: &Context,
    method: Option<String>,
    request: Request,
) -> Result<VendorCall> {
    let known: &[_] = match method {
        Some(_) => &[],
        None => &[("method", 1)],
    };
    let query = Query::read(request.uri(), context, known)?;
    let method = method.or_else(|| query.text("method").map(str::to_owned));
    let method = method.filter(|method| !method.is_empty());
    let method = method.ok_or_else(|| ApiError::missing("method"))?;
    let (parts, body) = request.into_parts();
    let parameters = match body::maybe_json(&parts.headers, body, body::ORDINARY).await? {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(parameters)) => parameters,
        Some(other) => {
            return Err(ApiError::bad_request(format!(
                "Expected a JSON object with the parameters of {method}, found {}",
                body::kind(&other)
            )));
        }
    };
    Ok(VendorCall {
        http_method: parts.method.as_str().to_ascii_uppercase(),
        method,
        parameters,
    })
}

/// What a call gave: its answer as it is, or 202 while it runs.
pub(crate) fn answer(given: Option<Value>) -> Response {
    match given {
        Some(answer) => Json(answer).into_response(),
        None => StatusCode::ACCEPTED.into_response(),
    }
}

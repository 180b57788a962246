//! The conductor's end: one path that takes a call and gives its answer. Who
//! may connect is decided by TLS, before anything comes here.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::StatusCode;
use axum::http::header::CONTENT_LENGTH;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::response::Response;
use axum::routing::post;
use serde_json::Value;

use crate::Caller;
use crate::Conductor;
use crate::jsonrpc;
use crate::jsonrpc::Call;
use crate::jsonrpc::Fault;
use crate::methods;
use crate::methods::CALLER;

/// The largest call or answer in bytes. The API takes requests of 64 MiB, and
/// a node keeps the config drive of such a request.
pub(crate) const LIMIT: usize = 160 << 20;
/// How long a call may take to arrive.
const PATIENCE: Duration = Duration::from_secs(60);

/// Routes that let `conductor` be called from afar.
pub fn router(conductor: Arc<dyn Conductor>) -> Router {
    Router::new().route("/", post(take)).with_state(conductor)
}

async fn take(State(conductor): State<Arc<dyn Conductor>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let bytes = match bytes(&parts.headers, body).await {
        Ok(bytes) => bytes,
        Err(status) => return status.into_response(),
    };
    let Call {
        id,
        method,
        mut params,
    } = match jsonrpc::read(&bytes) {
        Ok(call) => call,
        Err((id, fault)) => return answer(&id, Err(fault)),
    };
    drop(bytes);
    let caller: Caller = match params.remove(CALLER).map(serde_json::from_value) {
        None => Caller::default(),
        Some(Ok(caller)) => caller,
        Some(Err(_)) => return answer(&id, Err(Fault::Params(CALLER))),
    };
    let called = method.clone();
    // What is begun is ended, even when the caller has gone away: a node's
    // lock is given back, its state is what it was made to be.
    let work = tokio::spawn(async move {
        let call = methods::dispatch(conductor.as_ref(), &called, params);
        caller.scope(call).await
    });
    match work.await {
        Ok(outcome) => {
            if let Err(fault) = &outcome {
                tracing::debug!(method, error = %fault, "call refused");
            }
            answer(&id, outcome)
        }
        Err(error) => {
            // The panic's text went to the log by itself.
            tracing::error!(method, %error, "call broke down");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Reads a body: JSON, bounded in size and time.
async fn bytes(headers: &HeaderMap, body: Body) -> Result<axum::body::Bytes, StatusCode> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let is_json = text(CONTENT_TYPE).is_some_and(|value| {
        let kind = value.split(';').next().unwrap_or_default();
        kind.trim().eq_ignore_ascii_case("application/json")
    });
    if !is_json {
        return Err(StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
    let announced = text(CONTENT_LENGTH).and_then(|value| value.parse::<u64>().ok());
    if announced.is_some_and(|length| length > LIMIT as u64) {
        return Err(StatusCode::PAYLOAD_TOO_LARGE);
    }
    match tokio::time::timeout(PATIENCE, to_bytes(body, LIMIT)).await {
        Err(_) => Err(StatusCode::REQUEST_TIMEOUT),
        // Larger than announced, or the connection broke and nobody reads on.
        Ok(Err(_)) => Err(StatusCode::PAYLOAD_TOO_LARGE),
        Ok(Ok(bytes)) => Ok(bytes),
    }
}

fn answer(id: &Value, outcome: Result<Value, Fault>) -> Response {
    let bytes = jsonrpc::answer(id, outcome);
    ([(CONTENT_TYPE, "application/json")], bytes).into_response()
}

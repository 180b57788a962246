//! `/v1/commands`: start, list, look at.

use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::FromRequestParts;
use axum::extract::Path;
use axum::extract::Query;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::response::IntoResponse;
use axum::response::Response;
use axum::routing::MethodRouter;
use axum::routing::get;
use serde::Deserialize;
use serde_json::Value;
use wrought_wire::EPOCH_HEADER;
use wrought_wire::command::CommandList;
use wrought_wire::command::CommandRequest;
use wrought_wire::command::CommandResult;

use crate::server::Fault;
use crate::server::Shared;

/// The longest that one request waits.
const LONGEST_WAIT: u64 = 600;

/// The query of every commands call, once the token in it is right.
pub(super) struct Authorized {
    wait: Option<String>,
}

#[derive(Deserialize)]
struct Arguments {
    agent_token: Option<String>,
    wait: Option<String>,
}

impl FromRequestParts<Shared> for Authorized {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Fault> {
        let arguments = Query::<Arguments>::try_from_uri(&parts.uri).map_err(|_| Fault::token())?;
        shared.check_token(arguments.agent_token.as_deref())?;
        Ok(Self {
            wait: arguments.0.wait,
        })
    }
}

impl Authorized {
    /// `wait=true`, as ironic-python-agent's clients say it.
    fn waits(&self) -> bool {
        self.wait
            .as_deref()
            .is_some_and(|text| text.eq_ignore_ascii_case("true"))
    }

    /// `wait=N`: seconds.
    fn seconds(&self) -> Option<Duration> {
        let seconds: u64 = self.wait.as_deref()?.parse().ok()?;
        Some(Duration::from_secs(seconds.min(LONGEST_WAIT)))
    }
}

/// Reads the lock epoch; a request without one is from a conductor that has
/// none, such as a real Ironic's.
fn epoch(headers: &HeaderMap) -> Result<Option<u64>, Fault> {
    let Some(value) = headers.get(EPOCH_HEADER) else {
        return Ok(None);
    };
    let epoch = value
        .to_str()
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let problem = format!("header {EPOCH_HEADER} must be a decimal number");
    epoch.map(Some).ok_or_else(|| Fault::bad_request(&problem))
}

pub(super) fn collection() -> MethodRouter<Shared> {
    get(list).post(start)
}

async fn list(authorized: Authorized, State(shared): State<Shared>) -> Json<CommandList> {
    if let Some(limit) = authorized.seconds() {
        shared.runner.wait_latest(limit).await;
    }
    Json(CommandList {
        commands: shared.runner.list(),
    })
}

async fn start(
    authorized: Authorized,
    State(shared): State<Shared>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<CommandResult>, Fault> {
    let body = body.map_err(|error| Fault::too_large(&error.to_string()))?;
    let epoch = epoch(&headers)?;
    let document: Value = serde_json::from_slice(&body)
        .map_err(|error| Fault::bad_request(&format!("Failed to decode JSON object: {error}")))?;
    let CommandRequest { name, params } = serde_json::from_value(document)
        .map_err(|_| Fault::bad_request("Missing or invalid name or params"))?;
    // The body's bytes are not needed while the command runs.
    drop(body);
    if let Some(epoch) = epoch {
        shared.runner.note_epoch(epoch)?;
    }
    Ok(Json(
        shared
            .runner
            .execute(&name, params, authorized.waits())
            .await?,
    ))
}

pub(super) async fn show(
    authorized: Authorized,
    State(shared): State<Shared>,
    Path(id): Path<String>,
) -> Response {
    let waits = authorized.waits();
    let result = match id.parse() {
        Ok(id) => match authorized.seconds() {
            Some(limit) => shared.runner.result_within(id, limit).await,
            None => shared.runner.result(id, waits).await,
        },
        Err(_) => None,
    };
    match result {
        Some(result) => Json(result).into_response(),
        None => Fault::no_result(&id).into_response(),
    }
}

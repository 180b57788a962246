//! The command server: ironic-python-agent's HTTP API on port 9999.
//!
//! Paths work with and without `/v1`, with and without a slash at the end.
//! Every call below `commands` needs the token as the query argument
//! `agent_token`; the query is never logged.

mod commands;
mod document;
mod fault;
mod listen;

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use axum::Json;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::ALLOW;
use axum::response::IntoResponse;
use axum::response::Response;
use axum::routing::MethodRouter;
use axum::routing::get;
use serde_json::Value;
use serde_json::json;
use subtle::ConstantTimeEq;
use wrought_wire::secret::Secret;

pub use fault::Fault;
pub use listen::bind;
pub use listen::serve;

use crate::command::Runner;

/// The largest request: a deploy step carries the config drive.
const BODY_LIMIT: usize = 96 << 20;
/// Our version, as in the heartbeat.
pub const VERSION: &str = concat!("wrought ", env!("CARGO_PKG_VERSION"));

/// What the server works with.
#[derive(Clone)]
pub struct Shared {
    pub(crate) runner: Arc<Runner>,
    token: Arc<Secret>,
    started_at: f64,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Shared {
    /// Serves this runner's commands to who knows the token.
    pub fn new(runner: Arc<Runner>, token: Secret) -> Self {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            runner,
            token: Arc::new(token),
            started_at: now.as_secs_f64(),
        }
    }

    /// Compares in a time that does not depend on where the two differ.
    fn check_token(&self, given: Option<&str>) -> Result<(), Fault> {
        let expected = self.token.expose();
        let given = given.unwrap_or_default();
        let same = expected.as_bytes().ct_eq(given.as_bytes());
        if !expected.is_empty() && bool::from(same) {
            Ok(())
        } else {
            Err(Fault::token())
        }
    }
}

/// All routes.
pub fn router(shared: Shared) -> Router {
    let unversioned = Router::new()
        .route("/status", only("GET, HEAD", get(status)))
        .route("/status/", only("GET, HEAD", get(status)))
        .route("/commands", only("GET, HEAD, POST", commands::collection()))
        .route(
            "/commands/",
            only("GET, HEAD, POST", commands::collection()),
        )
        .route("/commands/{id}", only("GET, HEAD", get(commands::show)))
        .route("/commands/{id}/", only("GET, HEAD", get(commands::show)));
    Router::new()
        .route("/", only("GET, HEAD", get(document::root)))
        .route("/v1", only("GET, HEAD", get(document::v1)))
        .route("/v1/", only("GET, HEAD", get(document::v1)))
        .nest("/v1", unversioned.clone())
        .merge(unversioned)
        .fallback(async || Fault::not_found())
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(shared)
}

/// Answers other methods with a JSON body and the list of those that work.
fn only(allowed: &'static str, methods: MethodRouter<Shared>) -> MethodRouter<Shared> {
    methods.fallback(async move || {
        let mut response = Fault::method().into_response();
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static(allowed));
        response
    })
}

/// `GET /v1/status`: ironic-python-agent's two keys and our own.
async fn status(State(shared): State<Shared>) -> Response {
    let mut body = json!({ "started_at": shared.started_at, "version": VERSION });
    if let (Some(peak), Value::Object(body)) = (crate::system::peak_rss_bytes(), &mut body) {
        body.insert("peak_rss_bytes".to_owned(), json!(peak));
    }
    Json(body).into_response()
}

#[cfg(test)]
mod tests;

//! `GET /metrics`: figures for Prometheus, in its text form. Needs the role
//! reader.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::response::Response;
use axum::routing::get;

use crate::ApiState;
use crate::error::Result;
use crate::routes::Routes;

/// Where they are.
pub(crate) const PATH: &str = "/metrics";

/// Version 0.0.4 of the text form.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Routes of this file.
pub(crate) fn router() -> Routes {
    Routes::new().route(PATH, get(show))
}

async fn show(State(state): State<ApiState>) -> Result<Response> {
    let figures = state.conductor.metrics().await?;
    Ok(([(CONTENT_TYPE, TEXT)], figures).into_response())
}

//! `GET /metrics`: figures for Prometheus, in its text form. Needs the role
//! reader.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::response::Response;
use axum::routing::get;
use wrought_rpc::Conductor;

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

/// A router with nothing but the figures of one conductor, for a listener of
/// their own: it asks nobody who they are.
pub fn metrics_of(conductor: Arc<dyn Conductor>) -> Router {
    let figures = async move |State(conductor): State<Arc<dyn Conductor>>| text(&*conductor).await;
    Router::new()
        .route(PATH, get(figures))
        .with_state(conductor)
}

async fn show(State(state): State<ApiState>) -> Result<Response> {
    text(&*state.conductor).await
}

async fn text(conductor: &dyn Conductor) -> Result<Response> {
    let figures = conductor.metrics().await?;
    Ok(([(CONTENT_TYPE, TEXT)], figures).into_response())
}

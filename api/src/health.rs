//! `/healthcheck` and `/readiness`: for load balancers and supervisors, without
//! authentication, and never slower than they have to be.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::routing::get;
use serde_json::Value;
use serde_json::json;
use tokio::time::timeout;
use wrought_store::Conductor;

use crate::ApiState;
use crate::error::ApiError;
use crate::error::Result;
use crate::routes::Routes;

/// How long the database may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Routes of this file.
pub(crate) fn router() -> Routes {
    Routes::new()
        .route("/healthcheck", get(healthcheck))
        .route("/readiness", get(readiness))
}

/// Alive and able to read the database.
async fn healthcheck(State(state): State<ApiState>) -> Result<Json<Value>> {
    conductors(&state).await?;
    Ok(Json(json!({"status": "ok"})))
}

/// Able to do what is asked: the database can be read, and a conductor writes
/// its sign of life into it.
async fn readiness(State(state): State<ApiState>) -> Result<Json<Value>> {
    let conductors = conductors(&state).await?;
    match conductors.iter().any(|one| one.is_alive(state.dead_after)) {
        true => Ok(Json(json!({"status": "ready"}))),
        false => Err(ApiError::unavailable(format!(
            "Not ready: none of the {} conductors that are known has given a sign of life within \
             {} seconds.",
            conductors.len(),
            state.dead_after.as_secs()
        ))),
    }
}

async fn conductors(state: &ApiState) -> Result<Vec<Conductor>> {
    match timeout(PATIENCE, state.store.conductors()).await {
        Ok(Ok(conductors)) => Ok(conductors),
        Ok(Err(error)) => {
            tracing::error!(%error, "the database cannot be read");
            Err(ApiError::unavailable("The database cannot be read."))
        }
        Err(_) => Err(ApiError::unavailable(format!(
            "The database has not answered within {} seconds.",
            PATIENCE.as_secs()
        ))),
    }
}

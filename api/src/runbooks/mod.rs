//! `/v1/runbooks`: named lists of steps for cleaning and servicing.

mod fields;
mod request;
mod traits;

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use axum::routing::get;
use axum::routing::put;
use serde_json::Value;
use wrought_store::Runbook;
use wrought_store::runbook::RunbookQuery;

pub(crate) use request::unfold;

use crate::ApiState;
use crate::context::Context;
use crate::error::Result;
use crate::resource;
use crate::resource::Listing;
use crate::routes::Routes;

/// Routes of this folder.
pub(crate) fn router() -> Routes {
    resource::routes::<Runbook>()
        .route("/v1/runbooks", get(list))
        .route(
            "/v1/runbooks/{ident}/traits",
            get(traits::list).put(traits::replace).delete(traits::clear),
        )
        .route(
            "/v1/runbooks/{ident}/traits/{trait}",
            put(traits::add).delete(traits::remove),
        )
}

async fn list(State(state): State<ApiState>, context: Context, uri: Uri) -> Result<Json<Value>> {
    let listing = Listing::read::<Runbook>(&uri, &context, &[], "runbooks")?;
    listing.run(&state, &context, RunbookQuery).await
}

//! `GET /v1/nodes/{ident}/firmware`.

use axum::Json;
use axum::extract::Path;
use axum::extract::State;
use axum::http::Uri;
use serde_json::Value;
use serde_json::json;
use wrought_store::FirmwareComponent;
use wrought_store::Known;

use crate::ApiState;
use crate::context::Context;
use crate::error::Result;
use crate::query::Query;
use crate::time;
use crate::version::since;

/// Lists the components by name.
pub(crate) async fn list(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    uri: Uri,
) -> Result<Json<Value>> {
    context.endpoint(since::FIRMWARE)?;
    Query::read(&uri, &context, &[])?;
    let node = super::find(&state, &context, &ident).await?;
    let components = state.store.parts::<FirmwareComponent>(node.uuid).await?;
    let components: Vec<Value> = components
        .iter()
        .map(|component| render(component, &context))
        .collect();
    Ok(Json(json!({"firmware": components})))
}

fn render(known: &Known<FirmwareComponent>, context: &Context) -> Value {
    let part = &known.part;
    let mut shown = json!({
        "created_at": time::text(known.created_at),
        "updated_at": time::value(known.updated_at),
        "component": part.component,
        "initial_version": part.initial_version,
        "current_version": part.current_version,
        "last_version_flashed": part.last_version_flashed,
    });
    if context.has(since::FIRMWARE_PARTS) {
        shown["vendor"] = json!(part.vendor);
        shown["model"] = json!(part.model);
        shown["serial_number"] = json!(part.serial_number);
    }
    shown
}

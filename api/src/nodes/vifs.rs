//! `/v1/nodes/{ident}/vifs`.

use axum::Json;
use axum::extract::Path;
use axum::extract::Request;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::Uri;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use wrought_rpc::Vif;

use crate::ApiState;
use crate::body;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::query::Query;
use crate::value::Noun;
use crate::version::since;

const VIF: Noun = Noun("vif");

/// Lists them.
pub(crate) async fn list(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    uri: Uri,
) -> Result<Json<Value>> {
    context.endpoint(since::VIFS)?;
    Query::read(&uri, &context, &[])?;
    let node = super::find(&state, &context, &ident).await?;
    let vifs = state.conductor.vifs(node.uuid).await?;
    let vifs: Vec<Value> = vifs.into_iter().map(|id| json!({"id": id})).collect();
    Ok(Json(json!({"vifs": vifs})))
}

/// Attaches one.
pub(crate) async fn attach(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    request: Request,
) -> Result<StatusCode> {
    context.endpoint(since::VIFS)?;
    Query::read(request.uri(), &context, &[])?;
    let (parts, body) = request.into_parts();
    let given = body::maybe_json(&parts.headers, body, body::ORDINARY).await?;
    let vif = match given.unwrap_or_else(|| json!({})) {
        Value::Object(given) => read(given, &context)?,
        other => {
            let found = body::kind(&other);
            return Err(VIF.schema(&format!("expected an object, found {found}")));
        }
    };
    let node = super::find(&state, &context, &ident).await?;
    state.conductor.attach_vif(node.uuid, vif).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Anything else than these keys is somebody else's and left alone.
fn read(mut given: Map<String, Value>, context: &Context) -> Result<Vif> {
    let id = match given.remove("id") {
        Some(Value::String(id)) if !id.is_empty() => id,
        Some(Value::String(_)) => return Err(VIF.bad("id", "must not be empty")),
        Some(other) => return Err(VIF.mismatch("id", "a string", &other)),
        None => return Err(VIF.schema("'id' is a required property")),
    };
    let mut place = |key: &str| match given.remove(key) {
        Some(value) if context.has(since::VIF_PLACES) => VIF.uuid(key, &value),
        _ => Ok(None),
    };
    let (port, portgroup) = (place("port_uuid")?, place("portgroup_uuid")?);
    if port.is_some() && portgroup.is_some() {
        return Err(ApiError::bad_request(
            "Cannot specify both port_uuid and portgroup_uuid",
        ));
    }
    Ok(Vif {
        id,
        port,
        portgroup,
    })
}

/// Detaches one.
pub(crate) async fn detach(
    State(state): State<ApiState>,
    context: Context,
    Path((ident, id)): Path<(String, String)>,
    uri: Uri,
) -> Result<StatusCode> {
    context.endpoint(since::VIFS)?;
    Query::read(&uri, &context, &[])?;
    let node = super::find(&state, &context, &ident).await?;
    state.conductor.detach_vif(node.uuid, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

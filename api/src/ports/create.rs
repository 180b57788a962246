//! `POST /v1/ports`.

use axum::extract::Request;
use axum::extract::State;
use axum::response::Response;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use wrought_store::Port;

use crate::ApiState;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::nodes;
use crate::resource;
use crate::resource::Resource;
use crate::version::since;

/// Makes a port.
pub(super) async fn create(
    State(state): State<ApiState>,
    context: Context,
    request: Request,
) -> Result<Response> {
    let mut given = resource::read_new(request, &context).await?;
    name_node(&state, &context, &mut given).await?;
    let port: Port = resource::parse(given, &context)?;
    resource::store_new(&state, &context, port).await
}

/// From 1.94 on the node may be given as `node_ident`, which may be its name.
async fn name_node(
    state: &ApiState,
    context: &Context,
    given: &mut Map<String, Value>,
) -> Result<()> {
    let Some(ident) = given.remove("node_ident") else {
        return Ok(());
    };
    context.needs("The field node_ident", since::PORT_NODE_IDENT)?;
    if given.contains_key("node_uuid") {
        return Err(ApiError::bad_request(
            "node_uuid and node_ident exclude each other",
        ));
    }
    let ident = Port::NOUN.needed("node_ident", ident, 255)?;
    let node = nodes::find(state, context, &ident).await;
    let node = node.map_err(ApiError::into_bad_request)?;
    given.insert("node_uuid".to_owned(), json!(node.uuid));
    Ok(())
}

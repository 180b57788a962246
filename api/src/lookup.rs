//! `GET /v1/lookup`: an agent asks who it is. Nobody has to authenticate here,
//! so nothing is told but to machines that are expected to call now.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use axum::routing::get;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use wrought_store::Node;
use wrought_wire::mac::normalised as mac;
use wrought_wire::secret::MASK;

use crate::ApiState;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::links;
use crate::mask;
use crate::query::Query;
use crate::routes::Routes;
use crate::version::since;

/// Routes of this file.
pub(crate) fn router() -> Routes {
    Routes::new().route("/v1/lookup", get(lookup))
}

async fn lookup(State(state): State<ApiState>, context: Context, uri: Uri) -> Result<Json<Value>> {
    context.endpoint(since::RAMDISK)?;
    let known = [("addresses", since::RAMDISK), ("node_uuid", since::RAMDISK)];
    let query = Query::read(&uri, &context, &known)?;
    let node = find(&state, &query).await?;
    // The conductor knows whether the node is on the fast track.
    if !node.provision_state.allows_lookup_fast_track() {
        return Err(unknown());
    }
    let mut config = state.conductor.lookup(node.uuid).await?;
    if !context.has(since::AGENT_TOKEN)
        && let Some(token) = config
            .get_mut("agent_token")
            .filter(|token| !token.is_null())
    {
        *token = Value::from(MASK);
    }
    Ok(Json(answer(&node, config, &context)))
}

/// What a ramdisk is told of its node.
pub(crate) fn answer(node: &Node, config: Map<String, Value>, context: &Context) -> Value {
    let shown = json!({
        "uuid": node.uuid,
        "properties": node.properties,
        "instance_info": mask::masked_instance(&node.instance_info),
        "driver_internal_info": mask::masked_internal(&node.driver_internal_info),
        "links": links::links(context, &format!("nodes/{}", node.uuid)),
    });
    json!({"node": shown, "config": config})
}

/// The node by UUID, else by the addresses of its ports: comma lists, repeated
/// arguments, in any notation. Addresses that are none are passed over.
async fn find(state: &ApiState, query: &Query) -> Result<Node> {
    let uuid = query.uuid("node_uuid")?;
    let lists = query.all("addresses").flat_map(|list| list.split(','));
    let addresses: Vec<String> = lists.filter_map(mac).collect();
    let found = match uuid {
        Some(uuid) => state.store.node_by_uuid(uuid).await?,
        None if addresses.is_empty() => {
            return Err(ApiError::bad_request(
                "At least one of 'addresses' and 'node_uuid' parameters is required",
            ));
        }
        None => match state.store.node_by_addresses(&addresses).await {
            Ok(found) => found,
            Err(wrought_store::Error::AmbiguousAddresses { addresses, nodes }) => {
                tracing::warn!(
                    ?addresses,
                    ?nodes,
                    "lookup by addresses of more than one node"
                );
                None
            }
            Err(error) => return Err(error.into()),
        },
    };
    found.ok_or_else(unknown)
}

/// One answer for all that is not told apart, so that nothing can be found out.
fn unknown() -> ApiError {
    ApiError::not_found("Resource could not be found.")
}

//! `/v1/nodes/{ident}/history`.

use axum::Json;
use axum::extract::Path;
use axum::extract::State;
use axum::http::Uri;
use serde_json::Value;
use serde_json::json;
use uuid::Uuid;
use wrought_store::HistoryEntry;
use wrought_store::HistoryQuery;

use crate::ApiState;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::links;
use crate::paging;
use crate::paging::Paging;
use crate::query::Query;
use crate::time;
use crate::version::since;

/// Longest text of an event, in characters.
const LONGEST: usize = 255;

/// Lists the events of a node, oldest first.
pub(crate) async fn list(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    uri: Uri,
) -> Result<Json<Value>> {
    context.endpoint(since::HISTORY)?;
    let mut known = paging::ARGUMENTS.to_vec();
    known.push(("detail", since::HISTORY));
    let query = Query::read(&uri, &context, &known)?;
    let paging = Paging::read(&query)?;
    let node = super::find(&state, &context, &ident).await?;
    let wanted = HistoryQuery {
        sort_key: paging.sort_key.clone(),
        sort_dir: paging.sort_dir,
        marker: paging.marker,
        limit: Some(paging.limit),
    };
    let entries = match state.store.history(node.uuid, &wanted).await {
        Err(wrought_store::Error::MarkerNotFound { marker, .. }) => {
            return Err(missing(&marker.to_string()));
        }
        read => read?,
    };
    let detail = query.bool("detail")?.unwrap_or(false);
    let shown: Vec<Value> = entries
        .iter()
        .map(|entry| render(entry, detail, &context))
        .collect();
    let mut body = json!({"history": shown});
    let last = entries.last().map(|entry| entry.uuid.to_string());
    let resource = format!("nodes/{}/history", node.uuid);
    if let Some(next) = paging.next(&context, &resource, &query, entries.len(), last.as_deref()) {
        body["next"] = json!(next);
    }
    Ok(Json(body))
}

/// Shows one event.
pub(crate) async fn show(
    State(state): State<ApiState>,
    context: Context,
    Path((ident, entry)): Path<(String, String)>,
) -> Result<Json<Value>> {
    context.endpoint(since::HISTORY)?;
    let node = super::find(&state, &context, &ident).await?;
    let uuid: Uuid = entry.parse().map_err(|_| missing(&entry))?;
    let found = state
        .store
        .history_entry(node.uuid, uuid)
        .await?
        .ok_or_else(|| missing(&entry))?;
    Ok(Json(render(&found, true, &context)))
}

fn missing(entry: &str) -> ApiError {
    ApiError::not_found(format!("Node history record {entry} could not be found."))
}

fn render(entry: &HistoryEntry, detail: bool, context: &Context) -> Value {
    let event = match entry.event.char_indices().nth(LONGEST) {
        Some((cut, _)) if !detail => format!("{}...", entry.event.get(..cut).unwrap_or_default()),
        _ => entry.event.clone(),
    };
    let resource = format!("nodes/{}/history/{}", entry.node, entry.uuid);
    let href = links::location(context, &resource);
    let mut shown = json!({
        "uuid": entry.uuid,
        "created_at": time::text(entry.created_at),
        "severity": entry.severity,
        "event": event,
        "links": [{"href": href, "rel": "self"}],
    });
    if detail {
        shown["event_type"] = json!(entry.event_type);
        shown["conductor"] = json!(entry.conductor);
        shown["user"] = json!(entry.user);
        if context.has(since::HISTORY_PROJECT) {
            shown["project"] = json!(entry.project);
        }
        if context.has(since::HISTORY_STATES) {
            shown["state"] = json!(entry.state);
            shown["target_provision_state"] = json!(entry.target);
            let duration = entry.duration.map(|duration| duration.as_secs_f64());
            shown["duration_seconds"] = json!(duration);
        }
    }
    shown
}

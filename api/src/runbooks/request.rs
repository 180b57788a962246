//! Runbooks in provision requests: their steps stand for given ones.

use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use wrought_store::Node;
use wrought_store::Runbook;

use crate::ApiState;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::resource;
use crate::version::since::RUNBOOK_TRAITS;
use crate::version::since::RUNBOOKS;

/// Where the steps of each target stand in a request.
const STEPS: [(&str, &str); 2] = [("clean", "clean_steps"), ("service", "service_steps")];

/// Puts the steps of the runbook that the request names into it; gives the
/// runbook.
pub(crate) async fn unfold(
    state: &ApiState,
    context: &Context,
    node: &Node,
    given: &mut Map<String, Value>,
) -> Result<Option<Runbook>> {
    let ident = match given.remove("runbook") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(ident)) => ident,
        Some(_) => {
            return Err(ApiError::bad_request(
                "Expected the name or the UUID of a runbook for runbook",
            ));
        }
    };
    context.needs("runbook", RUNBOOKS)?;
    let target = given.get("target").and_then(Value::as_str);
    let steps = STEPS.iter().find(|(verb, _)| Some(*verb) == target);
    let Some((_, key)) = steps else {
        return Err(ApiError::bad_request(
            "\"runbook\" is only valid when setting target provision state to clean or service",
        ));
    };
    if given.get(*key).is_some_and(|steps| !steps.is_null()) {
        return Err(ApiError::bad_request(format!(
            "\"runbook\" and \"{key}\" exclude each other: give one of them"
        )));
    }
    let mut runbook: Runbook = resource::find(state, context, &ident).await?;
    fits(&runbook, node, context)?;
    runbook.steps.sort_by_key(|step| step.order);
    given.insert((*key).to_owned(), json!(runbook.steps));
    Ok(Some(runbook))
}

/// Whether the node is one that the runbook is meant for.
fn fits(runbook: &Runbook, node: &Node, context: &Context) -> Result<()> {
    let traits = match context.has(RUNBOOK_TRAITS) {
        true => &runbook.traits,
        // Before runbooks had traits of their own their name was one.
        false => &vec![runbook.name.clone()],
    };
    match traits.iter().any(|name| node.traits.contains(name)) {
        true => Ok(()),
        false => Err(ApiError::bad_request(format!(
            "This runbook is not approved for this node: node {} needs one of the traits {traits:?} for runbook {}",
            node.uuid, runbook.name
        ))),
    }
}

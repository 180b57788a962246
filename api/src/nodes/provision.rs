//! `PUT /v1/nodes/{ident}/states/provision`: shape and version are checked
//! here, whether the state allows it by the conductor.

use axum::extract::Path;
use axum::extract::Request;
use axum::extract::State;
use axum::response::Response;
use serde_json::Map;
use serde_json::Value;
use wrought_rpc::ProvisionRequest;
use wrought_store::Node;
use wrought_wire::secret::Secret;
use wrought_wire::state::Verb;

use super::states::accepted;
use super::steps;
use crate::ApiState;
use crate::body;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::runbooks;
use crate::version::since;

/// What the body may have.
const KEYS: [&str; 8] = [
    "target",
    "configdrive",
    "clean_steps",
    "deploy_steps",
    "service_steps",
    "rescue_password",
    "disable_ramdisk",
    "runbook",
];

/// First version of each verb.
const fn first_version(verb: Verb) -> u16 {
    match verb {
        Verb::Active | Verb::Rebuild | Verb::Deleted => 1,
        Verb::Manage | Verb::Provide => 4,
        Verb::Inspect => 6,
        Verb::Abort => 13,
        Verb::Clean => 15,
        Verb::Adopt => 17,
        Verb::Rescue | Verb::Unrescue => 38,
        Verb::Deploy | Verb::Undeploy => 73,
        Verb::Unhold => 85,
        Verb::Service => 87,
    }
}

/// Starts a provisioning operation.
pub(crate) async fn provision(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    request: Request,
) -> Result<Response> {
    let (parts, body) = request.into_parts();
    let mut given = body::object(&parts.headers, body, body::PROVISION).await?;
    body::only(&given, &KEYS)?;
    let node = super::find(&state, &context, &ident).await?;
    let runbook = runbooks::unfold(&state, &context, &node, &mut given).await?;
    let mut request = parse(given, &node, &context)?;
    if let Some(runbook) = runbook {
        request.disable_ramdisk = Some(runbook.disable_ramdisk);
    }
    state.conductor.provision(node.uuid, request).await?;
    Ok(accepted(&context, node.uuid))
}

fn parse(
    mut given: Map<String, Value>,
    node: &Node,
    context: &Context,
) -> Result<ProvisionRequest> {
    // Null is the same as nothing.
    given.retain(|_, value| !value.is_null());
    let Some(Value::String(target)) = given.remove("target") else {
        return Err(ApiError::bad_request("Missing mandatory argument: target"));
    };
    let verb: Verb = target.parse().map_err(|_| {
        ApiError::bad_request(format!(
            "The requested action \"{target}\" can not be performed on node \"{}\" while it is in state \"{}\".",
            node.uuid, node.provision_state
        ))
    })?;
    context.needs(&format!("The target {verb}"), first_version(verb))?;
    let configdrive = given.remove("configdrive");
    if let Some(configdrive) = &configdrive {
        check_configdrive(configdrive, verb, context)?;
    }
    let disable_ramdisk = disable_ramdisk(given.remove("disable_ramdisk"), verb, context)?;
    let mut list = |key: &str, verbs: &[Verb], first: u16| {
        let Some(value) = given.remove(key) else {
            return Ok(None);
        };
        if !verbs.contains(&verb) {
            let names: Vec<&str> = verbs.iter().map(|verb| verb.as_str()).collect();
            return Err(ApiError::bad_request(format!(
                "\"{key}\" is only valid when setting target provision state to {}",
                names.join(" or ")
            )));
        }
        context.needs(key, first)?;
        steps::check(key, value).map(Some)
    };
    let clean_steps = list("clean_steps", &[Verb::Clean], 15)?;
    let service_steps = list("service_steps", &[Verb::Service], 87)?;
    let deploy_steps = list(
        "deploy_steps",
        &[Verb::Active, Verb::Rebuild],
        since::DEPLOY_STEPS,
    )?;
    for (wanted, key, steps) in [
        (Verb::Clean, "clean_steps", &clean_steps),
        (Verb::Service, "service_steps", &service_steps),
    ] {
        if verb == wanted && steps.is_none() {
            return Err(ApiError::bad_request(format!(
                "\"{key}\" is required when setting target provision state to {verb}"
            )));
        }
    }
    Ok(ProvisionRequest {
        verb,
        configdrive,
        clean_steps,
        deploy_steps,
        service_steps,
        rescue_password: rescue_password(given.remove("rescue_password"), verb)?,
        disable_ramdisk,
    })
}

fn rescue_password(given: Option<Value>, verb: Verb) -> Result<Option<Secret>> {
    match (given, verb) {
        (Some(Value::String(password)), Verb::Rescue) if !password.trim().is_empty() => {
            Ok(Some(Secret::new(password)))
        }
        (_, Verb::Rescue) => Err(ApiError::bad_request(
            "A non-empty \"rescue_password\" is required when setting target provision state to rescue",
        )),
        (Some(_), _) => Err(ApiError::bad_request(
            "\"rescue_password\" is only valid when setting target provision state to rescue",
        )),
        (None, _) => Ok(None),
    }
}

fn disable_ramdisk(given: Option<Value>, verb: Verb, context: &Context) -> Result<Option<bool>> {
    let Some(value) = given else { return Ok(None) };
    let first = match verb {
        Verb::Clean => since::DISABLE_RAMDISK,
        Verb::Service => since::SERVICE_DISABLE_RAMDISK,
        _ => {
            return Err(ApiError::bad_request(
                "\"disable_ramdisk\" is only valid when setting target provision state to clean or service",
            ));
        }
    };
    context.needs("disable_ramdisk", first)?;
    value
        .as_bool()
        .map(Some)
        .ok_or_else(|| ApiError::bad_request("Expected true or false for disable_ramdisk"))
}

/// A URL or packed image as a string, or (1.56) an object with the four known
/// parts.
fn check_configdrive(configdrive: &Value, verb: Verb, context: &Context) -> Result<()> {
    match verb {
        Verb::Active | Verb::Deploy => {}
        Verb::Rebuild => context.needs("configdrive with rebuild", since::REBUILD_CONFIGDRIVE)?,
        _ => {
            return Err(ApiError::bad_request(
                "Adding a config drive is only supported when setting provision state to active or rebuild",
            ));
        }
    }
    match configdrive {
        Value::String(_) => Ok(()),
        Value::Object(object) => {
            if !context.has(since::CONFIGDRIVE_OBJECT) {
                return Err(ApiError::bad_request(format!(
                    "configdrive as an object needs API version 1.{} or later",
                    since::CONFIGDRIVE_OBJECT
                )));
            }
            body::only(
                object,
                &["meta_data", "network_data", "user_data", "vendor_data"],
            )?;
            match object.contains_key("vendor_data") {
                true => context.needs("vendor_data", since::VENDOR_DATA),
                false => Ok(()),
            }
        }
        other => Err(ApiError::bad_request(format!(
            "Expected a string or an object for configdrive, found {}",
            body::kind(other)
        ))),
    }
}

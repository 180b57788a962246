//! New resources from bodies, changed ones from patches.

use axum::Json;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::IntoResponse;
use axum::response::Response;
use serde_json::Map;
use serde_json::Value;
use wrought_rpc::Record;

use super::Resource;
use super::find;
use super::shown;
use crate::ApiState;
use crate::again::Attempts;
use crate::body;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::links;
use crate::patch::Patch;
use crate::query::Query;

/// Reads the body of a new one.
pub(crate) async fn read_new(request: Request, context: &Context) -> Result<Map<String, Value>> {
    Query::read(request.uri(), context, &[])?;
    let (parts, body) = request.into_parts();
    body::object(&parts.headers, body, body::ORDINARY).await
}

/// A new one from its body: no unknown or too new field, all required ones.
pub(crate) fn parse<R: Resource>(mut given: Map<String, Value>, context: &Context) -> Result<R> {
    let known =
        |key: &str| key == "uuid" || R::CHANGEABLE.contains(&key) || R::GIVEN.contains(&key);
    if let Some(key) = given.keys().find(|key| !known(key)) {
        return Err(R::NOUN.schema(&format!(
            "Additional properties are not allowed ('{key}' was unexpected)"
        )));
    }
    for key in given.keys() {
        R::check_version(context, key)?;
    }
    let mut required = R::REQUIRED.iter();
    if let Some(field) = required.find(|field| !given.contains_key(**field)) {
        return Err(R::NOUN.schema(&format!("'{field}' is a required property")));
    }
    let mut one = R::default();
    if let Some(uuid) = given.remove("uuid")
        && let Some(uuid) = R::NOUN.uuid("uuid", &uuid)?
    {
        one.set_uuid(uuid);
    }
    for (key, value) in given {
        one.set(&key, value, context)?;
    }
    one.settle(None, context)?;
    Ok(one)
}

/// Stores a new one and answers with it.
pub(crate) async fn store_new<R: Resource>(
    state: &ApiState,
    context: &Context,
    one: R,
) -> Result<Response> {
    let made = state.conductor.create_record(one.into()).await?;
    let made: R = back(made)?;
    let location = links::location(context, &format!("{}/{}", R::PATH, made.uuid()));
    let shown = shown(&made, None, context);
    Ok((StatusCode::CREATED, [(LOCATION, location)], Json(shown)).into_response())
}

/// What came back is what was given.
fn back<R: Resource>(record: Record) -> Result<R> {
    R::try_from(record).map_err(|other| {
        let error = std::io::Error::other(format!("the conductor gave back a {}", other.kind()));
        ApiError::internal(&error)
    })
}

/// Reads a patch: only fields that may be changed, none that is too new.
pub(super) async fn read_patch<R: Resource>(request: Request, context: &Context) -> Result<Patch> {
    Query::read(request.uri(), context, &[])?;
    let (parts, body) = request.into_parts();
    let patch = body::json(&parts.headers, body, body::ORDINARY).await?;
    let patch = Patch::read(&patch, context)?;
    for root in patch.roots() {
        if !R::CHANGEABLE.contains(&root) {
            return Err(ApiError::bad_request(format!(
                "Cannot patch /{root}. Only the following can be updated: {}",
                R::CHANGEABLE.join(", ")
            )));
        }
        R::check_version(context, root)?;
    }
    Ok(patch)
}

/// Applies the patch; tells whether anything is different now.
pub(super) fn apply<R: Resource>(one: &mut R, patch: &Patch, context: &Context) -> Result<bool> {
    let before = one.clone();
    let mut document: Map<String, Value> = R::CHANGEABLE
        .iter()
        .map(|field| ((*field).to_owned(), one.get(field)))
        .collect();
    patch.apply(&mut document)?;
    for root in patch.roots() {
        before.may_patch(root, context)?;
        let value = document.remove(root).unwrap_or_default();
        if value.is_null() && R::KEPT.contains(&root) {
            return Err(R::NOUN.bad(root, "is mandatory and cannot be removed"));
        }
        one.set(root, value, context)?;
    }
    one.settle(Some(&before), context)?;
    let mut fields = R::CHANGEABLE.iter();
    Ok(fields.any(|field| one.get(field) != before.get(field)))
}

/// Stores what `edit` makes of one, unless it says that nothing is different;
/// again when another request came in between.
pub(crate) async fn change<R: Resource>(
    state: &ApiState,
    context: &Context,
    ident: &str,
    edit: impl Fn(&mut R) -> Result<bool>,
) -> Result<R> {
    let mut attempts = Attempts::default();
    loop {
        let mut one = find(state, context, ident).await?;
        if !edit(&mut one)? {
            return Ok(one);
        }
        match state.conductor.update_record(one.into()).await {
            Err(error) if attempts.again(&error) => {}
            outcome => return back(outcome?),
        }
    }
}

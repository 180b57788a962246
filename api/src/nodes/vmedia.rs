//! `/v1/nodes/{ident}/vmedia`. The BMC fetches images itself, whatever
//! `image_download_source` says.

use axum::Json;
use axum::extract::Path;
use axum::extract::Request;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::Uri;
use serde_json::Value;
use serde_json::json;
use wrought_rpc::Media;
use wrought_wire::secret::Secret;
use wrought_wire::state::MediaKind;

use crate::ApiState;
use crate::body;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::query::Query;
use crate::value::Noun;
use crate::version::since;

const MEDIA: Noun = Noun("vmedia");

/// Schemes by which BMCs fetch images.
const SCHEMES: [&str; 5] = ["http", "https", "nfs", "cifs", "smb"];

/// Longest URL, in characters.
const LONGEST: usize = 4096;

/// Shows the devices.
pub(crate) async fn list(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    uri: Uri,
) -> Result<Json<Value>> {
    context.endpoint(since::VMEDIA_GET)?;
    Query::read(&uri, &context, &[])?;
    let node = super::find(&state, &context, &ident).await?;
    Ok(Json(json!(state.conductor.media(node.uuid).await?)))
}

/// Puts an image into a device.
pub(crate) async fn attach(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    request: Request,
) -> Result<StatusCode> {
    context.endpoint(since::VMEDIA)?;
    Query::read(request.uri(), &context, &[])?;
    let (parts, body) = request.into_parts();
    let mut given = body::object(&parts.headers, body, body::ORDINARY).await?;
    let known = ["device_type", "image_url", "image_download_source"];
    if let Some(key) = given.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(MEDIA.schema(&format!(
            "Additional properties are not allowed ('{key}' was unexpected)"
        )));
    }
    let mut take = |key: &str| {
        given
            .remove(key)
            .ok_or_else(|| MEDIA.schema(&format!("'{key}' is a required property")))
    };
    let kind = MEDIA.needed("device_type", take("device_type")?, 255)?;
    let kind: MediaKind = kind.parse().map_err(|_| {
        MEDIA.schema(&format!(
            "'{kind}' is not one of ['disk', 'cdrom', 'floppy']"
        ))
    })?;
    let url = MEDIA.needed("image_url", take("image_url")?, LONGEST)?;
    if let Some(source) = given.remove("image_download_source") {
        let source = MEDIA.needed("image_download_source", source, 255)?;
        if !["http", "local", "swift"].contains(&source.as_str()) {
            return Err(MEDIA.schema(&format!(
                "'{source}' is not one of ['http', 'local', 'swift']"
            )));
        }
    }
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
    if !SCHEMES.contains(&scheme) {
        return Err(ApiError::bad_request(format!(
            "Unsupported or missing URL scheme: {scheme}"
        )));
    }
    let media = Media {
        kind,
        url: Secret::new(url),
    };
    let node = super::find(&state, &context, &ident).await?;
    state.conductor.attach_media(node.uuid, media).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Empties the devices of the named kinds, or all.
pub(crate) async fn detach(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    uri: Uri,
) -> Result<StatusCode> {
    context.endpoint(since::VMEDIA)?;
    let query = Query::read(&uri, &context, &[("device_types", since::VMEDIA)])?;
    let names = query.list("device_types").unwrap_or_default();
    let mut kinds = Vec::new();
    for name in &names {
        kinds.push(name.parse::<MediaKind>().map_err(|_| {
            ApiError::bad_request(format!(
                "Invalid device type(s) {name} (valid are disk, cdrom, floppy)"
            ))
        })?);
    }
    let node = super::find(&state, &context, &ident).await?;
    state.conductor.detach_media(node.uuid, kinds).await?;
    Ok(StatusCode::NO_CONTENT)
}

//! From `image_info` to a request of the data path.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Map;
use serde_json::Value;
use wrought_image::Algorithm;
use wrought_image::BasicAuth;
use wrought_image::Format;
use wrought_image::HttpOptions;
use wrought_image::ProgressFn;
use wrought_image::Secret;
use wrought_image::WriteRequest;
use wrought_wire::image::ImageInfo;
use wrought_wire::lookup::LookupConfig;
use wrought_wire::progress::Progress;

use crate::command::CommandFailure;
use crate::command::Context;
use crate::params::Trust;
use crate::tls;

/// Reads the parameter; the error says what is missing, in the words of the
/// agent that clients know.
pub(super) fn parse_image_info(args: &Map<String, Value>) -> Result<ImageInfo, String> {
    let value = args
        .get("image_info")
        .ok_or("the parameter 'image_info' is missing")?;
    if !value.is_object() {
        return Err(format!("image_info is an object, found {value}"));
    }
    // Ironic sends null for what it does not know.
    let mut value = value.clone();
    if let Value::Object(object) = &mut value {
        object.retain(|_, value| !value.is_null());
    }
    if value.get("id").is_none() {
        return Err("Image is missing 'id' field.".to_owned());
    }
    if value.get("urls").is_none() {
        return Err("Image is missing 'urls' field.".to_owned());
    }
    let info: ImageInfo = serde_json::from_value(value).map_err(|e| format!("image_info: {e}"))?;
    if info.urls.is_empty() {
        return Err("Image 'urls' list may not be empty.".to_owned());
    }
    if checksum(&info).is_none() {
        return Err(
            "Image checksum is not available, either the 'checksum' field or the \
                    'os_hash_algo' and 'os_hash_value' fields pair must be set for image \
                    verification."
                .to_owned(),
        );
    }
    Ok(info)
}

/// The expected digest and its algorithm. `os_hash_*` is preferred where we
/// know the algorithm.
pub(super) fn checksum(info: &ImageInfo) -> Option<(String, Option<Algorithm>)> {
    let text = |value: &Option<String>| {
        value
            .as_deref()
            .map(str::trim)
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    };
    let algorithm = info.os_hash_algo.as_deref().and_then(Algorithm::from_name);
    match (text(&info.os_hash_value), algorithm) {
        (Some(value), Some(algorithm)) => Some((value, Some(algorithm))),
        _ => text(&info.checksum).map(|value| (value, algorithm)),
    }
}

/// Makes the request for one image and one disk.
pub(super) fn build(
    context: &Context,
    info: &ImageInfo,
    raw: &Map<String, Value>,
    device: &Path,
) -> Result<WriteRequest, CommandFailure> {
    let config = context.agent.node.config();
    let (checksum, algorithm) = checksum(info)
        .ok_or_else(|| CommandFailure::invalid_params("the image has no checksum"))?;
    let remote = |url: &String| url.starts_with("http://") || url.starts_with("https://");
    if context.agent.is_init && !info.urls.iter().all(remote) {
        return Err(CommandFailure::invalid_params(format!(
            "image {}: only http:// and https:// URLs can be written from the ramdisk",
            info.id
        )));
    }
    let first = info.urls.first().cloned().unwrap_or_default();
    let mut request = WriteRequest::new(first, device);
    request.sources.clone_from(&info.urls);
    request.checksum = Some(checksum);
    request.checksum_algorithm = algorithm;
    request.format = declared_format(info)?;
    request.allowed_formats = allowed_formats(config.as_ref());
    request.memory = context.agent.memory_budget;
    request.allow_md5 = config
        .as_ref()
        .and_then(|config| config.agent_md5_checksum_enable)
        .unwrap_or(false);
    request.verify_after_write = context
        .agent
        .params
        .flag("wrought-verify-after-write")
        .map_err(|error| CommandFailure::invalid_params(error.to_string()))?
        .unwrap_or(false);
    request.http = http_options(context, info, raw)?;
    let params = &context.agent.params;
    request.retry.attempts = params.download_retries.saturating_add(1);
    request.retry.delay = params.download_retry_interval;
    request.retry.stall = params.download_timeout;
    let (sink, cancel, stop) = (
        context.progress.clone(),
        context.cancel.clone(),
        request.cancel.clone(),
    );
    request.progress = Some(ProgressFn::new(move |progress| {
        if cancel.is_cancelled() {
            stop.cancel();
        }
        sink.set(Progress {
            stage: progress.stage.name().to_owned(),
            bytes_in: progress.bytes_in,
            bytes_total: progress.bytes_total,
            bytes_out: progress.bytes_out,
            rate: progress.rate,
            percent: progress.percent,
        });
    }));
    Ok(request)
}

fn declared_format(info: &ImageInfo) -> Result<Option<Format>, CommandFailure> {
    let declared = info
        .disk_format
        .as_deref()
        .map(str::trim)
        .unwrap_or_default();
    if declared.is_empty() || declared.eq_ignore_ascii_case("unknown") {
        return Ok(None);
    }
    Format::from_name(declared).map(Some).ok_or_else(|| {
        CommandFailure::invalid_params(format!(
            "image {}: disk_format is {declared:?}, expected raw, qcow2 or another that is known",
            info.id
        ))
    })
}

fn allowed_formats(config: Option<&LookupConfig>) -> Option<Vec<Format>> {
    let permitted = config?.permitted_image_formats.as_ref()?;
    let formats: Vec<Format> = permitted
        .iter()
        .filter_map(|name| Format::from_name(name.trim()))
        .collect();
    (!formats.is_empty()).then_some(formats)
}

fn http_options(
    context: &Context,
    info: &ImageInfo,
    raw: &Map<String, Value>,
) -> Result<HttpOptions, CommandFailure> {
    let mut http = HttpOptions {
        http_proxy: info.proxies.get("http").cloned(),
        https_proxy: info.proxies.get("https").cloned(),
        no_proxy: info.no_proxy.clone(),
        ..HttpOptions::default()
    };
    let basic = info.image_server_auth_strategy.as_deref() == Some("http_basic");
    if let (true, Some(user), Some(password)) =
        (basic, &info.image_server_user, &info.image_server_password)
    {
        let password = Secret::new(password.expose());
        http.basic_auth = Some(BasicAuth {
            user: user.clone(),
            password,
        });
    }
    let authorization = raw
        .get("image_info")
        .and_then(|i| i.get("image_request_authorization"));
    if let Some(encoded) = authorization.and_then(Value::as_str) {
        let value = STANDARD
            .decode(encoded)
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok());
        let value = value.ok_or_else(|| {
            CommandFailure::invalid_params("image_request_authorization is not Base64 of a text")
        })?;
        http.authorization = Some(Secret::new(value));
    }
    match &context.agent.params.trust {
        Trust::Nothing => {}
        Trust::Insecure => http.insecure = true,
        trust => {
            // An image server of the installation has a certificate of its CA.
            let tls = tls::client_config(trust)
                .map_err(|error| CommandFailure::execution(CommandFailure::chain(&error)))?;
            http.tls = Some(std::sync::Arc::new(tls));
        }
    }
    Ok(http)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::json;
    use wrought_image::Algorithm;

    use super::checksum;
    use super::parse_image_info;
    use wrought_wire::image::ImageInfo;

    fn parse(info: Value) -> Result<ImageInfo, String> {
        parse_image_info(json!({"image_info": info}).as_object().unwrap())
    }

    #[test]
    fn refusals_in_known_words() {
        assert_eq!(
            parse(json!({"id": "x"})).unwrap_err(),
            "Image is missing 'urls' field."
        );
        let error = parse(json!({"id": "x", "urls": ["http://h/i"]})).unwrap_err();
        assert!(error.starts_with("Image checksum is not available, either the 'checksum' field"));
        assert!(parse(json!({"id": "x", "urls": [], "checksum": "a"})).is_err());
        assert!(parse(json!(5)).is_err());
    }

    #[test]
    fn what_ironic_sends() {
        let info = parse(json!({
            "id": "disk.raw", "urls": ["http://127.0.0.1:8000/disk.raw"], "disk_format": "raw",
            "container_format": null, "stream_raw_images": true,
            "checksum": "a1780bcc0140c2755e857d91a27b01a4d52c9542648974ee1b18ce079309c7c7",
            "node_uuid": "aaaaaaaa-0000-4000-8000-0000000000b2", "configdrive": "x",
        }))
        .unwrap();
        assert_eq!(checksum(&info).unwrap().1, None);
    }

    #[test]
    fn the_better_checksum() {
        let info = |algo: &str| ImageInfo {
            os_hash_algo: Some(algo.to_owned()),
            os_hash_value: Some("new".to_owned()),
            checksum: Some("old".to_owned()),
            ..ImageInfo::default()
        };
        assert_eq!(
            checksum(&info("sha512")),
            Some(("new".to_owned(), Some(Algorithm::Sha512)))
        );
        assert_eq!(checksum(&info("blake9")), Some(("old".to_owned(), None)));
        assert_eq!(checksum(&ImageInfo::default()), None);
    }
}

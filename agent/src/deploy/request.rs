//! From `image_info` to a request of the data path.

use std::path::Path;
use std::sync::Arc;

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
use crate::params::Params;
use crate::params::Trust;
use crate::tls;
use crate::tls::FingerprintVerifier;

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
    // A manifest that is named by its digest names the digest of the image.
    let pinned = |url: &String| url.starts_with("oci://") && url.contains('@');
    if checksum(&info).is_none() && !info.urls.iter().any(pinned) {
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
    let remote = |url: &String| {
        ["http://", "https://", "oci://"]
            .iter()
            .any(|scheme| url.starts_with(scheme))
    };
    if context.agent.is_init && !info.urls.iter().all(remote) {
        return Err(CommandFailure::invalid_params(format!(
            "image {}: only http://, https:// and oci:// URLs can be written from the ramdisk",
            info.id
        )));
    }
    let first = info.urls.first().cloned().unwrap_or_default();
    let mut request = WriteRequest::new(first, device);
    request.sources.clone_from(&info.urls);
    if let Some((checksum, algorithm)) = checksum(info) {
        request.checksum = Some(checksum);
        request.checksum_algorithm = algorithm;
    }
    request.format = declared_format(info)?;
    request.allowed_formats = allowed_formats(config.as_ref());
    request.memory = context.agent.memory_budget;
    request.allow_md5 = config
        .as_ref()
        .and_then(|config| config.agent_md5_checksum_enable)
        .unwrap_or(false);
    request.verify_after_write = context.agent.params.verify_after_write;
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
            eta: progress.eta,
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
    match Format::from_name(declared) {
        // How the file is packed says nothing of the disk in it.
        Some(Format::Gzip | Format::Xz | Format::Zstd | Format::Bzip2) => Ok(None),
        Some(format) => Ok(Some(format)),
        None => Err(CommandFailure::invalid_params(format!(
            "image {}: disk_format is {declared:?}, expected raw, qcow2 or another that is known",
            info.id
        ))),
    }
}

/// The formats of the lookup's list; names that we do not know allow nothing.
fn allowed_formats(config: Option<&LookupConfig>) -> Option<Vec<Format>> {
    let permitted = config?.permitted_image_formats.as_ref()?;
    let known = permitted
        .iter()
        .filter_map(|name| Format::from_name(name.trim()));
    Some(known.collect())
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
    trust_image_servers(&context.agent.params, &mut http);
    Ok(http)
}

/// Image servers may have a CA of their own; one of the installation has a
/// certificate of the installation's CA.
pub(super) fn trust_image_servers(params: &Params, http: &mut HttpOptions) {
    let mut fingerprints = Vec::from_iter(params.image_ca_sha256);
    match &params.trust {
        Trust::Nothing => {}
        Trust::Insecure => http.insecure = true,
        Trust::Fingerprint(digest) => fingerprints.push(*digest),
        Trust::Pem(pem) => http.extra_ca_pem.push(pem.clone().into_bytes()),
    }
    if let Some(pem) = &params.image_ca {
        http.extra_ca_pem.push(pem.clone().into_bytes());
    }
    for digest in fingerprints {
        let verifier = FingerprintVerifier::new(digest, tls::provider());
        http.also_trusted.push(Arc::new(verifier));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::json;
    use wrought_image::Algorithm;
    use wrought_image::Format;
    use wrought_image::HttpOptions;
    use wrought_wire::image::ImageInfo;
    use wrought_wire::lookup::LookupConfig;

    use super::allowed_formats;
    use super::checksum;
    use super::declared_format;
    use super::parse_image_info;
    use super::trust_image_servers;
    use crate::params::Params;
    use crate::params::Trust;

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
    fn a_registry_s_image_needs_no_checksum() {
        let digest = "a".repeat(64);
        let by_digest = format!("oci://r.test/os/disk@sha256:{digest}");
        let info = parse(json!({"id": "disk", "urls": [by_digest]})).unwrap();
        assert_eq!(checksum(&info), None);
        let by_tag = parse(json!({"id": "disk", "urls": ["oci://r.test/os/disk:13"]}));
        assert!(by_tag.unwrap_err().contains("checksum"));
    }

    #[test]
    fn the_lookup_s_list_of_formats_is_a_bound() {
        let config = |formats: Value| -> LookupConfig {
            serde_json::from_value(json!({
                "heartbeat_timeout": 300, "permitted_image_formats": formats,
            }))
            .unwrap()
        };
        let allowed = |formats| allowed_formats(Some(&config(formats)));
        assert_eq!(
            allowed(json!(["raw", "gpt", "qcow2", "iso"])),
            Some(vec![Format::Raw, Format::Raw, Format::Qcow2, Format::Iso])
        );
        assert_eq!(allowed(json!(["future"])), Some(vec![]));
        assert_eq!(allowed(json!(null)), None);
        assert_eq!(allowed_formats(None), None);
    }

    #[test]
    fn declared_formats_as_they_are_sent() {
        let declared = |name: Option<&str>| {
            declared_format(&ImageInfo {
                disk_format: name.map(str::to_owned),
                ..ImageInfo::default()
            })
        };
        for name in [
            None,
            Some(""),
            Some("unknown"),
            Some("gz"),
            Some("xz"),
            Some("zst"),
        ] {
            assert_eq!(declared(name).unwrap(), None, "{name:?}");
        }
        assert_eq!(declared(Some("gpt")).unwrap(), Some(Format::Raw));
        assert_eq!(declared(Some("QCOW2")).unwrap(), Some(Format::Qcow2));
        assert!(declared(Some("tar")).is_err());
    }

    #[test]
    fn image_servers_have_trust_of_their_own() {
        let mut http = HttpOptions::default();
        let mut params = Params::default();
        params.trust = Trust::Fingerprint([1; 32]);
        params.image_ca = Some("PEM".to_owned());
        params.image_ca_sha256 = Some([2; 32]);
        trust_image_servers(&params, &mut http);
        assert_eq!(http.extra_ca_pem, [b"PEM".to_vec()]);
        assert_eq!(http.also_trusted.len(), 2);
        assert!(!http.insecure);
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

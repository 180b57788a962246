//! What every request passes before its handler: a request id, the path in one
//! form, the microversion, authentication. And the headers that go back.

use std::sync::Arc;
use std::sync::LazyLock;
use std::time::Instant;

use axum::extract::Request;
use axum::extract::State;
use axum::http::HeaderName;
use axum::http::HeaderValue;
use axum::http::Method;
use axum::http::StatusCode;
use axum::http::Uri;
use axum::http::header;
use axum::http::uri::PathAndQuery;
use axum::middleware::Next;
use axum::response::IntoResponse;
use axum::response::Response;
use uuid::Uuid;
use wrought_wire::microversion::HEADER;
use wrought_wire::microversion::HEADER_MAX;
use wrought_wire::microversion::HEADER_MIN;
use wrought_wire::microversion::Microversion;

use crate::ApiState;
use crate::context::Context;
use crate::context::OverTls;
use crate::context::Peer;
use crate::error::ApiError;
use crate::error::Result;
use crate::metrics;
use crate::openapi;
use crate::proxies::is_host;
use crate::router::Part;
use crate::version;

const REQUEST_ID: HeaderName = HeaderName::from_static("openstack-request-id");
const REQUEST_ID_TOO: HeaderName = HeaderName::from_static("x-openstack-request-id");

/// What every answer carries.
static STANDING: LazyLock<[(HeaderName, HeaderValue); 4]> = LazyLock::new(|| {
    let version = |version: Microversion| {
        // Digits and a dot always are a header's value.
        HeaderValue::from_str(&version.to_string()).unwrap_or(HeaderValue::from_static("1.1"))
    };
    [
        (
            HeaderName::from_static(HEADER_MIN),
            version(Microversion::MIN),
        ),
        (
            HeaderName::from_static(HEADER_MAX),
            version(Microversion::MAX),
        ),
        (
            header::VARY,
            HeaderValue::from_static("X-OpenStack-Ironic-API-Version"),
        ),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ]
});

/// Paths that are not below `/v1`.
const OUTSIDE: [&str; 5] = [
    "/",
    "/healthcheck",
    "/readiness",
    openapi::PATH,
    metrics::PATH,
];

/// The middleware.
pub(crate) async fn front(
    State((state, part)): State<(ApiState, Part)>,
    mut request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let id = format!("req-{}", Uuid::new_v4());
    let method = request.method().clone();
    normalise(&mut request);
    let path = request.uri().path().to_owned();
    let asked = version::requested(request.headers());
    let mut response = if method == Method::OPTIONS {
        StatusCode::OK.into_response()
    } else if let Err(refusal) = offered(part, &path) {
        refusal.into_response()
    } else {
        match state.auth.check(&method, &path, request.headers()).await {
            Err(refusal) => refusal,
            Ok(caller) => {
                let answered = admitted(&state, request, &path, &asked, next);
                caller.scope(answered).await
            }
        }
    };
    finish(&mut response, asked.ok(), &id);
    let status = response.status().as_u16();
    let ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    tracing::debug!(%method, path, status, ms, id, "request");
    response
}

/// Answers a request whose caller may make it.
async fn admitted(
    state: &ApiState,
    mut request: Request,
    path: &str,
    asked: &Result<Microversion>,
    next: Next,
) -> Response {
    if !is_text(path) {
        let message = "The path is not UTF-8 once it is percent-decoded.";
        return ApiError::bad_request(message).into_response();
    }
    match asked {
        Err(error) => error.clone().into_response(),
        Ok(version) => {
            let base = base(state, &request);
            request.extensions_mut().insert(Context {
                version: *version,
                base,
            });
            next.run(request).await
        }
    }
}

/// Whether the listener serves what is at a path.
fn offered(part: Part, path: &str) -> Result<()> {
    let ramdisk = matches!(path, "/v1/lookup" | "/v1/continue_inspection")
        || path.starts_with("/v1/heartbeat/");
    let told = OUTSIDE.contains(&path) && path != metrics::PATH;
    match part {
        Part::WithoutRamdisk if ramdisk => Err(ApiError::forbidden(
            "The endpoints for ramdisks are not offered at this address.",
        )),
        Part::RamdiskOnly if !ramdisk && path != "/v1" && !told => Err(ApiError::not_found(
            "Not Found: only the endpoints for ramdisks are at this address.",
        )),
        _ => Ok(()),
    }
}

/// Brings a path into one form: no slash at the end, always below `/v1`.
fn normalise(request: &mut Request) {
    let uri = request.uri();
    let path = uri.path();
    let trimmed = match path.trim_end_matches('/') {
        "" => "/",
        trimmed => trimmed,
    };
    let inside = trimmed == "/v1" || trimmed.starts_with("/v1/") || OUTSIDE.contains(&trimmed);
    if inside && trimmed.len() == path.len() {
        return;
    }
    let prefix = if inside { "" } else { "/v1" };
    let query = uri
        .query()
        .map(|query| format!("?{query}"))
        .unwrap_or_default();
    let mut parts = uri.clone().into_parts();
    if let Ok(path) = PathAndQuery::try_from(format!("{prefix}{trimmed}{query}")) {
        parts.path_and_query = Some(path);
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
}

/// Whether a path is UTF-8 once its escapes are decoded; what is no escape
/// stands for itself.
fn is_text(path: &str) -> bool {
    let mut bytes = Vec::with_capacity(path.len());
    let mut parts = path.split('%');
    bytes.extend_from_slice(parts.next().unwrap_or_default().as_bytes());
    for part in parts {
        let escape = part
            .get(..2)
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        if let Some(byte) = escape {
            bytes.push(byte);
            bytes.extend_from_slice(&part.as_bytes()[2..]);
        } else {
            bytes.extend_from_slice(part.as_bytes());
        }
    }
    std::str::from_utf8(&bytes).is_ok()
}

/// What links begin with.
fn base(state: &ApiState, request: &Request) -> Arc<str> {
    if let Some(endpoint) = &state.public_endpoint {
        return Arc::from(endpoint.trim_end_matches('/'));
    }
    let host = request
        .headers()
        .get(header::HOST)
        .and_then(|value| value.to_str().ok());
    let host = host.or(request
        .uri()
        .authority()
        .map(|authority| authority.as_str()));
    let host = host.filter(|host| is_host(host)).unwrap_or("localhost");
    let scheme = match request.extensions().get::<OverTls>() {
        Some(OverTls) => "https",
        None => "http",
    };
    let peer = request.extensions().get::<Peer>();
    let told =
        peer.and_then(|Peer(peer)| state.proxies.base(*peer, request.headers(), scheme, host));
    Arc::from(told.unwrap_or_else(|| format!("{scheme}://{host}")))
}

/// Puts version and identity into the answer.
fn finish(response: &mut Response, granted: Option<Microversion>, id: &str) {
    let headers = response.headers_mut();
    for (name, value) in STANDING.iter() {
        headers.insert(name, value.clone());
    }
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, id.clone());
        headers.insert(REQUEST_ID_TOO, id);
    }
    let granted = granted.and_then(|version| HeaderValue::from_str(&version.to_string()).ok());
    if let Some(version) = granted {
        headers.insert(HeaderName::from_static(HEADER), version);
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::extract::Request;

    use super::is_text;
    use super::normalise;
    use super::offered;
    use crate::router::Part;

    #[test]
    fn listeners_serve_their_part() {
        let ramdisk = ["/v1/lookup", "/v1/heartbeat/x", "/v1/continue_inspection"];
        for path in ramdisk
            .iter()
            .chain(&["/", "/v1", "/healthcheck", "/readiness", "/v1/nodes"])
        {
            let is_ramdisk = ramdisk.contains(path);
            let status = |part| offered(part, path).err().map(|error| error.status());
            assert_eq!(status(Part::All), None);
            let expected = is_ramdisk.then_some(403);
            assert_eq!(status(Part::WithoutRamdisk), expected, "{path}");
            let expected = (*path == "/v1/nodes").then_some(404);
            assert_eq!(status(Part::RamdiskOnly), expected, "{path}");
        }
    }

    #[test]
    fn paths_must_be_text() {
        for path in [
            "/",
            "/v1/nodes/a%20b",
            "/%C3%A9",
            "/%F0%9F%98%80",
            "/50%",
            "/%zz%é",
        ] {
            assert!(is_text(path), "{path}");
        }
        for path in ["/%ff", "/v1/nodes/%C3", "/%A9%C3"] {
            assert!(!is_text(path), "{path}");
        }
    }

    #[test]
    fn one_form_of_every_path() {
        for (given, expected) in [
            ("/", "/"),
            ("/v1", "/v1"),
            ("/v1/", "/v1"),
            ("/nodes", "/v1/nodes"),
            ("/nodes/?limit=1", "/v1/nodes?limit=1"),
            ("/v1/nodes/x/", "/v1/nodes/x"),
            ("/v1nodes", "/v1/v1nodes"),
            ("/healthcheck/", "/healthcheck"),
            ("/openapi.json", "/openapi.json"),
            ("/metrics/", "/metrics"),
        ] {
            let mut request = Request::builder().uri(given).body(Body::empty()).unwrap();
            normalise(&mut request);
            assert_eq!(request.uri().to_string(), expected);
        }
    }
}

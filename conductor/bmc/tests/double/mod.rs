//! A Redfish service in this process, with a knob for every quirk.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::time::Duration;

use axum::Json;
use axum::Router;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::Method;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::response::Response;
use base64::Engine;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use wrought_bmc::redfish::AuthType;
use wrought_bmc::redfish::Client;
use wrought_bmc::redfish::Endpoint;
use wrought_bmc::redfish::Tuning;
use wrought_bmc::redfish::Verify;
use wrought_wire::secret::Secret;

/// Path of the only system.
pub(crate) const SYSTEM: &str = "/redfish/v1/Systems/1";

/// State and quirks of the service.
#[derive(Debug, Default)]
pub(crate) struct Bmc {
    /// Everything that was requested: method, path, body.
    pub(crate) log: Vec<(String, String, Value)>,
    /// `PowerState`.
    pub(crate) power: String,
    /// Looks at the system before a reset takes effect.
    pub(crate) power_lag: u32,
    /// A reset that has not taken effect yet.
    pub(crate) pending: Option<String>,
    /// `ResetType` values on offer; none: not told.
    pub(crate) reset_types: Option<Vec<&'static str>>,
    /// Resets are accepted and dropped, this many times.
    pub(crate) drop_resets: u32,
    /// Every request that finds this above zero answers 503 and lowers it.
    pub(crate) busy: u32,
    /// Whether there is a `SessionService`.
    pub(crate) sessions: bool,
    /// The token now valid.
    pub(crate) token: Option<String>,
    /// Tokens handed out.
    pub(crate) logins: u32,
    /// Whether the system has an ETag that must match.
    pub(crate) etag: bool,
    /// Counts changes; part of the ETag.
    pub(crate) changes: u32,
    /// Boot properties.
    pub(crate) boot: Value,
    /// `Once` is stored as `Continuous`.
    pub(crate) once_is_continuous: bool,
    /// A PATCH with a boot mode is refused.
    pub(crate) refuse_mode: bool,
    /// Media below the manager: none, or accepts-and-lies.
    pub(crate) manager_media: bool,
    /// The manager's device says yes and inserts nothing.
    pub(crate) manager_lies: bool,
    /// Optional properties of an insertion are refused.
    pub(crate) strict_insert: bool,
    /// An insertion into an occupied device is refused.
    pub(crate) refuse_occupied: bool,
    /// Media below the system.
    pub(crate) system_media: bool,
    /// What is inserted: manager's device, system's device.
    pub(crate) images: [Option<String>; 2],
    /// The system collection has a second member.
    pub(crate) second_system: bool,
    /// Where the root redirects to.
    pub(crate) redirect: Option<String>,
    /// Bytes of padding in the system resource.
    pub(crate) padding: usize,
    /// Whether there is an `EventService`.
    pub(crate) events: bool,
    /// More properties of the system.
    pub(crate) more: Map<String, Value>,
    /// More resources by path, which are read and changed.
    pub(crate) resources: BTreeMap<String, Value>,
}

/// The running double.
#[derive(Clone)]
pub(crate) struct Double {
    address: SocketAddr,
    bmc: Arc<Mutex<Bmc>>,
}

impl Double {
    /// Starts a service that behaves.
    pub(crate) async fn start() -> Self {
        let boot = json!({"BootSourceOverrideTarget": "None", "BootSourceOverrideEnabled": "Disabled",
            "BootSourceOverrideMode": "UEFI",
            "BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Pxe", "Hdd", "Cd"]});
        let bmc = Bmc {
            power: "Off".to_owned(),
            boot,
            sessions: true,
            system_media: true,
            ..Bmc::default()
        };
        let bmc = Arc::new(Mutex::new(bmc));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(bmc.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, bmc }
    }

    /// State and quirks.
    pub(crate) fn bmc(&self) -> MutexGuard<'_, Bmc> {
        self.bmc.lock().unwrap()
    }

    /// An endpoint with the right credentials.
    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint {
            address: format!("http://{}", self.address),
            system_id: None,
            username: Some("root".to_owned()),
            password: Secret::new("hunter2"),
            verify: Verify::Yes,
            auth: AuthType::Auto,
        }
    }

    /// An impatient client.
    pub(crate) fn client(&self) -> Client {
        Client::with_tuning(self.endpoint(), tuning()).unwrap()
    }

    /// Requests with this method, path first.
    pub(crate) fn requests(&self, method: &str) -> Vec<(String, Value)> {
        let log = &self.bmc().log;
        let of = |entry: &&(String, String, Value)| entry.0 == method;
        log.iter()
            .filter(of)
            .map(|entry| (entry.1.clone(), entry.2.clone()))
            .collect()
    }
}

/// Patience for tests.
pub(crate) fn tuning() -> Tuning {
    Tuning {
        attempts: 3,
        delay: Duration::from_millis(5),
        poll: Duration::from_millis(5),
        power_timeout: Duration::from_millis(200),
        soft_power_timeout: Duration::from_millis(200),
        media_timeout: Duration::from_millis(60),
        body_limit: 1 << 16,
        ..Tuning::default()
    }
}

async fn answer(State(bmc): State<Arc<Mutex<Bmc>>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let bytes = to_bytes(body, 1 << 16).await.unwrap();
    let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    let path = parts.uri.path().trim_end_matches('/').to_owned();
    let mut bmc = bmc.lock().unwrap();
    bmc.log
        .push((parts.method.to_string(), path.clone(), body.clone()));
    if bmc.busy > 0 {
        bmc.busy -= 1;
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "busy");
    }
    let root = path == "/redfish/v1";
    if let (true, Some(to)) = (root, &bmc.redirect) {
        return (StatusCode::FOUND, [("location", to.clone())]).into_response();
    }
    if path == "/redfish/v1/SessionService/Sessions" && bmc.sessions {
        return log_in(&mut bmc, &body);
    }
    if !root && !is_authorised(&bmc, &parts.headers) {
        return refuse(StatusCode::UNAUTHORIZED, "who are you?");
    }
    route(&mut bmc, &parts.method, &path, &body, &parts.headers)
}

fn refuse(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({"error": {"message": message}}))).into_response()
}

fn log_in(bmc: &mut Bmc, body: &Value) -> Response {
    if body != &json!({"UserName": "root", "Password": "hunter2"}) {
        return refuse(StatusCode::UNAUTHORIZED, "wrong");
    }
    bmc.logins += 1;
    let token = format!("token-{}", bmc.logins);
    bmc.token = Some(token.clone());
    let location = "/redfish/v1/SessionService/Sessions/1".to_owned();
    let headers = [("x-auth-token", token), ("location", location)];
    (StatusCode::CREATED, headers, Json(json!({"Id": "1"}))).into_response()
}

fn is_authorised(bmc: &Bmc, headers: &HeaderMap) -> bool {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let basic = base64::engine::general_purpose::STANDARD.encode("root:hunter2");
    let by_token = bmc.token.is_some() && header("x-auth-token") == bmc.token.as_deref();
    by_token || header("authorization") == Some(&format!("Basic {basic}"))
}

fn route(
    bmc: &mut Bmc,
    method: &Method,
    path: &str,
    body: &Value,
    headers: &HeaderMap,
) -> Response {
    match (method.as_str(), path) {
        ("GET", "/redfish/v1") => {
            let mut root = json!({"Systems": {"@odata.id": "/redfish/v1/Systems"},
                "Managers": {"@odata.id": "/redfish/v1/Managers"},
                "Registries": {"@odata.id": "/redfish/v1/Registries"}});
            if bmc.events {
                root["EventService"] = json!({"@odata.id": "/redfish/v1/EventService"});
            }
            if bmc.sessions {
                root["SessionService"] = json!({"@odata.id": "/redfish/v1/SessionService"});
            }
            Json(root).into_response()
        }
        ("DELETE", "/redfish/v1/SessionService/Sessions/1") => {
            bmc.token = None;
            StatusCode::NO_CONTENT.into_response()
        }
        ("GET", "/redfish/v1/Systems") => {
            let mut members = vec![json!({"@odata.id": SYSTEM})];
            if bmc.second_system {
                members.push(json!({"@odata.id": "/redfish/v1/Systems/2"}));
            }
            Json(json!({"Members": members})).into_response()
        }
        ("GET", SYSTEM) => system(bmc),
        ("PATCH", SYSTEM) => patch_system(bmc, body, headers),
        ("POST", "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset") => reset(bmc, body),
        ("GET", "/redfish/v1/Managers") => {
            Json(json!({"Members": [{"@odata.id": "/redfish/v1/Managers/1"}]})).into_response()
        }
        ("GET", "/redfish/v1/Managers/1") => Json(match bmc.manager_media {
            true => json!({"VirtualMedia": {"@odata.id": "/redfish/v1/Managers/1/VirtualMedia"}}),
            false => json!({"FirmwareVersion": "2.7", "Model": "Double BMC"}),
        })
        .into_response(),
        _ => media(bmc, method, path, body),
    }
}

fn system(bmc: &mut Bmc) -> Response {
    if bmc.pending.is_some() {
        match bmc.power_lag {
            0 => bmc.power = bmc.pending.take().unwrap(),
            _ => bmc.power_lag -= 1,
        }
    }
    let mut reset = json!({"target": "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"});
    if let Some(types) = &bmc.reset_types {
        reset["ResetType@Redfish.AllowableValues"] = json!(types);
    }
    let mut body = json!({"PowerState": bmc.power, "Boot": bmc.boot, "Model": "Double",
        "Actions": {"#ComputerSystem.Reset": reset}, "Padding": "x".repeat(bmc.padding)});
    if bmc.system_media {
        body["VirtualMedia"] = json!({"@odata.id": "/redfish/v1/Systems/1/VirtualMedia"});
    }
    for (key, value) in &bmc.more {
        body[key] = value.clone();
    }
    match bmc.etag {
        true => ([("etag", format!("\"{}\"", bmc.changes))], Json(body)).into_response(),
        false => Json(body).into_response(),
    }
}

fn patch_system(bmc: &mut Bmc, body: &Value, headers: &HeaderMap) -> Response {
    let given = headers
        .get("if-match")
        .and_then(|value| value.to_str().ok());
    if bmc.etag && given != Some(&format!("\"{}\"", bmc.changes)) {
        return refuse(StatusCode::PRECONDITION_FAILED, "stale");
    }
    let Some(boot) = body["Boot"].as_object() else {
        bmc.more.extend(body.as_object().unwrap().clone());
        return StatusCode::NO_CONTENT.into_response();
    };
    if bmc.refuse_mode && boot.contains_key("BootSourceOverrideMode") {
        return refuse(StatusCode::BAD_REQUEST, "mode is read-only");
    }
    bmc.changes += 1;
    for (key, value) in boot {
        bmc.boot[key] = value.clone();
    }
    if bmc.once_is_continuous && bmc.boot["BootSourceOverrideEnabled"] == "Once" {
        bmc.boot["BootSourceOverrideEnabled"] = json!("Continuous");
    }
    StatusCode::NO_CONTENT.into_response()
}

fn reset(bmc: &mut Bmc, body: &Value) -> Response {
    if bmc.drop_resets > 0 {
        bmc.drop_resets -= 1;
        return StatusCode::NO_CONTENT.into_response();
    }
    let state = match body["ResetType"].as_str().unwrap() {
        "Nmi" => return StatusCode::NO_CONTENT.into_response(),
        "On" | "ForceOn" | "ForceRestart" => "On",
        "ForceOff" | "GracefulShutdown" => "Off",
        _ => return refuse(StatusCode::BAD_REQUEST, "unknown reset type"),
    };
    bmc.pending = Some(state.to_owned());
    StatusCode::NO_CONTENT.into_response()
}

fn media(bmc: &mut Bmc, method: &Method, path: &str, body: &Value) -> Response {
    if let Some(resource) = bmc.resources.get_mut(path) {
        if method == Method::PATCH {
            let change = body.as_object().unwrap().clone();
            resource.as_object_mut().unwrap().extend(change);
        }
        return Json(resource.clone()).into_response();
    }
    let places = [
        ("/redfish/v1/Managers/1/VirtualMedia", bmc.manager_media),
        ("/redfish/v1/Systems/1/VirtualMedia", bmc.system_media),
    ];
    for (index, (collection, there)) in places.into_iter().enumerate() {
        let Some(rest) = path.strip_prefix(collection).filter(|_| there) else {
            continue;
        };
        let image = bmc.images[index].clone();
        match (method.as_str(), rest) {
            ("GET", "") => {
                let members = [
                    json!({"@odata.id": format!("{collection}/Floppy")}),
                    json!({"@odata.id": format!("{collection}/Cd")}),
                ];
                return Json(json!({"Members": members})).into_response();
            }
            ("GET", "/Floppy") => return Json(json!({"MediaTypes": ["Floppy"]})).into_response(),
            ("GET", "/Cd") => {
                let action = |name: &str| json!({"target": format!("{path}/Actions/{name}")});
                return Json(
                    json!({"MediaTypes": ["CD", "DVD"], "Inserted": image.is_some(), "Image": image,
                    "Actions": {"#VirtualMedia.InsertMedia": action("VirtualMedia.InsertMedia"),
                        "#VirtualMedia.EjectMedia": action("VirtualMedia.EjectMedia")}}),
                )
                .into_response();
            }
            ("POST", "/Cd/Actions/VirtualMedia.InsertMedia") => {
                if bmc.strict_insert && body.get("WriteProtected").is_some() {
                    return refuse(StatusCode::BAD_REQUEST, "WriteProtected is unknown");
                }
                if bmc.refuse_occupied && image.is_some() {
                    return refuse(StatusCode::BAD_REQUEST, "occupied");
                }
                if !(bmc.manager_lies && index == 0) {
                    bmc.images[index] = body["Image"].as_str().map(str::to_owned);
                }
                return StatusCode::NO_CONTENT.into_response();
            }
            ("POST", "/Cd/Actions/VirtualMedia.EjectMedia") => {
                bmc.images[index] = None;
                return StatusCode::NO_CONTENT.into_response();
            }
            _ => {}
        }
    }
    refuse(StatusCode::NOT_FOUND, "nothing here")
}

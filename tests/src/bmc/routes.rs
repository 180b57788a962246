//! The BMC over HTTP.

use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::extract::Request;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::StatusCode;
use axum::middleware;
use axum::middleware::Next;
use axum::response::IntoResponse;
use axum::response::Response;
use axum::routing::delete;
use axum::routing::get;
use axum::routing::post;
use serde_json::Value;
use serde_json::json;

use super::machine::Media;
use super::media;
use super::resources;
use super::service::Service;

/// A refusal with the status and the message of a Redfish error.
struct Refusal(StatusCode, String);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = json!({"error": {"code": "Base.1.8.GeneralError", "message": self.1}});
        (self.0, Json(body)).into_response()
    }
}

impl From<anyhow::Error> for Refusal {
    fn from(error: anyhow::Error) -> Self {
        Self(StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}"))
    }
}

fn bad(message: impl Into<String>) -> Refusal {
    Refusal(StatusCode::BAD_REQUEST, message.into())
}

type Answer = Result<StatusCode, Refusal>;
type Bmc = State<Arc<Service>>;

/// Everything below `/redfish/v1`.
pub fn router(service: Arc<Service>) -> Router {
    let system = resources::SYSTEM;
    let manager = resources::MANAGER;
    let media = format!("{manager}/VirtualMedia/Cd");
    Router::new()
        .route("/redfish/v1", get(|| async { Json(resources::root()) }))
        .route("/redfish/v1/", get(|| async { Json(resources::root()) }))
        .route(
            "/redfish/v1/Systems",
            get(list("/redfish/v1/Systems", "ComputerSystem", system)),
        )
        .route(system, get(show_system).patch(patch_system))
        .route(
            &format!("{system}/Actions/ComputerSystem.Reset"),
            post(reset),
        )
        .route(
            &format!("{system}/EthernetInterfaces"),
            get(list(
                "/redfish/v1/Systems/1/EthernetInterfaces",
                "EthernetInterface",
                "/redfish/v1/Systems/1/EthernetInterfaces/1",
            )),
        )
        .route(&format!("{system}/EthernetInterfaces/1"), get(show_nic))
        .route(
            "/redfish/v1/Managers",
            get(list("/redfish/v1/Managers", "Manager", manager)),
        )
        .route(
            manager,
            get(|| async { Json(resources::manager(resources::MANAGER, resources::SYSTEM)) }),
        )
        .route(
            &format!("{manager}/VirtualMedia"),
            get(list(
                "/redfish/v1/Managers/1/VirtualMedia",
                "VirtualMedia",
                "/redfish/v1/Managers/1/VirtualMedia/Cd",
            )),
        )
        .route(&media, get(show_media))
        .route(
            &format!("{media}/Actions/VirtualMedia.InsertMedia"),
            post(insert_media),
        )
        .route(
            &format!("{media}/Actions/VirtualMedia.EjectMedia"),
            post(eject_media),
        )
        .route(
            "/redfish/v1/Chassis",
            get(list(
                "/redfish/v1/Chassis",
                "Chassis",
                "/redfish/v1/Chassis/1",
            )),
        )
        .route(
            "/redfish/v1/Chassis/1",
            get(|| async { Json(resources::chassis()) }),
        )
        .route(
            "/redfish/v1/SessionService",
            get(|| async {
                Json(json!({
                    "@odata.id": "/redfish/v1/SessionService",
                    "Id": "SessionService",
                    "Name": "Session Service",
                    "Sessions": {"@odata.id": "/redfish/v1/SessionService/Sessions"},
                }))
            }),
        )
        .route("/redfish/v1/SessionService/Sessions", post(open_session))
        .route(
            "/redfish/v1/SessionService/Sessions/{id}",
            delete(close_session),
        )
        .fallback(|| async { Refusal(StatusCode::NOT_FOUND, "no such resource".into()) })
        .layer(middleware::from_fn_with_state(Arc::clone(&service), gate))
        .with_state(service)
}

/// Lets only the service root and the opening of a session through without
/// an account, and writes every request down.
async fn gate(State(service): Bmc, request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let open = path.trim_end_matches('/') == "/redfish/v1"
        || (path == "/redfish/v1/SessionService/Sessions" && method == "POST");
    let response = if open || service.accounts.admits(request.headers()) {
        next.run(request).await
    } else {
        Refusal(
            StatusCode::UNAUTHORIZED,
            "account or session required".into(),
        )
        .into_response()
    };
    service.note(&format!("{method} {path} {}", response.status().as_u16()));
    response
}

fn list(
    path: &'static str,
    name: &'static str,
    member: &'static str,
) -> impl Fn() -> std::future::Ready<Json<Value>> + Clone + Send + Sync {
    move || std::future::ready(Json(resources::collection(path, name, &[member])))
}

async fn show_system(State(service): Bmc) -> Json<Value> {
    let machine = &service.machine;
    let spec = machine.spec();
    Json(resources::system(&resources::System {
        path: resources::SYSTEM,
        manager: resources::MANAGER,
        name: &spec.name,
        uuid: spec.uuid.to_string(),
        memory_mib: spec.memory_mib,
        cpus: spec.cpus,
        on: machine.is_on().await,
        boot: machine.boot_override().await,
        firmware: machine.firmware().await,
    }))
}

async fn patch_system(State(service): Bmc, Json(body): Json<Value>) -> Answer {
    let boot = body
        .get("Boot")
        .ok_or_else(|| bad("only Boot can be changed"))?;
    let now = service.machine.boot_override().await;
    let new = resources::parse_override(boot, now).map_err(bad)?;
    let firmware = resources::parse_mode(boot).map_err(bad)?;
    service.machine.set_boot(new, firmware).await?;
    service.note(&format!("  boot override {new:?}, mode {firmware:?}"));
    Ok(StatusCode::NO_CONTENT)
}

async fn reset(State(service): Bmc, Json(body): Json<Value>) -> Answer {
    let kind = body["ResetType"].as_str().unwrap_or_default();
    service.note(&format!("  reset {kind}"));
    let machine = &service.machine;
    match kind {
        "On" | "ForceOn" => machine.power_on().await?,
        "ForceOff" => machine.power_off().await,
        "GracefulShutdown" => machine.press_power_button().await?,
        "ForceRestart" | "GracefulRestart" | "PowerCycle" => machine.restart().await?,
        other => {
            return Err(bad(format!(
                "ResetType {other:?} is not supported, expected one of {}",
                resources::RESETS.join(", ")
            )));
        }
    }
    Ok(StatusCode::NO_CONTENT)
}

async fn show_nic(State(service): Bmc) -> Json<Value> {
    Json(resources::nic(
        resources::SYSTEM,
        &service.machine.spec().mac,
    ))
}

async fn show_media(State(service): Bmc) -> Json<Value> {
    let url = service.machine.media().await.map(|media| media.url);
    Json(resources::virtual_cd(resources::MANAGER, url.as_deref()))
}

async fn insert_media(State(service): Bmc, Json(body): Json<Value>) -> Answer {
    let url = body["Image"]
        .as_str()
        .ok_or_else(|| bad("Image is missing, expected a URL"))?;
    // A new name each time: QEMU may still hold the last one open.
    let file = service
        .machine
        .file(format!("media-{}.iso", crate::random_hex(4)));
    let length = media::fetch(url, &file).await?;
    service.note(&format!("  inserted {length} bytes"));
    service
        .machine
        .set_media(Some(Media {
            url: url.to_owned(),
            file,
        }))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn eject_media(State(service): Bmc) -> Answer {
    let old = service.machine.media().await;
    service.machine.set_media(None).await?;
    if let Some(old) = old {
        // It is in scratch: what cannot be deleted now goes with the run.
        tokio::fs::remove_file(old.file).await.ok();
    }
    Ok(StatusCode::NO_CONTENT)
}

async fn open_session(State(service): Bmc, Json(body): Json<Value>) -> Result<Response, Refusal> {
    let text = |key: &str| body[key].as_str().unwrap_or_default();
    let token = service
        .accounts
        .open(text("UserName"), text("Password"))
        .ok_or_else(|| {
            Refusal(
                StatusCode::UNAUTHORIZED,
                "wrong user name or password".into(),
            )
        })?;
    let path = "/redfish/v1/SessionService/Sessions/1";
    let headers = [("x-auth-token", token), ("location", path.to_owned())];
    let session = json!({"@odata.id": path, "Id": "1", "UserName": text("UserName")});
    Ok((StatusCode::CREATED, headers, Json(session)).into_response())
}

async fn close_session(State(service): Bmc, headers: HeaderMap) -> StatusCode {
    service.accounts.close(&headers);
    StatusCode::NO_CONTENT
}

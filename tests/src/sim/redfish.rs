//! One Redfish service for all machines, a system and a manager for each
//! (DMTF DSP0266).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use axum::Json;
use axum::Router;
use axum::extract::Path;
use axum::extract::Request;
use axum::extract::State;
use axum::http::StatusCode;
use axum::middleware;
use axum::middleware::Next;
use axum::response::IntoResponse;
use axum::response::Response;
use axum::routing::get;
use axum::routing::post;
use serde_json::Value;
use serde_json::json;

use super::Machine;
use crate::bmc::auth::Accounts;
use crate::bmc::resources;

/// The machines by their names.
#[derive(Debug)]
pub(super) struct Hall {
    pub(super) machines: Mutex<HashMap<String, Machine>>,
    pub(super) accounts: Accounts,
}

impl Hall {
    pub(super) fn machines(&self) -> MutexGuard<'_, HashMap<String, Machine>> {
        self.machines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn machine(&self, name: &str) -> Result<Machine, Refusal> {
        let found = self.machines().get(name).cloned();
        found.ok_or_else(|| Refusal(StatusCode::NOT_FOUND, "no such system".to_owned()))
    }
}

/// A refusal with the status and the message of a Redfish error.
struct Refusal(StatusCode, String);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = json!({"error": {"code": "Base.1.8.GeneralError", "message": self.1}});
        (self.0, Json(body)).into_response()
    }
}

fn bad(message: impl Into<String>) -> Refusal {
    Refusal(StatusCode::BAD_REQUEST, message.into())
}

type Shown = Result<Json<Value>, Refusal>;
type Done = Result<StatusCode, Refusal>;
type Halls = State<Arc<Hall>>;

/// Path of the system of that name.
pub(super) fn system(name: &str) -> String {
    format!("/redfish/v1/Systems/{name}")
}

fn manager(name: &str) -> String {
    format!("/redfish/v1/Managers/{name}")
}

/// The service.
pub(super) fn router(hall: Arc<Hall>) -> Router {
    let (system, manager) = (system("{name}"), manager("{name}"));
    let media = format!("{manager}/VirtualMedia/Cd");
    let nics = format!("{system}/EthernetInterfaces");
    Router::new()
        .route("/redfish/v1", get(|| async { Json(resources::root()) }))
        .route("/redfish/v1/", get(|| async { Json(resources::root()) }))
        .route(&system, get(show_system).patch(patch_system))
        .route(
            &format!("{system}/Actions/ComputerSystem.Reset"),
            post(reset),
        )
        .route(&nics, get(list_nics))
        .route(&format!("{nics}/1"), get(show_nic))
        .route("/redfish/v1/Managers", get(list_managers))
        .route(&manager, get(show_manager))
        .route(&format!("{manager}/VirtualMedia"), get(list_media))
        .route(&media, get(show_media))
        .route(
            &format!("{media}/Actions/VirtualMedia.InsertMedia"),
            post(insert_media),
        )
        .route(
            &format!("{media}/Actions/VirtualMedia.EjectMedia"),
            post(eject_media),
        )
        .fallback(|| async { Refusal(StatusCode::NOT_FOUND, "no such resource".to_owned()) })
        .layer(middleware::from_fn_with_state(Arc::clone(&hall), gate))
        .with_state(hall)
}

/// Lets only the service root through without the account.
async fn gate(State(hall): Halls, request: Request, next: Next) -> Response {
    let open = request.uri().path().trim_end_matches('/') == "/redfish/v1";
    if open || hall.accounts.admits(request.headers()) {
        return next.run(request).await;
    }
    Refusal(StatusCode::UNAUTHORIZED, "account required".to_owned()).into_response()
}

async fn show_system(State(hall): Halls, Path(name): Path<String>) -> Shown {
    let machine = hall.machine(&name)?;
    let (boot, firmware) = machine.boot_override();
    Ok(Json(resources::system(&resources::System {
        path: &system(&name),
        manager: &manager(&name),
        name: &name,
        uuid: machine.uuid().to_string(),
        memory_mib: 16 << 10,
        cpus: 4,
        on: machine.is_on(),
        boot,
        firmware,
    })))
}

async fn patch_system(
    State(hall): Halls,
    Path(name): Path<String>,
    Json(body): Json<Value>,
) -> Done {
    let machine = hall.machine(&name)?;
    let boot = body
        .get("Boot")
        .ok_or_else(|| bad("only Boot can be changed"))?;
    let (now, _) = machine.boot_override();
    let new = resources::parse_override(boot, now).map_err(bad)?;
    let firmware = resources::parse_mode(boot).map_err(bad)?;
    machine.set_boot(new, firmware);
    Ok(StatusCode::NO_CONTENT)
}

async fn reset(State(hall): Halls, Path(name): Path<String>, Json(body): Json<Value>) -> Done {
    let machine = hall.machine(&name)?;
    let kind = body["ResetType"].as_str().unwrap_or_default();
    machine.write(|log| log.say(&format!("reset {kind}")));
    match kind {
        "On" | "ForceOn" => machine.switch(true, true),
        "ForceOff" | "GracefulShutdown" => machine.switch(false, true),
        "ForceRestart" | "GracefulRestart" | "PowerCycle" => {
            machine.switch(false, true);
            machine.switch(true, true);
        }
        other => return Err(bad(format!("ResetType {other:?} is not supported"))),
    }
    Ok(StatusCode::NO_CONTENT)
}

async fn list_nics(Path(name): Path<String>) -> Json<Value> {
    let path = format!("{}/EthernetInterfaces", system(&name));
    let nic = format!("{path}/1");
    Json(resources::collection(&path, "EthernetInterface", &[&nic]))
}

async fn show_nic(State(hall): Halls, Path(name): Path<String>) -> Shown {
    let machine = hall.machine(&name)?;
    Ok(Json(resources::nic(&system(&name), machine.mac())))
}

async fn list_managers(State(hall): Halls) -> Json<Value> {
    let managers: Vec<String> = hall.machines().keys().map(|name| manager(name)).collect();
    let managers: Vec<&str> = managers.iter().map(String::as_str).collect();
    Json(resources::collection(
        "/redfish/v1/Managers",
        "Manager",
        &managers,
    ))
}

async fn show_manager(State(hall): Halls, Path(name): Path<String>) -> Shown {
    hall.machine(&name)?;
    Ok(Json(resources::manager(&manager(&name), &system(&name))))
}

async fn list_media(Path(name): Path<String>) -> Json<Value> {
    let path = format!("{}/VirtualMedia", manager(&name));
    let cd = format!("{path}/Cd");
    Json(resources::collection(&path, "VirtualMedia", &[&cd]))
}

async fn show_media(State(hall): Halls, Path(name): Path<String>) -> Shown {
    let disc = hall.machine(&name)?.disc();
    Ok(Json(resources::virtual_cd(
        &manager(&name),
        disc.as_deref(),
    )))
}

async fn insert_media(
    State(hall): Halls,
    Path(name): Path<String>,
    Json(body): Json<Value>,
) -> Done {
    let url = body["Image"]
        .as_str()
        .ok_or_else(|| bad("Image is missing, expected a URL"))?;
    hall.machine(&name)?.set_disc(Some(url.to_owned()));
    Ok(StatusCode::NO_CONTENT)
}

async fn eject_media(State(hall): Halls, Path(name): Path<String>) -> Done {
    hall.machine(&name)?.set_disc(None);
    Ok(StatusCode::NO_CONTENT)
}

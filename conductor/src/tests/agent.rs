//! A small agent: the real HTTPS protocol, none of the work.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Json;
use axum::Router;
use axum::extract::Query;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::response::Response;
use axum::routing::get;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use serde_json::Value;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use uuid::Uuid;

use super::machine::Machine;

/// An agent of one boot.
#[derive(Clone)]
pub(super) struct Agent(Arc<Inner>);

struct Inner {
    machine: Machine,
    token: String,
    commands: Mutex<Vec<Value>>,
    epoch: Mutex<i64>,
    dead: AtomicBool,
}

/// Certificate and key, as agents make them.
pub(super) fn identity() -> (String, rustls::ServerConfig) {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
    let params = rcgen::CertificateParams::new(vec!["ramdisk".to_owned()]).unwrap();
    let cert = params.self_signed(&key).unwrap();
    let der = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], der)
        .unwrap();
    (cert.pem(), tls)
}

/// A listener that speaks TLS.
struct Tls(TcpListener, TlsAcceptor);

impl axum::serve::Listener for Tls {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let Ok((stream, peer)) = self.0.accept().await else {
                continue;
            };
            if let Ok(stream) = self.1.accept(stream).await {
                return (stream, peer);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// Serves a router as an agent does; gives its base URL.
pub(super) async fn serve(
    tls: rustls::ServerConfig,
    router: Router,
) -> (String, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let listener = Tls(listener, TlsAcceptor::from(Arc::new(tls)));
    let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (url, task)
}

impl Agent {
    pub(super) fn new(machine: Machine, token: String) -> Self {
        Self(Arc::new(Inner {
            machine,
            token,
            commands: Mutex::default(),
            epoch: Mutex::default(),
            dead: AtomicBool::default(),
        }))
    }

    /// Its process ends; what it was at is not done any more.
    pub(super) fn die(&self) {
        self.0.dead.store(true, Ordering::SeqCst);
    }

    fn is_dead(&self) -> bool {
        self.0.dead.load(Ordering::SeqCst)
    }

    pub(super) fn router(&self) -> Router {
        Router::new()
            .route("/v1/commands/", get(list).post(post))
            .route("/v1/commands/{id}", get(one))
            .with_state(self.clone())
    }

    fn allowed(
        &self,
        query: &[(String, String)],
        headers: &HeaderMap,
    ) -> Result<(), Box<Response>> {
        let token = query.iter().find(|(key, _)| key == "agent_token");
        if token.is_none_or(|(_, token)| *token != self.0.token) {
            return Err(Box::new(StatusCode::UNAUTHORIZED.into_response()));
        }
        let Some(epoch) = headers.get("x-wrought-lock-epoch") else {
            return Ok(());
        };
        let epoch: i64 = epoch.to_str().unwrap().parse().unwrap();
        let mut highest = self.0.epoch.lock().unwrap();
        if epoch < *highest {
            return Err(Box::new(fault(StatusCode::CONFLICT, "lower epoch")));
        }
        *highest = epoch;
        Ok(())
    }

    fn set(&self, id: Uuid, changes: &Value) {
        let mut commands = self.0.commands.lock().unwrap();
        let id = json!(id);
        let command = commands.iter_mut().find(|c| c["id"] == id).unwrap();
        for (key, value) in changes.as_object().unwrap() {
            command[key] = value.clone();
        }
    }

    fn push(&self, name: &str) -> Uuid {
        let id = Uuid::new_v4();
        self.0.commands.lock().unwrap().push(json!({
            "id": id, "command_name": name, "command_status": "RUNNING",
            "command_error": null, "command_result": null,
        }));
        id
    }

    fn shown(&self, id: Uuid) -> Value {
        let commands = self.0.commands.lock().unwrap();
        commands
            .iter()
            .find(|c| c["id"] == json!(id))
            .cloned()
            .unwrap_or_default()
    }

    /// A step: runs for a while, telling its progress.
    async fn step(self, id: Uuid, kind: &'static str, step: Value) {
        let name = format!(
            "{}.{}",
            step["interface"].as_str().unwrap(),
            step["step"].as_str().unwrap()
        );
        let machine = self.0.machine.clone();
        let time = machine.knobs(|knobs| knobs.step_time);
        for percent in [0, 50] {
            let progress = json!({"stage": "write", "bytes_in": percent, "bytes_out": percent, "rate": 1, "percent": percent});
            self.set(id, &json!({"command_result": {"progress": progress}}));
            tokio::time::sleep(time / 2).await;
        }
        if self.is_dead() {
            return;
        }
        if let Some(details) = machine.knobs(|knobs| knobs.failing.get(&name).cloned()) {
            let error = json!({"type": "ImageChecksumError", "code": 500, "message": "verify failed", "details": details});
            self.set(id, &json!({"command_status": "FAILED", "command_error": error, "command_result": null}));
            return;
        }
        machine.log(&format!("done {name}"));
        let mut result = json!({"root_uuid": "0x1234", "peak_rss_bytes": 4711});
        if kind == "clean" {
            result = Value::Null;
        }
        let result = json!({format!("{kind}_result"): result, format!("{kind}_step"): step});
        self.set(
            id,
            &json!({"command_status": "SUCCEEDED", "command_result": result}),
        );
        machine.beat().await;
    }
}

fn fault(status: StatusCode, text: &str) -> Response {
    (
        status,
        Json(json!({"faultcode": "Client", "faultstring": text})),
    )
        .into_response()
}

type Pairs = Query<Vec<(String, String)>>;

async fn list(State(agent): State<Agent>, Query(query): Pairs, headers: HeaderMap) -> Response {
    if let Err(refused) = agent.allowed(&query, &headers) {
        return *refused;
    }
    let commands = agent.0.commands.lock().unwrap().clone();
    Json(json!({"commands": commands})).into_response()
}

async fn one(
    State(agent): State<Agent>,
    axum::extract::Path(id): axum::extract::Path<Uuid>,
    Query(query): Pairs,
    headers: HeaderMap,
) -> Response {
    if let Err(refused) = agent.allowed(&query, &headers) {
        return *refused;
    }
    Json(agent.shown(id)).into_response()
}

async fn post(
    State(agent): State<Agent>,
    Query(query): Pairs,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    if let Err(refused) = agent.allowed(&query, &headers) {
        return *refused;
    }
    let busy = agent
        .0
        .commands
        .lock()
        .unwrap()
        .last()
        .is_some_and(|c| c["command_status"] == "RUNNING");
    if busy {
        return fault(StatusCode::CONFLICT, "Agent is busy: executing command");
    }
    let full = body["name"].as_str().unwrap();
    let bare = full.rsplit('.').next().unwrap();
    let machine = agent.0.machine.clone();
    let step = body["params"]["step"].clone();
    let versions = machine.versions();
    if let Some(kind) = bare
        .strip_prefix("execute_")
        .and_then(|rest| rest.strip_suffix("_step"))
        && body["params"][format!("{kind}_version")] != versions
    {
        let id = agent.push(bare);
        let error =
            json!({"type": "VersionMismatch", "code": 409, "message": "mismatch", "details": ""});
        agent.set(
            id,
            &json!({"command_status": "CLEAN_VERSION_MISMATCH", "command_error": error}),
        );
        machine.log("version mismatch");
        return Json(agent.shown(id)).into_response();
    }
    machine.log(&match step.is_object() {
        true => format!(
            "run {}.{}",
            step["interface"].as_str().unwrap(),
            step["step"].as_str().unwrap()
        ),
        false => format!("run {full}"),
    });
    machine.keep(&body);
    let id = agent.push(bare);
    let answer = match full {
        "deploy.get_deploy_steps" => json!({"deploy_steps": {"Generic": [
            {"step": "write_image", "priority": 0, "interface": "deploy", "reboot_requested": false},
            {"step": "inject_files", "priority": 0, "interface": "deploy"},
        ]}, "hardware_manager_version": versions}),
        "clean.get_clean_steps" => json!({"clean_steps": {"Generic": [
            {"step": "erase_devices", "priority": 10, "interface": "deploy", "abortable": true},
            {"step": "erase_devices_metadata", "priority": 99, "interface": "deploy", "abortable": true},
            {"step": "create_configuration", "priority": 0, "interface": "raid", "abortable": false},
            {"step": "update", "priority": 0, "interface": "firmware", "reboot_requested": true},
            {
                "step": "burn_in", "priority": 0, "interface": "deploy",
                "argsinfo": {"time": {"description": "Seconds", "required": true, "type": "integer"}},
            },
        ]}, "hardware_manager_version": versions}),
        "service.get_service_steps" => json!({"service_steps": {"Generic": [
            {"step": "burnin_cpu", "priority": 0, "interface": "deploy", "abortable": true},
            {"step": "create_configuration", "priority": 0, "interface": "raid", "abortable": false},
            {"step": "restart", "priority": 0, "interface": "deploy", "abortable": true, "reboot_requested": true},
        ]}, "hardware_manager_version": versions}),
        "service.execute_service_step" => {
            tokio::spawn(agent.clone().step(id, "service", step));
            return answer(&agent, id).await;
        }
        "rescue.finalize_rescue" => return rescued(&agent, id).await,
        "log.collect_system_logs" => match machine.knobs(|knobs| knobs.logs.clone()) {
            Some(logs) => json!({"system_logs": STANDARD.encode(logs)}),
            None => return fault(StatusCode::BAD_REQUEST, "unknown command"),
        },
        "deploy.execute_deploy_step" => {
            tokio::spawn(agent.clone().step(id, "deploy", step));
            return answer(&agent, id).await;
        }
        "clean.execute_clean_step" => {
            tokio::spawn(agent.clone().step(id, "clean", step));
            return answer(&agent, id).await;
        }
        "standby.get_partition_uuids" => json!({"root uuid": "0x1234"}),
        "image.install_bootloader" => json!({"result": "install_bootloader: ok"}),
        "standby.power_off" => {
            let dying = agent.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(20)).await;
                // An agent that has gone cannot switch off what runs now.
                if !dying.is_dead() {
                    machine.agent_powers_off().await;
                }
            });
            json!({"result": "power_off: ok"})
        }
        other => return fault(StatusCode::BAD_REQUEST, &format!("unknown command {other}")),
    };
    agent.set(
        id,
        &json!({"command_status": "SUCCEEDED", "command_result": answer}),
    );
    Json(agent.shown(id)).into_response()
}

/// The ramdisk takes the password, then nobody serves any more.
async fn rescued(agent: &Agent, id: Uuid) -> Response {
    let machine = agent.0.machine.clone();
    let changes = match machine.knobs(|knobs| knobs.no_login) {
        true => json!({"command_status": "FAILED", "command_error": {
            "type": "CommandExecutionError", "code": 500,
            "message": "Command execution failed", "details": "this ramdisk has no login",
        }}),
        false => json!({"command_status": "SUCCEEDED", "command_result": {"result": null}}),
    };
    agent.set(id, &changes);
    let answer = answer(agent, id).await;
    if changes["command_status"] == "SUCCEEDED" {
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            machine.agent_leaves();
        });
    }
    answer
}

/// The answer to a step command, unless the test cuts it off.
async fn answer(agent: &Agent, id: Uuid) -> Response {
    if agent
        .0
        .machine
        .knobs(|knobs| knobs.crash_on_step.take())
        .is_some()
    {
        agent.0.machine.crash_conductor().await;
    }
    Json(agent.shown(id)).into_response()
}

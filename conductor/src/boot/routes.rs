//! The boot listener.

use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::extract::Query;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::Method;
use axum::http::Response;
use axum::http::StatusCode;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use serde_json::Value;
use wrought_store::node::Node;
use wrought_wire::state::ProvisionState;

use crate::boot::Offer;
use crate::boot::Way;
use crate::boot::file;
use crate::boot::iso;
use crate::boot::params;
use crate::boot::script;
use crate::error::chain;
use crate::internal;
use crate::service::Service;
use crate::token;

/// Routes of the boot listener: the entry script, each node's script, the files
/// below the address of an offer, and the ramdisk for machines that nobody
/// knows.
pub fn router(service: &Arc<Service>) -> Router {
    Router::new()
        .route("/boot.ipxe", get(entry))
        .route("/ipxe/{mac}", get(node_script))
        .route("/b/{token}/{file}", get(artefact))
        .route("/discovery/{file}", get(discovery_file))
        .with_state(Arc::clone(service))
}

fn text(script: String) -> Response<Body> {
    let kind = [
        (header::CONTENT_TYPE, "text/plain"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (kind, script).into_response()
}

fn nothing() -> Response<Body> {
    StatusCode::NOT_FOUND.into_response()
}

async fn entry(State(svc): State<Arc<Service>>) -> Response<Body> {
    let discovers = discovery(&svc).is_some();
    svc.config
        .boot_url()
        .map_or_else(nothing, |base| text(script::entry(&base, discovers)))
}

/// A node like that which would be made for a machine that nobody knows, where
/// such are to be found out; it is not stored.
fn discovery(svc: &Service) -> Option<Node> {
    let driver = svc.config.conductor.inspection.discovery_driver.as_ref()?;
    let mut node = Node::new(driver);
    // So that its ramdisk is told where to send what it finds.
    node.provision_state = ProvisionState::InspectWait;
    Some(node)
}

/// Kernel and initramfs for machines that nobody knows; no secret is in them.
async fn discovery_file(
    State(svc): State<Arc<Service>>,
    Path(name): Path<String>,
    method: Method,
    headers: HeaderMap,
) -> Response<Body> {
    let what = match name.as_str() {
        "vmlinuz" => "kernel",
        "initramfs" => "ramdisk",
        _ => return nothing(),
    };
    let Some(node) = discovery(&svc) else {
        return nothing();
    };
    match one(path(&svc, &node, what, &name)).await {
        Ok(parts) => file::serve(&method, &headers, "application/octet-stream", parts),
        Err(err) => {
            tracing::error!(file = name, err, "boot file not served");
            nothing()
        }
    }
}

#[derive(serde::Deserialize)]
struct Origin {
    #[serde(default)]
    from: String,
}

async fn node_script(
    State(svc): State<Arc<Service>>,
    Path(mac): Path<String>,
    Query(origin): Query<Origin>,
) -> Response<Body> {
    let from_entry = origin.from == "boot";
    let (Some(mac), Some(base)) = (hyphens(&mac), svc.config.boot_url()) else {
        return nothing();
    };
    let found = match svc.store.node_by_addresses(&[mac.replace('-', ":")]).await {
        Ok(found) => found,
        Err(error) => {
            tracing::error!(mac, err = %chain(&error), "boot script not made");
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        }
    };
    let Some(node) = found else {
        if origin.from == "discovery"
            && let Some(node) = discovery(&svc)
        {
            tracing::info!(mac, "unknown machine boots the ramdisk");
            let file = |name: &str| format!("{base}/discovery/{name}");
            let line = params::command_line(&svc, &node, &mac);
            let script = script::ramdisk(&file("vmlinuz"), &file("initramfs"), &line);
            return text(script);
        }
        tracing::info!(mac, "unknown machine asks for a boot script");
        return if from_entry || origin.from == "discovery" {
            nothing()
        } else {
            text(script::unknown(&base))
        };
    };
    let Some(offer) = Offer::of(&node).filter(|offer| offer.way == Way::Ipxe) else {
        tracing::info!(node = %node.uuid, mac, "machine sent to its disk");
        return text(script::disk(from_entry));
    };
    tracing::info!(node = %node.uuid, mac, "machine boots the ramdisk");
    let kernel =
        address(&node, &property(&node, "kernel")).unwrap_or_else(|| offer.url(&base, "vmlinuz"));
    let initramfs = address(&node, &property(&node, "ramdisk"))
        .unwrap_or_else(|| offer.url(&base, "initramfs"));
    text(script::ramdisk(
        &kernel,
        &initramfs,
        &params::command_line(&svc, &node, &mac),
    ))
}

async fn artefact(
    State(svc): State<Arc<Service>>,
    Path((token, name)): Path<(String, String)>,
    method: Method,
    headers: HeaderMap,
) -> Response<Body> {
    let Some(node) = Offer::node(&token) else {
        return nothing();
    };
    let Ok(Some(node)) = svc.store.node_by_uuid(node).await else {
        return nothing();
    };
    let Some(offer) = Offer::of(&node).filter(|offer| token::same(&offer.token, &token)) else {
        return nothing();
    };
    let parts = match (offer.way, name.as_str()) {
        (Way::Ipxe, "vmlinuz") => one(path(&svc, &node, "kernel", "vmlinuz")).await,
        (Way::Ipxe, "initramfs") => one(path(&svc, &node, "ramdisk", "initramfs")).await,
        (Way::VirtualMedia, "boot.iso")
            if internal::text(&node, internal::AGENT_TOKEN).is_some() =>
        {
            iso::parts(&svc, &node).await.map_err(|error| chain(&error))
        }
        _ => return nothing(),
    };
    match parts {
        Ok(parts) => {
            tracing::info!(node = %node.uuid, file = name, method = %method, "boot file served");
            file::serve(&method, &headers, "application/octet-stream", parts)
        }
        Err(err) => {
            tracing::error!(node = %node.uuid, file = name, err, "boot file not served");
            nothing()
        }
    }
}

async fn one(path: PathBuf) -> Result<Vec<file::Part>, String> {
    let part = file::whole(&path).await;
    part.map(|part| vec![part])
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// A `driver_info` property that is a web address of its own.
fn address(node: &Node, key: &str) -> Option<String> {
    let text = node.driver_info.get(key).and_then(Value::as_str)?;
    let is_url = text.starts_with("http://") || text.starts_with("https://");
    // A space would end the word in the script.
    (is_url && !text.contains(char::is_whitespace)).then(|| text.to_owned())
}

/// The property of `driver_info` that names the node's own `kernel`, `ramdisk`
/// or `iso`: another one while the node is rescued.
pub(crate) fn property(node: &Node, what: &str) -> String {
    let purpose = if rescues(node) { "rescue" } else { "deploy" };
    format!("{purpose}_{what}")
}

fn rescues(node: &Node) -> bool {
    matches!(
        node.provision_state,
        ProvisionState::Rescuing | ProvisionState::RescueWait
    )
}

/// Folder with the files of the installation's ramdisk for the node.
pub(crate) fn folder<'a>(svc: &'a Service, node: &Node) -> &'a std::path::Path {
    let boot = &svc.config.boot;
    match &boot.rescue_ramdisk_dir {
        Some(folder) if rescues(node) => folder,
        _ => &boot.ramdisk_dir,
    }
}

/// The file of a `kernel` or `ramdisk`: the node's own, or the installation's.
pub(crate) fn path(svc: &Service, node: &Node, what: &str, name: &str) -> PathBuf {
    let own = node
        .driver_info
        .get(&property(node, what))
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty());
    match own {
        Some(own) => PathBuf::from(own.strip_prefix("file://").unwrap_or(own)),
        None => folder(svc, node).join(name),
    }
}

/// A MAC address in either form, as lower case with hyphens.
fn hyphens(mac: &str) -> Option<String> {
    let mac = mac.to_ascii_lowercase().replace(':', "-");
    let parts: Vec<&str> = mac.split('-').collect();
    let good = parts.len() == 6
        && parts
            .iter()
            .all(|part| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit()));
    good.then_some(mac)
}

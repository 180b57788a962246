//! Methods that only one maker's driver has.

use async_trait::async_trait;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use wrought_rpc::VendorMethod;
use wrought_store::node::Node;
use wrought_wire::state::MediaKind;

use super::Management;
use super::ipmi::Ipmitool;
use super::redfish::Redfish;
use super::redfish::failed;
use crate::error::Error;
use crate::service::Service;

/// A method as its driver describes it.
#[derive(Debug)]
pub struct Method {
    /// Its name.
    pub name: &'static str,
    /// HTTP methods by which it may be called.
    pub http: &'static [&'static str],
    /// Whether it runs after the answer to its call.
    pub is_async: bool,
    /// Whether it needs the node's lock.
    pub locks: bool,
    /// What it does.
    pub description: &'static str,
}

impl Method {
    /// As the API shows it.
    pub(crate) fn shown(&self) -> VendorMethod {
        VendorMethod {
            http_methods: self.http.iter().map(|name| (*name).to_owned()).collect(),
            is_async: self.is_async,
            description: self.description.to_owned(),
            attach: false,
            require_exclusive_lock: self.locks,
        }
    }
}

/// The vendor methods of a driver.
#[async_trait]
pub trait Vendor: Send + Sync {
    /// All of them.
    fn methods(&self) -> &'static [Method];
    /// Whether the parameters are right.
    fn check(&self, method: &Method, parameters: &Map<String, Value>) -> Result<(), Error>;
    /// Calls one that [`Vendor::check`] has passed.
    async fn call(
        &self,
        svc: &Service,
        node: &Node,
        method: &Method,
        parameters: &Map<String, Value>,
    ) -> Result<Value, Error>;
}

/// Those that there are.
pub(super) const VENDOR: super::Table<dyn Vendor> = &[
    ("fake", &Fake),
    ("ipmitool", &Ipmitool),
    ("no-vendor", &NoVendor),
    ("redfish", &Redfish),
];

/// Methods for trying things out, Ironic's.
struct Fake;

/// No methods.
struct NoVendor;

const fn fake(
    name: &'static str,
    is_async: bool,
    locks: bool,
    description: &'static str,
) -> Method {
    Method {
        name,
        http: &["POST"],
        is_async,
        locks,
        description,
    }
}

const FAKE: &[Method] = &[
    fake(
        "fourth_method_shared_lock",
        true,
        false,
        "Test if the value of bar is woof",
    ),
    fake("log_passthrough", true, true, "Test pass-through to wait."),
    fake(
        "second_method",
        true,
        true,
        "Test if the value of bar is kazoo",
    ),
    fake(
        "third_method_sync",
        false,
        true,
        "Test if the value of bar is meow",
    ),
];

/// What each of them compares `bar` with.
fn wanted(method: &Method) -> Option<&'static str> {
    match method.name {
        "fourth_method_shared_lock" => Some("woof"),
        "second_method" => Some("kazoo"),
        "third_method_sync" => Some("meow"),
        _ => None,
    }
}

#[async_trait]
impl Vendor for Fake {
    fn methods(&self) -> &'static [Method] {
        FAKE
    }

    fn check(&self, method: &Method, parameters: &Map<String, Value>) -> Result<(), Error> {
        match wanted(method) {
            Some(_) if !parameters.contains_key("bar") => Err(Error::Invalid(format!(
                "Parameter 'bar' not passed to method '{}'.",
                method.name
            ))),
            _ => Ok(()),
        }
    }

    async fn call(
        &self,
        _svc: &Service,
        _node: &Node,
        method: &Method,
        parameters: &Map<String, Value>,
    ) -> Result<Value, Error> {
        let bar = parameters.get("bar").and_then(Value::as_str);
        Ok(json!(bar.is_some() && bar == wanted(method)))
    }
}

#[async_trait]
impl Vendor for NoVendor {
    fn methods(&self) -> &'static [Method] {
        &[]
    }

    fn check(&self, _: &Method, _: &Map<String, Value>) -> Result<(), Error> {
        Ok(())
    }

    async fn call(
        &self,
        _svc: &Service,
        _node: &Node,
        _method: &Method,
        _parameters: &Map<String, Value>,
    ) -> Result<Value, Error> {
        Ok(Value::Null)
    }
}

const fn redfish(
    name: &'static str,
    http: &'static [&'static str],
    is_async: bool,
    description: &'static str,
) -> Method {
    Method {
        name,
        http,
        is_async,
        locks: true,
        description,
    }
}

const REDFISH: &[Method] = &[
    redfish(
        "create_subscription",
        &["POST"],
        false,
        "Has the BMC send events to a URL. Required argument: Destination. Optional arguments: \
         EventTypes, Context, Protocol, HttpHeaders.",
    ),
    redfish(
        "delete_subscription",
        &["DELETE"],
        false,
        "Ends a subscription. Required argument: id.",
    ),
    redfish(
        "eject_vmedia",
        &["POST"],
        true,
        "Ejects virtual media. Optional argument: boot_device, one of cd, dvd, usb and floppy; \
         without it all devices are emptied.",
    ),
    redfish(
        "get_all_subscriptions",
        &["GET"],
        false,
        "Shows all subscriptions as the BMC tells them.",
    ),
    redfish(
        "get_subscription",
        &["GET"],
        false,
        "Shows a subscription. Required argument: id.",
    ),
];

/// The kinds of media that `boot_device` names.
fn named(parameters: &Map<String, Value>) -> Result<Vec<MediaKind>, Error> {
    match parameters.get("boot_device") {
        None | Some(Value::Null) => Ok(MediaKind::ALL.to_vec()),
        Some(Value::String(word)) => match word.to_ascii_lowercase().as_str() {
            "cd" | "dvd" => Ok(vec![MediaKind::Cdrom]),
            "usb" => Ok(vec![MediaKind::Disk]),
            "floppy" => Ok(vec![MediaKind::Floppy]),
            other => Err(Error::Invalid(format!(
                "Virtual media device {other:?} is not known: expected cd, dvd, usb or floppy"
            ))),
        },
        Some(_) => Err(Error::Invalid(
            "boot_device: expected a string such as \"cd\"".to_owned(),
        )),
    }
}

/// The `id` of a subscription.
fn subscription(parameters: &Map<String, Value>) -> Result<&str, Error> {
    let id = parameters.get("id").and_then(Value::as_str);
    id.ok_or_else(|| Error::Invalid("id: expected the id of a subscription".to_owned()))
}

/// What a new subscription is to be.
fn wanted_subscription(parameters: &Map<String, Value>) -> Result<Value, Error> {
    let mut wanted = json!({"Context": "", "EventTypes": ["Alert"], "Protocol": "Redfish"});
    for (key, value) in parameters {
        let fine = match key.as_str() {
            "Destination" | "Context" | "Protocol" => value.is_string(),
            "EventTypes" | "HttpHeaders" => value.is_array(),
            _ => false,
        };
        if !fine {
            return Err(Error::Invalid(format!(
                "{key}: expected the strings Destination, Context and Protocol and the lists \
                 EventTypes and HttpHeaders alone"
            )));
        }
        wanted[key.as_str()] = value.clone();
    }
    match parameters.contains_key("Destination") {
        true => Ok(wanted),
        false => Err(Error::Invalid(
            "Destination: expected the URL that events are to be sent to, found nothing".to_owned(),
        )),
    }
}

#[async_trait]
impl Vendor for Redfish {
    fn methods(&self) -> &'static [Method] {
        REDFISH
    }

    fn check(&self, method: &Method, parameters: &Map<String, Value>) -> Result<(), Error> {
        match method.name {
            "create_subscription" => wanted_subscription(parameters).map(drop),
            "eject_vmedia" => named(parameters).map(drop),
            "get_all_subscriptions" => Ok(()),
            _ => subscription(parameters).map(drop),
        }
    }

    async fn call(
        &self,
        svc: &Service,
        node: &Node,
        method: &Method,
        parameters: &Map<String, Value>,
    ) -> Result<Value, Error> {
        let bmc = svc.bmcs.of(node)?;
        let answer = match method.name {
            "create_subscription" => bmc.subscribe(&wanted_subscription(parameters)?).await,
            "get_all_subscriptions" => bmc.subscriptions().await,
            "get_subscription" => bmc.subscription(subscription(parameters)?).await,
            "delete_subscription" => {
                let ended = bmc.unsubscribe(subscription(parameters)?).await;
                ended.map(|()| Value::Null)
            }
            _ => {
                self.detach_media(svc, node, &named(parameters)?).await?;
                Ok(Value::Null)
            }
        };
        answer.map_err(failed(node, format!("vendor method {}", method.name)))
    }
}

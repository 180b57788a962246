//! Power, boot devices and vendor methods by IPMI. The interfaces are named as
//! Ironic's, though no `ipmitool` is run.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use wrought_bmc::redfish::BootMode;
use wrought_bmc::redfish::PowerAction;
use wrought_store::node::Node;
use wrought_wire::state::BootDevice;
use wrought_wire::state::PowerState;

use super::Management;
use super::Power;
use super::redfish::failed;
use super::vendor::Method;
use super::vendor::Vendor;
use crate::error::Error;
use crate::service::Service;

/// Properties of `driver_info`.
pub(super) const PROPERTIES: &[(&str, &str)] = &[
    (
        "ipmi_address",
        "IP address or host name of the BMC. Required.",
    ),
    (
        "ipmi_port",
        "UDP port of the BMC; 623 by default. Optional.",
    ),
    (
        "ipmi_username",
        "User; the anonymous one by default. Optional.",
    ),
    ("ipmi_password", "Password of the user. Optional."),
    (
        "ipmi_hex_kg_key",
        "K_G key of the BMC as 40 hexadecimal digits. Optional.",
    ),
    (
        "ipmi_priv_level",
        "Rights that are asked for: ADMINISTRATOR (the default), OPERATOR, USER or CALLBACK. \
         Optional.",
    ),
    (
        "ipmi_cipher_suite",
        "Cipher suite: 17 or 3; by default 17, then 3. Optional.",
    ),
    (
        "ipmi_disable_boot_timeout",
        "Whether the BMC is told to keep a boot device for longer than 60 seconds; true by \
         default. Optional.",
    ),
];

/// The implementation.
pub(super) struct Ipmitool;

#[async_trait]
impl Power for Ipmitool {
    fn validate(&self, svc: &Service, node: &Node) -> Result<(), Error> {
        svc.bmcs.of(node).map(drop)
    }

    async fn state(&self, svc: &Service, node: &Node) -> Result<PowerState, Error> {
        let read = svc.bmcs.of(node)?.power_state().await;
        read.map_err(failed(node, "read the power state"))
    }

    async fn reach(
        &self,
        svc: &Service,
        node: &Node,
        action: PowerAction,
        within: Duration,
    ) -> Result<PowerState, Error> {
        let done = svc.bmcs.of(node)?.set_power(action, within).await;
        done.map_err(failed(node, "switch the machine's power"))
    }
}

#[async_trait]
impl Management for Ipmitool {
    fn validate(&self, svc: &Service, node: &Node) -> Result<(), Error> {
        svc.bmcs.of(node).map(drop)
    }

    async fn boot_devices(&self, svc: &Service, node: &Node) -> Result<Vec<BootDevice>, Error> {
        let listed = svc.bmcs.of(node)?.boot_devices().await;
        listed.map_err(failed(node, "list the boot devices"))
    }

    async fn boot_device(
        &self,
        svc: &Service,
        node: &Node,
    ) -> Result<(Option<BootDevice>, Option<bool>), Error> {
        let read = svc.bmcs.of(node)?.boot_device().await;
        read.map_err(failed(node, "read the boot device"))
    }

    async fn set_boot_device(
        &self,
        svc: &Service,
        node: &Node,
        device: BootDevice,
        persistent: bool,
        mode: Option<BootMode>,
    ) -> Result<(), Error> {
        let bmc = svc.bmcs.of(node)?;
        let done = bmc.set_boot_device(device, persistent, mode).await;
        done.map_err(failed(node, format!("set the boot device {device}")))
    }

    async fn inject_nmi(&self, svc: &Service, node: &Node) -> Result<(), Error> {
        let done = svc.bmcs.of(node)?.inject_nmi().await;
        done.map_err(failed(node, "inject an NMI"))
    }
}

const METHODS: &[Method] = &[
    Method {
        name: "bmc_reset",
        http: &["POST"],
        is_async: true,
        locks: true,
        description: "Restarts the BMC. Optional argument: warm, true (the default) or false.",
    },
    Method {
        name: "send_raw",
        http: &["POST"],
        is_async: true,
        locks: true,
        description: "Sends a command to the BMC. Required argument: raw_bytes, such as \
                      \"0x00 0x01\".",
    },
];

/// The bytes of `raw_bytes`: numbers, hexadecimal with `0x`.
fn raw_bytes(parameters: &Map<String, Value>) -> Result<Vec<u8>, Error> {
    let text = parameters.get("raw_bytes").and_then(Value::as_str);
    let text = text.ok_or_else(|| {
        Error::Invalid("raw_bytes: expected a text such as \"0x00 0x01\"".to_owned())
    })?;
    let byte = |word: &str| match word.strip_prefix("0x") {
        Some(hex) => u8::from_str_radix(hex, 16),
        None => word.parse(),
    };
    let words = text.split_whitespace();
    words
        .map(|word| {
            byte(word)
                .map_err(|_| Error::Invalid(format!("raw_bytes: expected bytes, found {word:?}")))
        })
        .collect()
}

/// `warm`: a boolean, also as text.
fn warm(parameters: &Map<String, Value>) -> Result<bool, Error> {
    match parameters.get("warm") {
        None | Some(Value::Null) => Ok(true),
        Some(Value::Bool(warm)) => Ok(*warm),
        Some(Value::String(text)) if text.eq_ignore_ascii_case("true") => Ok(true),
        Some(Value::String(text)) if text.eq_ignore_ascii_case("false") => Ok(false),
        Some(_) => Err(Error::Invalid("warm: expected true or false".to_owned())),
    }
}

#[async_trait]
impl Vendor for Ipmitool {
    fn methods(&self) -> &'static [Method] {
        METHODS
    }

    fn check(&self, method: &Method, parameters: &Map<String, Value>) -> Result<(), Error> {
        match method.name {
            "send_raw" => raw_bytes(parameters).map(drop),
            _ => warm(parameters).map(drop),
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
            "send_raw" => bmc
                .raw(&raw_bytes(parameters)?)
                .await
                .map(|data| json!(data)),
            _ => bmc.reset_bmc(warm(parameters)?).await.map(|()| Value::Null),
        };
        answer.map_err(failed(node, format!("vendor method {}", method.name)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;
    use serde_json::Value;
    use serde_json::json;

    use super::raw_bytes;
    use super::warm;

    fn with(key: &str, value: Value) -> Map<String, Value> {
        Map::from_iter([(key.to_owned(), value)])
    }

    #[test]
    fn bytes_are_read_in_both_bases() {
        let read = raw_bytes(&with("raw_bytes", json!("0x06 1  0xff"))).unwrap();
        assert_eq!(read, [6, 1, 255]);
        for bad in [json!("0x100"), json!("six"), json!(6), Value::Null] {
            assert!(raw_bytes(&with("raw_bytes", bad)).is_err());
        }
        assert!(warm(&Map::new()).unwrap());
        assert!(!warm(&with("warm", json!("False"))).unwrap());
        assert!(warm(&with("warm", json!(3))).is_err());
    }
}

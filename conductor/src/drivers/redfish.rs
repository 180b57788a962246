//! Power and management by Redfish.

use std::time::Duration;

use async_trait::async_trait;
use wrought_bmc::redfish::BootMode;
use wrought_bmc::redfish::PowerAction;
use wrought_store::node::Node;
use wrought_wire::state::BootDevice;
use wrought_wire::state::PowerState;

use super::Management;
use super::Power;
use crate::error::Error;
use crate::error::Source;
use crate::service::Service;

/// Properties of `driver_info`.
pub(super) const PROPERTIES: &[(&str, &str)] = &[
    (
        "redfish_address",
        "URL of the Redfish service, scheme and authority alone. Required.",
    ),
    (
        "redfish_system_id",
        "Path of the system, such as /redfish/v1/Systems/1. Required when the service has more \
         than one system.",
    ),
    (
        "redfish_username",
        "User with administrator or operator rights. Optional.",
    ),
    ("redfish_password", "Password of the user. Optional."),
    (
        "redfish_verify_ca",
        "True to check the service's certificate by the system's CAs (the default), false not to \
         check it, or the path of a PEM file with the CAs to check it by.",
    ),
    (
        "redfish_auth_type",
        "How the client says who it is: basic, session or auto (the default: a session where the \
         service has them).",
    ),
];

/// The implementation.
pub(super) struct Redfish;

/// Wraps what a BMC said.
pub(super) fn failed(node: &Node, action: impl Into<String>) -> impl FnOnce(Source) -> Error {
    let (node, action) = (node.uuid, action.into());
    move |source| Error::Bmc {
        node,
        action,
        source,
    }
}

fn check(svc: &Service, node: &Node) -> Result<(), Error> {
    svc.bmcs.of(node).map(|_| ())
}

#[async_trait]
impl Power for Redfish {
    fn validate(&self, svc: &Service, node: &Node) -> Result<(), Error> {
        check(svc, node)
    }

    async fn state(&self, svc: &Service, node: &Node) -> Result<PowerState, Error> {
        let bmc = svc.bmcs.of(node)?;
        bmc.power_state()
            .await
            .map_err(failed(node, "read the power state"))
    }

    async fn reach(
        &self,
        svc: &Service,
        node: &Node,
        action: PowerAction,
        within: Duration,
    ) -> Result<PowerState, Error> {
        let what = match action {
            PowerAction::On | PowerAction::ForceRestart => "switch the machine on",
            PowerAction::Off => "switch the machine off",
            PowerAction::SoftOff => "ask the machine's operating system to shut down",
        };
        let bmc = svc.bmcs.of(node)?;
        bmc.set_power(action, within)
            .await
            .map_err(failed(node, what))
    }
}

#[async_trait]
impl Management for Redfish {
    fn validate(&self, svc: &Service, node: &Node) -> Result<(), Error> {
        check(svc, node)
    }

    async fn boot_devices(&self, svc: &Service, node: &Node) -> Result<Vec<BootDevice>, Error> {
        let bmc = svc.bmcs.of(node)?;
        bmc.boot_devices()
            .await
            .map_err(failed(node, "list the boot devices"))
    }

    async fn boot_device(
        &self,
        svc: &Service,
        node: &Node,
    ) -> Result<(Option<BootDevice>, Option<bool>), Error> {
        let bmc = svc.bmcs.of(node)?;
        bmc.boot_device()
            .await
            .map_err(failed(node, "read the boot device"))
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
}

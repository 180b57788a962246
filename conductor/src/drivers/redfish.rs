//! Power and management by Redfish.

use std::time::Duration;

use async_trait::async_trait;
use wrought_bmc::redfish::BootMode;
use wrought_bmc::redfish::PowerAction;
use wrought_rpc::Indicator;
use wrought_rpc::Media;
use wrought_rpc::MediaDevice;
use wrought_store::node::Node;
use wrought_wire::state::BootDevice;
use wrought_wire::state::IndicatorState;
use wrought_wire::state::MediaKind;
use wrought_wire::state::PowerState;

use super::Management;
use super::Observed;
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

    async fn observe(&self, svc: &Service, node: &Node) -> Result<Observed, Error> {
        let bmc = svc.bmcs.of(node)?;
        let read = async {
            Ok::<_, Source>(Observed {
                boot_mode: bmc.boot_mode().await?,
                secure_boot: bmc.secure_boot().await?,
                health: bmc.health().await?,
            })
        };
        read.await
            .map_err(failed(node, "read boot mode, secure boot and health"))
    }

    async fn set_boot_mode(&self, svc: &Service, node: &Node, mode: BootMode) -> Result<(), Error> {
        let bmc = svc.bmcs.of(node)?;
        let done = bmc.set_boot_mode(mode).await;
        done.map_err(failed(node, format!("set the boot mode {mode}")))
    }

    async fn set_secure_boot(&self, svc: &Service, node: &Node, on: bool) -> Result<(), Error> {
        let bmc = svc.bmcs.of(node)?;
        let done = bmc.set_secure_boot(on).await;
        done.map_err(failed(node, "set secure boot"))
    }

    async fn inject_nmi(&self, svc: &Service, node: &Node) -> Result<(), Error> {
        let bmc = svc.bmcs.of(node)?;
        bmc.inject_nmi()
            .await
            .map_err(failed(node, "inject an NMI"))
    }

    async fn indicators(
        &self,
        svc: &Service,
        node: &Node,
    ) -> Result<Vec<(Indicator, IndicatorState)>, Error> {
        let bmc = svc.bmcs.of(node)?;
        let lights = bmc.lights().await;
        let lights = lights.map_err(failed(node, "read the indicators"))?;
        let shown = lights.into_iter().map(|light| {
            let indicator = Indicator {
                component: light.component.to_owned(),
                name: light.name,
                readonly: !light.settable,
                states: light.states,
            };
            (indicator, light.state)
        });
        Ok(shown.collect())
    }

    async fn set_indicator(
        &self,
        svc: &Service,
        node: &Node,
        indicator: &Indicator,
        state: IndicatorState,
    ) -> Result<(), Error> {
        let bmc = svc.bmcs.of(node)?;
        let (component, name) = (&indicator.component, &indicator.name);
        let done = bmc.set_light(component, name, state).await;
        done.map_err(failed(
            node,
            format!("set the indicator {name}@{component}"),
        ))
    }

    async fn media(&self, svc: &Service, node: &Node) -> Result<Vec<MediaDevice>, Error> {
        let bmc = svc.bmcs.of(node)?;
        let slots = bmc.media().await;
        let slots = slots.map_err(failed(node, "read the virtual media devices"))?;
        let shown = slots.into_iter().map(|slot| MediaDevice {
            inserted: slot.inserted.unwrap_or(slot.image.is_some()),
            media_types: slot.media_types,
            image: slot.image,
        });
        Ok(shown.collect())
    }

    async fn attach_media(&self, svc: &Service, node: &Node, media: &Media) -> Result<(), Error> {
        let bmc = svc.bmcs.of(node)?;
        let done = bmc.insert_media(media.kind, media.url.expose()).await;
        done.map_err(failed(node, format!("insert a virtual {}", media.kind)))
    }

    async fn detach_media(
        &self,
        svc: &Service,
        node: &Node,
        kinds: &[MediaKind],
    ) -> Result<(), Error> {
        let bmc = svc.bmcs.of(node)?;
        for kind in kinds {
            let done = bmc.eject_media(*kind).await;
            done.map_err(failed(node, format!("eject a virtual {kind}")))?;
        }
        Ok(())
    }
}

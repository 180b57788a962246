//! What the drivers need of a BMC, as a trait, so that tests can stand in for
//! one.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use wrought_bmc::ipmi;
use wrought_bmc::redfish;
use wrought_bmc::redfish::Attribute;
use wrought_bmc::redfish::BootMode;
use wrought_bmc::redfish::Firmware;
use wrought_bmc::redfish::Light;
use wrought_bmc::redfish::MediaSlot;
use wrought_bmc::redfish::Nic;
use wrought_bmc::redfish::PowerAction;
use wrought_bmc::redfish::System;
use wrought_store::node::Node;
use wrought_wire::state::BootDevice;
use wrought_wire::state::IndicatorState;
use wrought_wire::state::MediaKind;
use wrought_wire::state::PowerState;

use crate::error::Error;
use crate::error::Source;

/// Most endpoints whose connections are kept.
const CLIENTS: usize = 4096;

/// What the protocol of a BMC has no word for.
#[derive(Debug, thiserror::Error)]
#[error("the protocol that the BMC speaks has no way to {0}")]
struct NotSpoken(&'static str);

/// One machine's BMC. Every action is an absolute target. What a protocol does
/// not have fails as such; the drivers do not ask for it.
#[async_trait]
pub trait Bmc: Send + Sync + std::fmt::Debug {
    /// Reads the power state.
    async fn power_state(&self) -> Result<PowerState, Source>;
    /// Brings a power state about and waits for it no longer than `within`.
    async fn set_power(&self, action: PowerAction, within: Duration) -> Result<PowerState, Source>;
    /// The device that is booted next, and whether for good.
    async fn boot_device(&self) -> Result<(Option<BootDevice>, Option<bool>), Source>;
    /// Devices that can be set.
    async fn boot_devices(&self) -> Result<Vec<BootDevice>, Source>;
    /// Sets the boot device, for the next boot or for good.
    async fn set_boot_device(
        &self,
        device: BootDevice,
        persistent: bool,
        mode: Option<BootMode>,
    ) -> Result<(), Source>;
    /// The mode in which the firmware boots.
    async fn boot_mode(&self) -> Result<Option<BootMode>, Source> {
        Err(NotSpoken("tell the boot mode").into())
    }
    /// Sets the mode for the starts to come.
    async fn set_boot_mode(&self, _: BootMode) -> Result<(), Source> {
        Err(NotSpoken("set the boot mode").into())
    }
    /// Whether the last start was a secure boot.
    async fn secure_boot(&self) -> Result<Option<bool>, Source> {
        Err(NotSpoken("tell of secure boot").into())
    }
    /// Switches secure boot for the starts to come.
    async fn set_secure_boot(&self, _: bool) -> Result<(), Source> {
        Err(NotSpoken("switch secure boot").into())
    }
    /// `OK`, `Warning` or `Critical`.
    async fn health(&self) -> Result<Option<String>, Source> {
        Err(NotSpoken("tell its health").into())
    }
    /// Sends a non-maskable interrupt.
    async fn inject_nmi(&self) -> Result<(), Source>;
    /// What the machine is.
    async fn system(&self) -> Result<System, Source> {
        Err(NotSpoken("tell what the machine is").into())
    }
    /// Its NICs.
    async fn nics(&self) -> Result<Vec<Nic>, Source> {
        Err(NotSpoken("list the NICs").into())
    }
    /// The lights.
    async fn lights(&self) -> Result<Vec<Light>, Source> {
        Err(NotSpoken("list the indicators").into())
    }
    /// Sets one of them.
    async fn set_light(&self, _: &str, _: &str, _: IndicatorState) -> Result<(), Source> {
        Err(NotSpoken("set an indicator").into())
    }
    /// The BIOS settings.
    async fn bios(&self) -> Result<Vec<Attribute>, Source> {
        Err(NotSpoken("list the BIOS settings").into())
    }
    /// The versions of the firmware.
    async fn firmware(&self) -> Result<Vec<Firmware>, Source> {
        Err(NotSpoken("list the firmware").into())
    }
    /// Where events are sent: the collection as the BMC tells it.
    async fn subscriptions(&self) -> Result<Value, Source> {
        Err(NotSpoken("list subscriptions").into())
    }
    /// One of them.
    async fn subscription(&self, _: &str) -> Result<Value, Source> {
        Err(NotSpoken("show a subscription").into())
    }
    /// Makes one; gives what the BMC made of it.
    async fn subscribe(&self, _: &Value) -> Result<Value, Source> {
        Err(NotSpoken("make a subscription").into())
    }
    /// Ends one.
    async fn unsubscribe(&self, _: &str) -> Result<(), Source> {
        Err(NotSpoken("end a subscription").into())
    }
    /// Devices for virtual media.
    async fn media(&self) -> Result<Vec<MediaSlot>, Source> {
        Err(NotSpoken("list devices for virtual media").into())
    }
    /// Inserts the image behind a URL into a device of that kind.
    async fn insert_media(&self, _: MediaKind, _: &str) -> Result<(), Source> {
        Err(NotSpoken("insert virtual media").into())
    }
    /// Ejects whatever is in devices of that kind.
    async fn eject_media(&self, _: MediaKind) -> Result<(), Source> {
        Err(NotSpoken("eject virtual media").into())
    }
    /// Sends an IPMI command: network function, command, data; gives the data
    /// of the answer.
    async fn raw(&self, _: &[u8]) -> Result<Vec<u8>, Source> {
        Err(NotSpoken("send IPMI commands").into())
    }
    /// Restarts the BMC itself, warm or cold.
    async fn reset_bmc(&self, _warm: bool) -> Result<(), Source> {
        Err(NotSpoken("restart itself").into())
    }
}

/// Finds the BMC of a node.
pub trait Bmcs: Send + Sync + std::fmt::Debug {
    /// The BMC that the node's `driver_info` tells of.
    fn of(&self, node: &Node) -> Result<Arc<dyn Bmc>, Error>;
}

/// BMCs on the network: those that speak Redfish, and those that speak IPMI.
#[derive(Debug)]
pub struct Lan {
    redfish: redfish::Clients,
    ipmi: ipmi::Clients,
}

impl Default for Lan {
    fn default() -> Self {
        Self {
            redfish: redfish::Clients::new(CLIENTS, redfish::Tuning::default()),
            ipmi: ipmi::Clients::new(CLIENTS, ipmi::Tuning::default()),
        }
    }
}

impl Bmcs for Lan {
    fn of(&self, node: &Node) -> Result<Arc<dyn Bmc>, Error> {
        let info = &node.driver_info;
        let speaks_ipmi = |kind: &str| {
            let chosen = node.interfaces.get(kind);
            chosen.is_some_and(|name| name == "ipmitool")
        };
        if speaks_ipmi("power") || speaks_ipmi("management") {
            let invalid = |error: ipmi::Error| Error::Invalid(crate::error::chain(&error));
            let endpoint = ipmi::Endpoint::from_driver_info(info).map_err(invalid)?;
            return Ok(Arc::new(self.ipmi.get(endpoint)));
        }
        let invalid = |error: redfish::Error| Error::Invalid(crate::error::chain(&error));
        let endpoint = redfish::Endpoint::from_driver_info(info).map_err(invalid)?;
        let client = self.redfish.get(endpoint).map_err(invalid)?;
        Ok(Arc::new(client))
    }
}

#[async_trait]
impl Bmc for redfish::Client {
    async fn power_state(&self) -> Result<PowerState, Source> {
        Ok(Self::power_state(self).await?)
    }

    async fn set_power(&self, action: PowerAction, within: Duration) -> Result<PowerState, Source> {
        Ok(self.set_power_within(action, within).await?)
    }

    async fn boot_device(&self) -> Result<(Option<BootDevice>, Option<bool>), Source> {
        let found = Self::boot_device(self).await?;
        let persistent = match found.enabled {
            Some(redfish::Enabled::Continuous) => Some(true),
            Some(redfish::Enabled::Once) => Some(false),
            Some(redfish::Enabled::Disabled) | None => None,
        };
        Ok((found.device, persistent))
    }

    async fn boot_devices(&self) -> Result<Vec<BootDevice>, Source> {
        Ok(Self::boot_devices(self).await?)
    }

    async fn set_boot_device(
        &self,
        device: BootDevice,
        persistent: bool,
        mode: Option<BootMode>,
    ) -> Result<(), Source> {
        let read = Self::set_boot_device(self, device, persistent, mode).await?;
        if read.device.is_some_and(|read| read != device) {
            tracing::warn!(wanted = device.as_str(), found = ?read.device, target = ?read.target,
                "the BMC shows another boot device than was set");
        }
        Ok(())
    }

    async fn boot_mode(&self) -> Result<Option<BootMode>, Source> {
        Ok(Self::boot_mode(self).await?)
    }

    async fn set_boot_mode(&self, mode: BootMode) -> Result<(), Source> {
        Ok(Self::set_boot_mode(self, mode).await?)
    }

    async fn secure_boot(&self) -> Result<Option<bool>, Source> {
        Ok(Self::secure_boot(self).await?)
    }

    async fn set_secure_boot(&self, on: bool) -> Result<(), Source> {
        Ok(Self::set_secure_boot(self, on).await?)
    }

    async fn health(&self) -> Result<Option<String>, Source> {
        Ok(Self::health(self).await?)
    }

    async fn inject_nmi(&self) -> Result<(), Source> {
        Ok(Self::inject_nmi(self).await?)
    }

    async fn system(&self) -> Result<System, Source> {
        Ok(Self::system(self).await?)
    }

    async fn nics(&self) -> Result<Vec<Nic>, Source> {
        Ok(Self::nics(self).await?)
    }

    async fn lights(&self) -> Result<Vec<Light>, Source> {
        Ok(Self::lights(self).await?)
    }

    async fn set_light(
        &self,
        component: &str,
        name: &str,
        state: IndicatorState,
    ) -> Result<(), Source> {
        Ok(Self::set_light(self, component, name, state).await?)
    }

    async fn bios(&self) -> Result<Vec<Attribute>, Source> {
        Ok(Self::bios(self).await?)
    }

    async fn firmware(&self) -> Result<Vec<Firmware>, Source> {
        Ok(Self::firmware(self).await?)
    }

    async fn subscriptions(&self) -> Result<Value, Source> {
        Ok(Self::subscriptions(self).await?)
    }

    async fn subscription(&self, id: &str) -> Result<Value, Source> {
        Ok(Self::subscription(self, id).await?)
    }

    async fn subscribe(&self, wanted: &Value) -> Result<Value, Source> {
        Ok(Self::subscribe(self, wanted).await?)
    }

    async fn unsubscribe(&self, id: &str) -> Result<(), Source> {
        Ok(Self::unsubscribe(self, id).await?)
    }

    async fn media(&self) -> Result<Vec<MediaSlot>, Source> {
        Ok(Self::media(self).await?)
    }

    async fn insert_media(&self, kind: MediaKind, url: &str) -> Result<(), Source> {
        let slot = Self::insert_media(self, kind, url).await?;
        // The URL holds a token, the slot does not.
        tracing::debug!(slot, "virtual media inserted");
        Ok(())
    }

    async fn eject_media(&self, kind: MediaKind) -> Result<(), Source> {
        Ok(Self::eject_media(self, kind).await?)
    }
}

#[async_trait]
impl Bmc for ipmi::Client {
    async fn power_state(&self) -> Result<PowerState, Source> {
        Ok(Self::power_state(self).await?)
    }

    async fn set_power(&self, action: PowerAction, within: Duration) -> Result<PowerState, Source> {
        Ok(Self::set_power(self, action, within).await?)
    }

    async fn boot_device(&self) -> Result<(Option<BootDevice>, Option<bool>), Source> {
        Ok(Self::boot_device(self).await?)
    }

    async fn boot_devices(&self) -> Result<Vec<BootDevice>, Source> {
        Ok(Self::boot_devices(self))
    }

    async fn set_boot_device(
        &self,
        device: BootDevice,
        persistent: bool,
        mode: Option<BootMode>,
    ) -> Result<(), Source> {
        Ok(Self::set_boot_device(self, device, persistent, mode).await?)
    }

    async fn inject_nmi(&self) -> Result<(), Source> {
        Ok(Self::inject_nmi(self).await?)
    }

    async fn raw(&self, bytes: &[u8]) -> Result<Vec<u8>, Source> {
        Ok(Self::raw(self, bytes).await?)
    }

    async fn reset_bmc(&self, warm: bool) -> Result<(), Source> {
        Ok(Self::reset(self, warm).await?)
    }
}

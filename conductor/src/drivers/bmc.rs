//! What the drivers need of a BMC, as a trait, so that tests can stand in for
//! one.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use wrought_bmc::redfish;
use wrought_bmc::redfish::BootMode;
use wrought_bmc::redfish::PowerAction;
use wrought_store::node::Node;
use wrought_wire::state::BootDevice;
use wrought_wire::state::PowerState;

use crate::error::Error;
use crate::error::Source;

/// Most endpoints whose connections are kept.
const CLIENTS: usize = 4096;

/// One machine's BMC. Every action is an absolute target.
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
    async fn boot_mode(&self) -> Result<Option<BootMode>, Source>;
    /// Inserts the disc image behind a URL.
    async fn insert_media(&self, url: &str) -> Result<(), Source>;
    /// Ejects whatever is inserted.
    async fn eject_media(&self) -> Result<(), Source>;
}

/// Finds the BMC of a node.
pub trait Bmcs: Send + Sync + std::fmt::Debug {
    /// The BMC that the node's `driver_info` tells of.
    fn of(&self, node: &Node) -> Result<Arc<dyn Bmc>, Error>;
}

/// BMCs that speak Redfish.
#[derive(Debug)]
pub struct Redfish {
    clients: redfish::Clients,
}

impl Default for Redfish {
    fn default() -> Self {
        Self {
            clients: redfish::Clients::new(CLIENTS, redfish::Tuning::default()),
        }
    }
}

impl Redfish {
    /// With other patience than the default.
    pub fn with_tuning(tuning: redfish::Tuning) -> Self {
        Self {
            clients: redfish::Clients::new(CLIENTS, tuning),
        }
    }
}

impl Bmcs for Redfish {
    fn of(&self, node: &Node) -> Result<Arc<dyn Bmc>, Error> {
        let invalid = |error: redfish::Error| Error::Invalid(crate::error::chain(&error));
        let endpoint = redfish::Endpoint::from_driver_info(&node.driver_info).map_err(invalid)?;
        let client = self.clients.get(endpoint).map_err(invalid)?;
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

    async fn insert_media(&self, url: &str) -> Result<(), Source> {
        let slot = Self::insert_media(self, url).await?;
        // The URL holds a token, the slot does not.
        tracing::debug!(slot, "virtual media inserted");
        Ok(())
    }

    async fn eject_media(&self) -> Result<(), Source> {
        Ok(Self::eject_media(self).await?)
    }
}

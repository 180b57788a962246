//! The boot override and the boot mode of a system.

use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use wrought_wire::state::BootDevice;
use wrought_wire::state::BootMode;

use super::Client;
use super::Error;
use super::Result;
use super::json;

/// A boot mode in Redfish's words.
const fn mode_word(mode: BootMode) -> &'static str {
    match mode {
        BootMode::Uefi => "UEFI",
        BootMode::Bios => "Legacy",
    }
}

fn mode_of(system: &Value) -> Option<BootMode> {
    match json::text(system, "/Boot/BootSourceOverrideMode")? {
        "UEFI" => Some(BootMode::Uefi),
        "Legacy" => Some(BootMode::Bios),
        _ => None,
    }
}

/// For how long a boot override holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enabled {
    /// Not at all.
    Disabled,
    /// For the next boot.
    Once,
    /// For every boot.
    Continuous,
}

/// A boot override as the service tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootOverride {
    /// The device, when it is one that nodes have.
    pub device: Option<BootDevice>,
    /// The device in the service's words.
    pub target: Option<String>,
    /// For how long it holds. Some services tell `Continuous` after `Once`.
    pub enabled: Option<Enabled>,
    /// The mode, when the service tells it.
    pub mode: Option<BootMode>,
}

impl BootOverride {
    fn of(system: &Value) -> Self {
        let target = json::text(system, "/Boot/BootSourceOverrideTarget");
        let enabled = match json::text(system, "/Boot/BootSourceOverrideEnabled") {
            Some("Once") => Some(Enabled::Once),
            Some("Continuous") => Some(Enabled::Continuous),
            Some("Disabled") => Some(Enabled::Disabled),
            _ => None,
        };
        Self {
            device: target.and_then(device),
            target: target.map(str::to_owned),
            enabled,
            mode: mode_of(system),
        }
    }
}

/// `BootSourceOverrideTarget` values for a device, best first.
const fn targets(device: BootDevice) -> &'static [&'static str] {
    match device {
        BootDevice::Pxe => &["Pxe"],
        BootDevice::Disk => &["Hdd"],
        BootDevice::Cdrom => &["Cd", "UsbCd"],
        BootDevice::Bios => &["BiosSetup"],
        BootDevice::Floppy => &["Floppy"],
        BootDevice::UefiHttp => &["UefiHttp"],
        BootDevice::Safe | BootDevice::Wanboot | BootDevice::Iscsiboot => &[],
    }
}

fn device(target: &str) -> Option<BootDevice> {
    BootDevice::ALL
        .iter()
        .copied()
        .find(|device| targets(*device).contains(&target))
}

impl Client {
    /// Boot devices that the system's override can name.
    pub async fn boot_devices(&self) -> Result<Vec<BootDevice>> {
        let (_, system) = self.read_system().await?;
        let offered = json::texts(
            &system.body,
            "/Boot/BootSourceOverrideTarget@Redfish.AllowableValues",
        );
        let usable = |device: &BootDevice| match &offered {
            Some(offered) => targets(*device)
                .iter()
                .any(|t| offered.iter().any(|offer| offer == t)),
            None => !targets(*device).is_empty(),
        };
        Ok(BootDevice::ALL.iter().copied().filter(usable).collect())
    }

    /// Reads the boot override.
    pub async fn boot_device(&self) -> Result<BootOverride> {
        let (_, system) = self.read_system().await?;
        Ok(BootOverride::of(&system.body))
    }

    /// Reads the boot mode; none when the service does not tell it.
    pub async fn boot_mode(&self) -> Result<Option<BootMode>> {
        let (_, system) = self.read_system().await?;
        Ok(mode_of(&system.body))
    }

    /// Sets the boot override for the next boot, or for every boot, and reads
    /// it back. The mode is sent only where the service lets it be set. What
    /// is read back may differ from what was asked for; callers report it.
    pub async fn set_boot_device(
        &self,
        device: BootDevice,
        persistent: bool,
        mode: Option<BootMode>,
    ) -> Result<BootOverride> {
        let (path, system) = self.read_system().await?;
        let offered = json::texts(
            &system.body,
            "/Boot/BootSourceOverrideTarget@Redfish.AllowableValues",
        );
        let wanted = targets(device);
        let target = match &offered {
            None => wanted.first(),
            Some(offered) => wanted
                .iter()
                .find(|t| offered.iter().any(|offer| offer == *t)),
        };
        let Some(target) = target else {
            return Err(Error::Unsupported {
                path,
                wanted: format!("boot device {device}"),
                offered: offered.unwrap_or_default().join(", "),
            });
        };
        let enabled = if persistent { "Continuous" } else { "Once" };
        let mut boot = Map::new();
        boot.insert("BootSourceOverrideTarget".to_owned(), json!(target));
        boot.insert("BootSourceOverrideEnabled".to_owned(), json!(enabled));
        let mode = mode.filter(|mode| mode_is_settable(&system.body, *mode));
        if let Some(mode) = mode {
            boot.insert("BootSourceOverrideMode".to_owned(), json!(mode_word(mode)));
        }
        let etag = system.etag.as_deref();
        let first = self.patch(&path, &json!({"Boot": boot}), etag).await;
        match first {
            // A mode that cannot be set after all must not stand in the way.
            Err(error) if mode.is_some() && error.is_refusal() => {
                tracing::debug!(path, %error, "boot mode refused; boot device set without it");
                boot.remove("BootSourceOverrideMode");
                self.patch(&path, &json!({"Boot": boot}), None).await?;
            }
            first => {
                first?;
            }
        }
        let read = self.boot_device().await?;
        tracing::info!(address = self.address(), path, target, enabled, read = ?read, "boot device");
        Ok(read)
    }

    /// Sets the mode in which the system boots from its next start on.
    pub async fn set_boot_mode(&self, mode: BootMode) -> Result<()> {
        let (path, system) = self.read_system().await?;
        if mode_of(&system.body) == Some(mode) {
            return Ok(());
        }
        if !mode_is_settable(&system.body, mode) {
            let offered = json::texts(
                &system.body,
                "/Boot/BootSourceOverrideMode@Redfish.AllowableValues",
            );
            return Err(Error::Unsupported {
                path,
                wanted: format!("boot mode {mode}"),
                offered: offered.unwrap_or_default().join(", "),
            });
        }
        let mut boot = Map::new();
        boot.insert("BootSourceOverrideMode".to_owned(), json!(mode_word(mode)));
        let etag = system.etag.as_deref();
        let first = self.patch(&path, &json!({"Boot": boot}), etag).await;
        match first {
            // Services exist that take the mode only beside the override.
            Err(error) if error.is_refusal() => {
                for name in ["BootSourceOverrideTarget", "BootSourceOverrideEnabled"] {
                    let now = system.body.pointer(&format!("/Boot/{name}"));
                    boot.extend(now.map(|now| (name.to_owned(), now.clone())));
                }
                let again = self.patch(&path, &json!({"Boot": boot}), None).await;
                again.map(drop).map_err(|_| error)
            }
            first => first.map(drop),
        }
    }

    /// Switches the boot override off.
    pub async fn clear_boot_device(&self) -> Result<()> {
        let (path, system) = self.read_system().await?;
        if BootOverride::of(&system.body).enabled == Some(Enabled::Disabled) {
            return Ok(());
        }
        let body = json!({"Boot": {"BootSourceOverrideEnabled": "Disabled"}});
        self.patch(&path, &body, system.etag.as_deref())
            .await
            .map(drop)
    }
}

/// Whether the service shows the property and does not rule the value out.
fn mode_is_settable(system: &Value, mode: BootMode) -> bool {
    let shown = system.pointer("/Boot/BootSourceOverrideMode").is_some();
    let offered = json::texts(
        system,
        "/Boot/BootSourceOverrideMode@Redfish.AllowableValues",
    );
    shown && offered.is_none_or(|offered| offered.iter().any(|offer| offer == mode_word(mode)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wrought_wire::state::BootDevice;
    use wrought_wire::state::BootMode;

    use super::BootOverride;
    use super::Enabled;
    use super::mode_is_settable;

    #[test]
    fn reads_overrides() {
        let system = json!({"Boot": {"BootSourceOverrideTarget": "UsbCd",
            "BootSourceOverrideEnabled": "Once", "BootSourceOverrideMode": "Legacy"}});
        let read = BootOverride::of(&system);
        assert_eq!(read.device, Some(BootDevice::Cdrom));
        assert_eq!(
            (read.enabled, read.mode),
            (Some(Enabled::Once), Some(BootMode::Bios))
        );
        assert_eq!(BootOverride::of(&json!({})).device, None);
    }

    #[test]
    fn mode_only_where_it_can_be_set() {
        let listed = json!({"Boot": {"BootSourceOverrideMode": "UEFI",
            "BootSourceOverrideMode@Redfish.AllowableValues": ["UEFI"]}});
        assert!(mode_is_settable(&listed, BootMode::Uefi));
        assert!(!mode_is_settable(&listed, BootMode::Bios));
        assert!(!mode_is_settable(&json!({"Boot": {}}), BootMode::Uefi));
    }
}

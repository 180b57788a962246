//! Boot options (§28.12–§28.14).

use wrought_wire::state::BootDevice;

use super::Client;
use super::Error;
use super::Result;
use super::packet::Command;
use super::session::Session;
use crate::redfish::BootMode;

const SET: Command = Command {
    name: "Set System Boot Options",
    netfn: 0x00,
    code: 0x08,
};
const GET: Command = Command {
    name: "Get System Boot Options",
    netfn: 0x00,
    code: 0x09,
};

/// Parameter: when the BMC clears the flags' valid bit.
const VALID_BIT_CLEARING: u8 = 3;
/// Parameter: who has acted on the boot options.
const ACKNOWLEDGE: u8 = 4;
/// Parameter: the boot flags.
const FLAGS: u8 = 5;

/// Do not clear it when no power command comes within 60 seconds.
const KEEP_BEYOND_60_S: u8 = 0x08;

/// Devices that can be set.
pub(super) const DEVICES: [BootDevice; 5] = [
    BootDevice::Pxe,
    BootDevice::Disk,
    BootDevice::Cdrom,
    BootDevice::Bios,
    BootDevice::Safe,
];

/// Bits 5:2 of byte 2 of the flags.
const fn selector(device: BootDevice) -> Option<u8> {
    Some(match device {
        BootDevice::Pxe => 0b0001,
        BootDevice::Disk => 0b0010,
        BootDevice::Safe => 0b0011,
        BootDevice::Cdrom => 0b0101,
        BootDevice::Bios => 0b0110,
        _ => return None,
    })
}

fn device(selector: u8) -> Option<BootDevice> {
    DEVICES
        .into_iter()
        .find(|device| self::selector(*device) == Some(selector))
}

/// The five bytes of the flags.
const fn flags(selector: u8, persistent: bool, mode: Option<BootMode>) -> [u8; 5] {
    let mut first = 0x80;
    if persistent {
        first |= 0x40;
    }
    if matches!(mode, Some(BootMode::Uefi)) {
        first |= 0x20;
    }
    [first, selector << 2, 0, 0, 0]
}

impl Client {
    /// Devices that can be set.
    pub fn boot_devices(&self) -> Vec<BootDevice> {
        DEVICES.to_vec()
    }

    /// The device that is booted next, and whether for good; none where the
    /// BMC has no order.
    ///
    /// # Errors
    /// As [`Client::power_state`].
    pub async fn boot_device(&self) -> Result<(Option<BootDevice>, Option<bool>)> {
        let data = self.session(async |session: &mut Session| {
            // Version, parameter, flags.
            session.command(GET, &[FLAGS, 0, 0], 4).await
        });
        let data = data.await?;
        let found = device((data[3] >> 2) & 0x0F);
        Ok((found, found.map(|_| data[2] & 0x40 != 0)))
    }

    /// Sets the device for the next boot or for good, and the mode with it.
    ///
    /// # Errors
    /// As [`Client::power_state`], and [`Error::Unsupported`] for a device that
    /// IPMI has no number for.
    pub async fn set_boot_device(
        &self,
        device: BootDevice,
        persistent: bool,
        mode: Option<BootMode>,
    ) -> Result<()> {
        let endpoint = &self.inner.endpoint;
        let selector = selector(device).ok_or_else(|| Error::Unsupported {
            address: endpoint.shown(),
            wanted: format!("boot from {device}"),
            offered: "boot from pxe, disk, cdrom, bios and safe",
        })?;
        let keep = endpoint.disable_boot_timeout;
        self.session(async |session: &mut Session| {
            if keep {
                optional(session, &[VALID_BIT_CLEARING, KEEP_BEYOND_60_S]).await?;
            }
            optional(session, &[ACKNOWLEDGE, 0x01, 0x01]).await?;
            let mut data = vec![FLAGS];
            data.extend(flags(selector, persistent, mode));
            session.command(SET, &data, 0).await.map(drop)
        })
        .await
    }
}

/// An option that many BMCs do not have.
async fn optional(session: &mut Session, data: &[u8]) -> Result<()> {
    match session.command(SET, data, 0).await {
        Err(Error::Refused { code, meaning, .. }) => {
            tracing::debug!(
                address = session.address(),
                parameter = data.first(),
                code,
                meaning,
                "boot option refused"
            );
            Ok(())
        }
        other => other.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use wrought_wire::state::BootDevice;

    use super::DEVICES;
    use super::device;
    use super::flags;
    use super::selector;
    use crate::redfish::BootMode;

    #[test]
    fn flags_are_those_of_table_28_14() {
        let pxe = selector(BootDevice::Pxe).unwrap();
        assert_eq!(flags(pxe, false, None), [0x80, 0x04, 0, 0, 0]);
        assert_eq!(
            flags(pxe, true, Some(BootMode::Uefi)),
            [0xE0, 0x04, 0, 0, 0]
        );
        let disk = selector(BootDevice::Disk).unwrap();
        assert_eq!(
            flags(disk, true, Some(BootMode::Bios)),
            [0xC0, 0x08, 0, 0, 0]
        );
    }

    #[test]
    fn each_device_has_its_number() {
        for known in DEVICES {
            assert_eq!(device(selector(known).unwrap()), Some(known));
        }
        assert_eq!(device(0), None);
    }
}

//! Seeing that a machine's firmware finds nothing to boot.

use std::time::Duration;

use anyhow::Result;

use crate::bmc::Bmc;
use crate::bmc::machine::Lasting;
use crate::bmc::machine::Override;
use crate::qemu::BootFrom;
use crate::qemu::Firmware;
use crate::serial::SerialLog;

/// How long the firmware may take to give up.
const LIMIT: Duration = Duration::from_secs(120);

/// Boots the machine from its disk and waits until the firmware says that
/// there is nothing on it. The machine is off afterwards.
///
/// It is started a second time when it says nothing: SeaBIOS was seen to stand
/// still before its boot menu on a host with too much to do. A machine that boots
/// something never says it, however often it is started.
pub(super) async fn boots_nothing(bmc: &Bmc, firmware: Firmware) -> Result<()> {
    match gives_up(bmc, firmware).await {
        Ok(()) => Ok(()),
        Err(error) => {
            tracing::warn!("{error:#}; once more");
            gives_up(bmc, firmware).await
        }
    }
}

async fn gives_up(bmc: &Bmc, firmware: Firmware) -> Result<()> {
    let machine = bmc.machine();
    machine.power_off().await;
    let spec = machine.spec();
    // OVMF speaks on the serial console, SeaBIOS on its debug port.
    let (log, signs): (_, &[&str]) = match firmware {
        Firmware::Uefi => (
            &spec.serial_log,
            &[
                "No bootable option or device was found",
                "UEFI Interactive Shell",
            ],
        ),
        Firmware::Bios => (&spec.firmware_log, &["No bootable device"]),
    };
    let said = SerialLog::new(log).from_now();
    let disk = Override {
        target: BootFrom::Disk,
        lasting: Lasting::Once,
    };
    machine.set_boot(disk, Some(firmware)).await?;
    machine.power_on().await?;
    let seen = said
        .wait(
            "the firmware's word that nothing is bootable",
            LIMIT,
            |text| signs.iter().any(|sign| text.contains(sign)).then_some(()),
        )
        .await;
    machine.power_off().await;
    seen
}

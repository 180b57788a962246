//! The harness's own machines, without any of Wrought's parts.

use std::time::Duration;

use anyhow::Result;
use anyhow::ensure;
use reqwest::Method;
use serde_json::Value;
use serde_json::json;

use super::Context;
use super::nothing::boots_nothing;
use crate::bmc::machine::Happening;
use crate::qemu::BootFrom;
use crate::qemu::Firmware;
use crate::world;
use crate::world::MachineOptions;

/// What the machine is told to do: say that it is there, and power off.
/// BIOS iPXE writes to the screen only, so the request itself is the sign.
const SCRIPT: &str = "#!ipxe\necho wrought network boot\nimgfetch ${cwduri}booted ||\nreboot\n";

/// With OVMF.
pub(super) async fn uefi(context: &mut Context) -> Result<()> {
    netboot(context, Firmware::Uefi).await
}

/// With SeaBIOS.
pub(super) async fn bios(context: &mut Context) -> Result<()> {
    netboot(context, Firmware::Bios).await
}

/// The BMC is told to boot from the network once; the machine does, fetches
/// the script and resets itself; then its disk is next, which is empty.
async fn netboot(context: &mut Context, firmware: Firmware) -> Result<()> {
    let account = context.account.clone();
    let options = world::Options {
        script_only: Some(SCRIPT.to_owned()),
        ..world::Options::default()
    };
    let world = context.start_with(options).await?;
    world.images.offer_text("booted", "yes");
    let bmc = world
        .add_machine("one", MachineOptions::new(firmware))
        .await?;
    let redfish = Redfish::new(&bmc.driver_info());

    ensure!(
        redfish.system().await?["PowerState"] == "Off",
        "a new machine is not off"
    );
    let boot = json!({"Boot": {
        "BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once",
    }});
    redfish
        .send(Method::PATCH, "/redfish/v1/Systems/1", &boot)
        .await?;
    redfish.reset("On").await?;
    ensure!(
        redfish.system().await?["PowerState"] == "On",
        "the machine is not on"
    );
    account.say("switched on; waiting for its network boot");

    let machine = bmc.machine();
    let limit = tokio::time::Instant::now() + Duration::from_secs(120);
    loop {
        let resets = machine.happenings().await;
        if let Some((_, last)) = resets
            .iter()
            .find(|(_, h)| matches!(h, Happening::GuestReset(_)))
        {
            account.say(&format!("the guest has reset itself: {last:?}"));
            ensure!(
                *last == Happening::GuestReset(BootFrom::Default),
                "an override for one boot was still there after it: {last:?}"
            );
            break;
        }
        ensure!(
            tokio::time::Instant::now() < limit,
            "the machine has not come through its network boot; requests: {:?}",
            world.images.requests()
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let requests = world.images.requests();
    ensure!(
        requests
            .iter()
            .any(|request| request.contains("/boot.ipxe")),
        "the iPXE script was not asked for: {requests:?}"
    );
    redfish.reset("ForceOff").await?;
    ensure!(
        redfish.system().await?["PowerState"] == "Off",
        "the machine is not off"
    );
    boots_nothing(&bmc, firmware).await?;
    account.say("the empty disk was booted: the firmware finds nothing");
    Ok(())
}

/// A few calls of Redfish.
struct Redfish {
    http: reqwest::Client,
    base: String,
    account: (String, String),
}

impl Redfish {
    fn new(driver_info: &Value) -> Self {
        let text = |key: &str| driver_info[key].as_str().unwrap_or_default().to_owned();
        Self {
            http: reqwest::Client::new(),
            base: text("redfish_address"),
            account: (text("redfish_username"), text("redfish_password")),
        }
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> Result<()> {
        self.http
            .request(method, format!("{}{path}", self.base))
            .basic_auth(&self.account.0, Some(&self.account.1))
            .json(body)
            .send()
            .await?
            .error_for_status()?;
        Ok(())
    }

    async fn reset(&self, kind: &str) -> Result<()> {
        let path = "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset";
        self.send(Method::POST, path, &json!({"ResetType": kind}))
            .await
    }

    async fn system(&self) -> Result<Value> {
        Ok(self
            .http
            .get(format!("{}/redfish/v1/Systems/1", self.base))
            .basic_auth(&self.account.0, Some(&self.account.1))
            .send()
            .await?
            .error_for_status()?
            .json()
            .await?)
    }
}

//! The `openstack baremetal` command as it comes from PyPI.

use std::time::Duration;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::ensure;
use serde_json::Value;

use super::Context;
use crate::child;
use crate::deploy::Guest;
use crate::deploy::OPERATION;
use crate::disk;
use crate::qemu::Firmware;
use crate::server;
use crate::world::MachineOptions;
use crate::world::World;

/// A node's whole life by that command alone.
pub(super) async fn client(context: &mut Context) -> Result<()> {
    let account = context.account.clone();
    let world = context.start().await?;
    let image = world.offer_image("tiny")?;
    let bmc = world
        .add_machine("cli", MachineOptions::new(Firmware::Uefi))
        .await?;
    let spec = bmc.machine().spec().clone();
    let openstack = OpenStack::new(world)?;
    let wait = OPERATION.as_secs().to_string();

    let mut create = words("node create --driver redfish --name cli --boot-interface ipxe");
    create.extend(["--property".into(), "capabilities=boot_mode:uefi".into()]);
    if let Value::Object(info) = bmc.driver_info() {
        for (key, value) in info {
            let value = value.as_str().unwrap_or_default().to_owned();
            create.extend(["--driver-info".into(), format!("{key}={value}")]);
        }
    }
    let node = openstack.json(&create).await?;
    let uuid = node["uuid"]
        .as_str()
        .context("the created node has no uuid")?
        .to_owned();
    openstack
        .run(&words(&format!("port create --node {uuid} {}", spec.mac)))
        .await?;
    account.say(&format!("created {uuid}"));
    openstack
        .run(&words(&format!("node manage --wait {wait} cli")))
        .await?;
    openstack
        .run(&words(&format!("node provide --wait {wait} cli")))
        .await?;
    account.say("available");

    let mut set = words("node set cli");
    if let Value::Object(info) = image {
        for (key, value) in info {
            let value = value.as_str().unwrap_or_default().to_owned();
            set.extend(["--instance-info".into(), format!("{key}={value}")]);
        }
    }
    openstack.run(&set).await?;
    let guest = Guest::random();
    let console = world.serial(&bmc).from_now();
    let mut deploy = words(&format!("node deploy --wait {wait} cli --config-drive"));
    deploy.push(guest.configdrive().to_string());
    openstack.run(&deploy).await?;
    let list = openstack.json(&words("node list")).await?;
    let row = &list[0];
    account.say(&format!("listed: {row}"));
    ensure!(
        row["provision_state"] == "active" && row["name"] == "cli",
        "not active: {list}"
    );
    guest.wait_for(&console).await?;
    account.say("the guest is up");

    openstack
        .run(&words(&format!("node undeploy --wait {wait} cli")))
        .await?;
    let shown = openstack.json(&words("node show cli")).await?;
    ensure!(
        shown["provision_state"] == "available",
        "not available: {shown}"
    );
    ensure!(
        disk::ends_are_zero(&spec.disks[0].path)?,
        "the disk's metadata are still there"
    );
    openstack.run(&words("node delete cli")).await.map(drop)
}

/// The command with its account.
struct OpenStack {
    program: std::path::PathBuf,
    environment: Vec<(&'static str, String)>,
}

impl OpenStack {
    fn new(world: &World) -> Result<Self> {
        let server = world.server()?;
        let environment = vec![
            ("OS_AUTH_TYPE", "http_basic".to_owned()),
            ("OS_ENDPOINT", format!("https://{}", server::api_address())),
            ("OS_USERNAME", server::USER.to_owned()),
            ("OS_PASSWORD", server.password().to_owned()),
            ("OS_CACERT", server.ca().display().to_string()),
        ];
        Ok(Self {
            program: world.paths.tool("openstack")?,
            environment,
        })
    }

    async fn run(&self, words: &[String]) -> Result<String> {
        let mut command = child::command(&self.program);
        command
            .arg("baremetal")
            .args(words)
            .envs(self.environment.iter().cloned());
        let running = tokio::time::timeout(OPERATION + Duration::from_secs(60), command.output());
        let output = running
            .await
            .context("the client did not come to an end")??;
        let what = words.iter().take(3).cloned().collect::<Vec<_>>().join(" ");
        ensure!(
            output.status.success(),
            "`openstack baremetal {what} …` failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    async fn json(&self, words: &[String]) -> Result<Value> {
        let mut words = words.to_vec();
        words.extend(["-f".into(), "json".into()]);
        let text = self.run(&words).await?;
        serde_json::from_str(&text).with_context(|| format!("the client printed {text:?}"))
    }
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

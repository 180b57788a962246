//! Software RAID with real machines.

use std::time::Duration;

use anyhow::Result;
use anyhow::ensure;
use reqwest::Method;
use serde_json::Value;
use serde_json::json;

use super::Context;
use crate::deploy::Guest;
use crate::deploy::Node;
use crate::qemu::Firmware;
use crate::serial::SerialLog;
use crate::world;
use crate::world::MachineOptions;

/// Two disks, large enough for the array that the image goes to.
const DISKS: &[u64] = &[3 << 30, 3 << 30];
/// Time for the operating system to say what its root lies on.
const OS_BOOT: Duration = Duration::from_secs(600);

/// A RAID-1 is made in cleaning, an image is deployed on it, and the machine
/// starts from it with both disks, and with either one alone.
pub(super) async fn boot(context: &mut Context) -> Result<()> {
    let account = context.account.clone();
    let options = world::Options {
        ramdisk: "ramdisk-tools",
        ..world::Options::default()
    };
    let world = context.start_with(options).await?;
    let image = world.offer_image("raid")?;
    let options = MachineOptions {
        memory_mib: 768,
        disks: DISKS,
        ..MachineOptions::new(Firmware::Uefi)
    };
    let bmc = world.add_machine("raid", options).await?;
    let node = Node::enrol(world, &bmc, "ipxe", &account).await?;
    node.api
        .set(&node.uuid, &[("/raid_interface", json!("agent"))])
        .await?;
    node.go("manage", json!({}), "manageable").await?;
    let target = json!({"logical_disks": [{
        "controller": "software", "raid_level": "1", "size_gb": "MAX",
        "is_root_volume": true, "volume_name": "root",
    }]});
    let path = format!("/v1/nodes/{}/states/raid", node.uuid);
    node.api.call(Method::PUT, &path, Some(&target)).await?;
    let steps = json!({"clean_steps": [
        {"interface": "raid", "step": "delete_configuration"},
        {"interface": "raid", "step": "create_configuration"},
    ]});
    node.go("clean", steps, "manageable").await?;
    let made = node.api.node(&node.uuid).await?["raid_config"].clone();
    ensure!(
        made["logical_disks"] == target["logical_disks"] && made["last_updated"].is_string(),
        "the node's raid_config is {made}"
    );
    account.say("the array is made; now automated cleaning, which must leave it");
    node.go("provide", json!({}), "available").await?;

    node.set_image(&image).await?;
    let guest = Guest::random();
    let console = node.serial.from_now();
    node.deploy(&guest).await?;
    stands_on(&console, "[2/2] [UU]").await?;
    account.say("started from both disks");
    for (gone, left) in [(0, "[2/1] [_U]"), (1, "[2/1] [U_]")] {
        power(&node, "power off").await?;
        bmc.machine().unplug(&[gone]).await;
        let console = node.serial.from_now();
        power(&node, "power on").await?;
        stands_on(&console, left).await?;
        guest.wait_for(&console).await?;
        account.say(&format!("started without disk {gone}"));
    }
    Ok(())
}

/// Waits until the system has said that its root lies on a mirror in this
/// state.
async fn stands_on(console: &SerialLog, state: &str) -> Result<()> {
    let what = format!("a root on a mirror that is {state}");
    console
        .wait(&what, OS_BOOT, |text| {
            let mirror = text
                .lines()
                .filter(|line| line.contains("wrought-md: "))
                .any(|line| line.contains(state));
            let root = text
                .lines()
                .any(|line| line.contains("wrought-root: /dev/md") && line.contains("on an array"));
            (mirror && root).then_some(())
        })
        .await
}

/// Asks for a power state and waits for it.
async fn power(node: &Node, target: &str) -> Result<()> {
    let path = format!("/v1/nodes/{}/states/power", node.uuid);
    let wanted = json!({ "target": target });
    node.api.call(Method::PUT, &path, Some(&wanted)).await?;
    let on = target == "power on";
    let limit = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        let shown: Value = node.api.node(&node.uuid).await?;
        let reached = shown["power_state"] == target && shown["target_power_state"].is_null();
        if reached && node.bmc.machine().is_on().await == on {
            return Ok(());
        }
        ensure!(
            tokio::time::Instant::now() < limit,
            "asked for {target:?}, the node is {}",
            shown["power_state"]
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

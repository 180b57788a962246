//! Inspection of machines by the agent in them.

use std::time::Duration;
use std::time::Instant;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::ensure;
use reqwest::Method;
use serde_json::Value;
use serde_json::json;

use super::Context;
use crate::api::Api;
use crate::deploy::Node;
use crate::deploy::OPERATION;
use crate::qemu::Firmware;
use crate::world;
use crate::world::MachineOptions;

/// Inspection rules came with it.
const VERSION: &str = "1.96";
const TRAIT: &str = "CUSTOM_QEMU";
const CONFIG: &str = "[conductor.inspection]
hooks = [\"ramdisk-error\", \"validate-interfaces\", \"ports\", \"architecture\", \"cpus\", \"memory\",
    \"boot-mode\", \"cpu-capabilities\", \"pci-devices\", \"root-device\"]
keep_ports = \"added\"
pci_device_alias = [{vendor_id = \"1af4\", product_id = \"1000\", name = \"virtio_nic\"},
    {vendor_id = \"1af4\", product_id = \"1041\", name = \"virtio_nic\"}]
extra_kernel_params = \"ipa-inspection-collectors=default,logs,pci-devices,usb-devices,numa-topology,dmi-decode,lldp ipa-lldp-timeout=2 ipa-collect-lldp=1\"
discovery_driver = \"redfish\"
discovery_max = 1
discovery_fields = {resource_class = \"found\"}
";

/// A machine that is enrolled is inspected; another one that nobody knows tells
/// what it is, and is enrolled.
pub(super) async fn inspects_and_discovers(context: &mut Context) -> Result<()> {
    let account = context.account.clone();
    let options = world::Options {
        server_config: CONFIG.to_owned(),
        ..world::Options::default()
    };
    let world = context.start_with(options).await?;
    let api = world.api()?.at_version(VERSION);
    let rule = json!({
        "description": "QEMU's machines have a trait",
        "conditions": [{"op": "eq", "args":
            {"values": ["{inventory[system_vendor][manufacturer]}", "QEMU"]}}],
        "actions": [{"op": "add-trait", "args": {"name": TRAIT}}],
    });
    api.call(Method::POST, "/v1/inspection_rules", Some(&rule))
        .await?;

    let options = MachineOptions::new(Firmware::Uefi);
    let bmc = world.add_machine("known", options).await?;
    let node = Node::enrol(world, &bmc, "ipxe", &account).await?;
    let fields = [("/inspect_interface", json!("agent"))];
    api.set(&node.uuid, &fields).await?;
    node.go("manage", json!({}), "manageable").await?;
    // One that is no NIC of the machine: it goes.
    let stale = json!({"node_uuid": node.uuid, "address": "52:54:00:77:09:09",
        "pxe_enabled": false});
    api.call(Method::POST, "/v1/ports", Some(&stale)).await?;
    node.go("inspect", json!({}), "manageable").await?;
    let shown = api.node(&node.uuid).await?;
    account.say(&format!("inspected: {}", shown["properties"]));
    let spec = bmc.machine().spec();
    check(&api, &shown, &spec.mac, u64::from(spec.memory_mib)).await?;
    let data = api
        .get(&format!("/v1/nodes/{}/inventory", node.uuid))
        .await?;
    check_data(&data["inventory"], &data["plugin_data"])?;

    // One that nobody knows.
    let stranger = world.add_machine("stranger", options).await?;
    // Its disk is empty: the network is next.
    stranger.machine().power_on().await?;
    account.say("an unknown machine boots from the network");
    let mac = stranger.machine().spec().mac.clone();
    let found = enrolled(&api, &mac).await?;
    account.say(&format!(
        "enrolled: {} {}",
        found["uuid"], found["properties"]
    ));
    ensure!(found["provision_state"] == "enroll", "{found}");
    ensure!(found["driver"] == "redfish", "{found}");
    ensure!(found["resource_class"] == "found", "{found}");
    check(
        &api,
        &found,
        &mac,
        u64::from(stranger.machine().spec().memory_mib),
    )
    .await?;
    Ok(())
}

/// Ports, properties and the trait are those of the machine.
async fn check(api: &Api, node: &Value, mac: &str, mib: u64) -> Result<()> {
    let properties = &node["properties"];
    let arch = std::env::consts::ARCH;
    ensure!(properties["cpu_arch"] == arch, "{properties}");
    ensure!(properties["cpus"] == 2, "{properties}");
    ensure!(properties["memory_mb"] == mib, "{properties}");
    ensure!(properties["local_gb"] == 7, "{properties}");
    let capabilities = properties["capabilities"].as_str().unwrap_or_default();
    ensure!(capabilities.contains("boot_mode:uefi"), "{properties}");
    ensure!(capabilities.contains("virtio_nic:1"), "{properties}");
    ensure!(node["traits"] == json!([TRAIT]), "{}", node["traits"]);
    ensure!(node["last_error"].is_null(), "{}", node["last_error"]);
    let uuid = node["uuid"].as_str().context("no uuid")?;
    let ports = api
        .get(&format!("/v1/ports?node={uuid}&fields=address,pxe_enabled"))
        .await?;
    let ports = ports["ports"].as_array().context("no ports")?;
    ensure!(ports.len() == 1, "{ports:?}");
    ensure!(
        ports[0]["address"] == mac && ports[0]["pxe_enabled"] == true,
        "{ports:?}"
    );
    Ok(())
}

/// What each collector sends is there.
fn check_data(inventory: &Value, data: &Value) -> Result<()> {
    let nic = &inventory["interfaces"][0];
    ensure!(nic["ipv4_address"].is_string(), "{nic}");
    ensure!(
        nic["driver"] == "virtio_net" && nic["has_carrier"] == true,
        "{nic}"
    );
    // Nobody speaks LLDP here: heard, but nothing.
    ensure!(nic["lldp"] == json!([]), "{nic}");
    let name = nic["name"].as_str().unwrap_or_default();
    ensure!(data["lldp_raw"][name] == json!([]), "{}", data["lldp_raw"]);
    ensure!(
        inventory["system_vendor"]["manufacturer"] == "QEMU",
        "{inventory}"
    );
    ensure!(
        inventory["boot"]["current_boot_mode"] == "uefi",
        "{inventory}"
    );
    ensure!(
        inventory["disks"][0]["size"] == 8_u64 << 30,
        "{}",
        inventory["disks"]
    );
    let dmi = &data["dmi"];
    ensure!(dmi["bios"]["Vendor"].is_string(), "{dmi}");
    ensure!(dmi["memory"]["devices"][0]["Size"] == "512 MB", "{dmi}");
    ensure!(
        dmi["cpu"].as_array().is_some_and(|cpus| !cpus.is_empty()),
        "{dmi}"
    );
    let listed = |key: &str| data[key].as_array().is_some_and(|list| !list.is_empty());
    ensure!(listed("pci_devices"), "no PCI devices");
    ensure!(data["usb_devices"].is_array(), "no list of USB devices");
    ensure!(data["logs"].is_string(), "no logs");
    ensure!(
        data["root_disk"]["size"] == 8_u64 << 30,
        "{}",
        data["root_disk"]
    );
    Ok(())
}

/// The node that was made for the machine with this NIC, once it is at rest.
async fn enrolled(api: &Api, mac: &str) -> Result<Value> {
    let until = Instant::now() + OPERATION;
    loop {
        let path = format!("/v1/ports?address={mac}&fields=node_uuid");
        let ports = api.get(&path).await?;
        if let Some(node) = ports["ports"][0]["node_uuid"].as_str() {
            let node = api.node(node).await?;
            if !node["inspection_finished_at"].is_null() && node["reservation"].is_null() {
                return Ok(node);
            }
        }
        ensure!(
            Instant::now() < until,
            "the unknown machine with {mac} has not been enrolled"
        );
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

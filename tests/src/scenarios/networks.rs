//! Networks that a machine has to find out, or is told of, in the ramdisk.

use anyhow::Context as _;
use anyhow::Result;
use anyhow::ensure;
use serde_json::Value;
use serde_json::json;

use super::Context;
use crate::deploy::Node;
use crate::qemu::Firmware;
use crate::world;
use crate::world::MachineOptions;

const VLAN: u16 = 7;
/// Outside of what DHCP gives out.
const ADDRESS: &str = "10.77.0.60";
const CONFIG: &str = "[conductor.inspection]
extra_kernel_params = \"ipa-inspection-collectors=default ipa-enable-vlan-interfaces=eth0.7 wrought-dhcp-timeout=3\"
";

/// The machine's switch carries one VLAN, tagged, and nothing else.
pub(super) async fn tagged(context: &mut Context) -> Result<()> {
    let account = context.account.clone();
    let options = world::Options {
        server_config: CONFIG.to_owned(),
        ..world::Options::default()
    };
    let world = context.start_with(options).await?;
    let options = MachineOptions {
        vlan: Some(VLAN),
        ..MachineOptions::new(Firmware::Uefi)
    };
    let bmc = world.add_machine("tagged", options).await?;
    let node = Node::enrol(world, &bmc, "redfish-virtual-media", &account).await?;
    let mac = bmc.machine().spec().mac.clone();
    let data = json!({
        "links": [
            {"id": "nic", "type": "phy", "ethernet_mac_address": mac},
            {"id": "bond0", "type": "bond", "bond_links": ["nic"], "bond_mode": "active-backup",
                "ethernet_mac_address": mac},
            {"id": "vlan", "type": "vlan", "vlan_link": "bond0", "vlan_id": VLAN}],
        "networks": [{"id": "net", "link": "vlan", "type": "ipv4", "ip_address": ADDRESS,
            "netmask": "255.255.255.0", "routes": []}],
        "services": [],
    });
    let fields = [
        ("/inspect_interface", json!("agent")),
        ("/network_data", data),
    ];
    node.api.set(&node.uuid, &fields).await?;
    node.go("manage", json!({}), "manageable").await?;
    let nics = inspected(&node).await?;
    account.say(&format!("by network data: {nics}"));
    let found = named(&nics, "bond0.7")?;
    ensure!(found["ipv4_address"] == ADDRESS, "{nics}");
    ensure!(named(&nics, "bond0")?["mac_address"] == mac, "{nics}");
    ensure!(named(&nics, "eth0")?["mac_address"] == mac, "{nics}");

    // Nobody tells of the network: no DHCP without the tag.
    let fields = [("/network_data", json!({}))];
    node.api.set(&node.uuid, &fields).await?;
    let nics = inspected(&node).await?;
    account.say(&format!("by DHCP on a VLAN: {nics}"));
    let address = named(&nics, "eth0.7")?["ipv4_address"].clone();
    let address = address.as_str().unwrap_or_default();
    ensure!(address.starts_with("10.77.0.1"), "{nics}");
    ensure!(named(&nics, "eth0")?["ipv4_address"].is_null(), "{nics}");
    Ok(())
}

/// Inspects and gives the NICs that were found.
async fn inspected(node: &Node) -> Result<Value> {
    node.go("inspect", json!({}), "manageable").await?;
    let path = format!("/v1/nodes/{}/inventory", node.uuid);
    let found = node.api.get(&path).await?;
    Ok(found["inventory"]["interfaces"].clone())
}

fn named<'a>(nics: &'a Value, name: &str) -> Result<&'a Value> {
    let list = nics.as_array().context("no list of NICs")?;
    list.iter()
        .find(|nic| nic["name"] == name)
        .with_context(|| format!("there is no {name}: {nics}"))
}

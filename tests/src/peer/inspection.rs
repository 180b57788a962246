//! Inspections of the same machines by a real Ironic and by ours: both get the
//! same inventories over their API, with the same hooks and policies, and must
//! come to the same ports, properties and data.

use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use reqwest::Method;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use super::compare::compare;
use super::subject::Kind;
use super::subject::Subject;
use crate::account::Account;
use crate::api::Api;
use crate::paths::Paths;

/// All of both, in an order that both take.
const HOOKS: [&str; 15] = [
    "ramdisk-error",
    "validate-interfaces",
    "ports",
    "architecture",
    "cpus",
    "memory",
    "boot-mode",
    "cpu-capabilities",
    "pci-devices",
    "accelerators",
    "raid-device",
    "root-device",
    "parse-lldp",
    "local-link-connection",
    "physical-network",
];
/// `add_ports` and `keep_ports`.
const POLICIES: [(&str, &str); 4] = [
    ("pxe", "all"),
    ("active", "present"),
    ("all", "added"),
    ("disabled", "present"),
];
/// For a state to come.
const PATIENCE: Duration = Duration::from_secs(60);
/// Data that hooks make or change.
const DATA: [&str; 6] = [
    "all_interfaces",
    "valid_interfaces",
    "macs",
    "parsed_lldp",
    "root_disk",
    "local_gb",
];

/// One machine, inspected once or more.
struct Case {
    name: String,
    /// Properties of the node before.
    properties: Value,
    /// Ports before: address and `local_link_connection`.
    ports: Vec<(&'static str, Value)>,
    /// What its ramdisk sends, each time.
    sent: Vec<Value>,
    /// Whether the ramdisk knows what it booted from. Without it, ours lets all
    /// ports boot from the network, on purpose (see docs/inspection.md).
    knows_boot: bool,
}

impl Case {
    fn new(name: &str, sent: Value) -> Self {
        Self {
            name: name.to_owned(),
            properties: json!({}),
            ports: Vec::new(),
            sent: vec![sent],
            knows_boot: true,
        }
    }
}

/// MAC addresses differ by case, so that no port is in the way of another.
fn mac(case: u8, nic: u8) -> String {
    format!("52:54:00:0c:{case:02x}:{nic:02x}")
}

/// A server with two NICs, one of them heard by a switch, disks and cards.
fn machine(case: u8) -> Value {
    let gib = 1_u64 << 30;
    json!({
        "inventory": {
            "bmc_address": "0.0.0.0", "bmc_v6address": "::/0",
            "boot": {"current_boot_mode": "uefi",
                "pxe_interface": format!("01-{}", mac(case, 1).replace(':', "-"))},
            "cpu": {"architecture": "x86_64", "count": 8, "model_name": "x", "frequency": "",
                "flags": ["fpu", "pse", "vmx", "aes", "pdpe1gb"], "socket_count": 1},
            "memory": {"total": 8_200_000_000_u64, "physical_mb": 8192},
            "disks": [
                {"name": "/dev/sda", "size": 20 * gib, "serial": format!("A{case}"),
                    "model": "one", "rotational": false, "wwn": null, "vendor": null},
                {"name": "/dev/sdb", "size": 200 * gib, "serial": format!("B{case}"),
                    "model": "two", "rotational": true, "wwn": null, "vendor": null}],
            "interfaces": [
                {"name": "eth0", "mac_address": mac(case, 1), "ipv4_address": "192.0.2.10",
                    "ipv6_address": "fe80::1%eth0", "has_carrier": true, "client_id": "ff:00:01",
                    "lldp": null, "vendor": "0x8086", "product": "0x1533"},
                {"name": "eth1", "mac_address": mac(case, 2),
                    "ipv4_address": null, "ipv6_address": "2001:db8::7", "has_carrier": true,
                    "client_id": null, "lldp": [[5, "6f6c64"], [0, ""]]},
                {"name": "eth2", "mac_address": mac(case, 3), "ipv4_address": null,
                    "ipv6_address": null, "has_carrier": false, "client_id": null, "lldp": null}],
            "system_vendor": {"product_name": "p", "serial_number": "s", "manufacturer": "m"},
            "hostname": "ramdisk",
        },
        "root_disk": {"name": "/dev/sda", "size": 20 * gib, "serial": format!("A{case}")},
        "boot_interface": format!("01-{}", mac(case, 1).replace(':', "-")),
        "configuration": {"collectors": ["default"], "managers": []},
        "error": null,
        "pci_devices": [
            {"vendor_id": "8086", "product_id": "1533", "class": "020000", "bus": "0000:02:00.0"},
            {"vendor_id": "8086", "product_id": "1533", "class": "020000", "bus": "0000:02:00.1"},
            {"vendor_id": "10de", "product_id": "1eb8", "class": "030200", "bus": "0000:03:00.0"}],
        "lldp_raw": {"eth0": [], "eth1": [
            [1, "0464649b32f300"], [2, "0565746831"], [3, "0078"], [4, "75706c696e6b"],
            [5, "73772d31"], [6, "4f53"], [7, "00140010"], [8, "0501c000020102000003e800"],
            [8, "110220010db8000000000000000000000001020000000000"], [127, "0080c2010064"],
            [127, "0080c202060065"], [127, "0080c203006402763161"], [127, "0080c2030065027632"],
            [127, "0080c2040388cc01"], [127, "0080c2060bb8"], [127, "0080c20703000000ff"],
            [127, "00120f01036c03001e"], [127, "00120f0405ee"], [127, "ffffff0102"], [0, ""]]},
    })
}

fn without(mut document: Value, pointer: &str) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap_or_default();
    if let Some(parent) = document.pointer_mut(parent).and_then(Value::as_object_mut) {
        parent.remove(key);
    }
    document
}

fn with(mut document: Value, pointer: &str, value: Value) -> Value {
    if let Some(place) = document.pointer_mut(pointer) {
        *place = value;
    }
    document
}

/// The machines; `own`: what our agent says of the one that it runs on.
fn cases(own: Value) -> Vec<Case> {
    let gib = 1_u64 << 30;
    let mut cases = vec![Case::new("whole", machine(1))];
    cases.push(Case {
        knows_boot: false,
        ..Case::new(
            "virtual media",
            with(
                without(machine(2), "/boot_interface"),
                "/inventory/boot/pxe_interface",
                Value::Null,
            ),
        )
    });
    cases.push(Case {
        properties: json!({"root_device": {"size": ">= 100"}, "capabilities": "a:b,boot_mode:bios"}),
        ..Case::new("hints", machine(3))
    });
    cases.push(Case {
        properties: json!({"root_device": {"rotational": "false"},
            "skip_block_devices": [{"serial": "A4"}]}),
        ..Case::new("hints that match nothing", machine(4))
    });
    cases.push(Case {
        ports: vec![
            (
                "52:54:00:0c:05:02",
                json!({"port_id": "mine", "switch_id": "02:00:00:00:00:01"}),
            ),
            ("52:54:00:0c:05:77", json!({})),
        ],
        ..Case::new("ports before", machine(5))
    });
    for (number, pointer) in [
        (6, "/inventory/cpu/architecture"),
        (7, "/inventory/memory/total"),
    ] {
        let name = format!("without {pointer}");
        cases.push(Case::new(&name, without(machine(number), pointer)));
    }
    let error = with(machine(8), "/error", json!("no disks could be listed"));
    cases.push(Case::new("an error of the ramdisk", error));
    let elsewhere = json!("01-52-54-00-ff-ff-ff");
    let elsewhere = with(machine(9), "/inventory/boot/pxe_interface", elsewhere);
    cases.push(Case {
        knows_boot: false,
        ..Case::new("booted from no NIC", elsewhere)
    });
    let bare = without(without(machine(10), "/pci_devices"), "/lldp_raw");
    let bare = without(
        without(bare, "/inventory/boot/current_boot_mode"),
        "/root_disk",
    );
    cases.push(Case::new("without what may be missing", bare));
    let mut more = machine(11);
    if let Some(disks) = more
        .pointer_mut("/inventory/disks")
        .and_then(Value::as_array_mut)
    {
        disks.push(json!({"name": "/dev/sdc", "size": 300 * gib, "serial": "RAID"}));
    }
    cases.push(Case {
        sent: vec![machine(11), more],
        ..Case::new("a disk more", Value::Null)
    });
    let tiny = with(machine(12), "/root_disk/size", json!(5_000_000));
    cases.push(Case::new("a tiny disk", tiny));
    let lo = with(
        machine(13),
        "/inventory/interfaces/0/ipv4_address",
        json!("127.0.0.1"),
    );
    cases.push(Case::new("a loopback address", lo));
    cases.push(Case {
        knows_boot: false,
        ..Case::new("our agent on this machine", own)
    });
    cases
}

/// What became of an inspection, in what both must have alike.
async fn inspect(api: &Api, case: &Case) -> Result<Value> {
    let made = json!({"driver": "fake-hardware", "inspect_interface": "agent",
        "properties": case.properties});
    let node = api.call(Method::POST, "/v1/nodes", Some(&made)).await?;
    let uuid = node["uuid"].as_str().context("no uuid")?.to_owned();
    for (address, link) in &case.ports {
        let port = json!({"node_uuid": uuid, "address": address, "local_link_connection": link});
        api.call(Method::POST, "/v1/ports", Some(&port)).await?;
    }
    api.provision(&uuid, "manage", json!({})).await?;
    reaches(api, &uuid, &["manageable"]).await?;
    for sent in &case.sent {
        api.provision(&uuid, "inspect", json!({})).await?;
        reaches(api, &uuid, &["inspect wait"]).await?;
        let path = format!("/v1/continue_inspection?node_uuid={uuid}");
        api.call(Method::POST, &path, Some(sent)).await?;
        reaches(api, &uuid, &["manageable", "inspect failed"]).await?;
    }
    let node = api.node(&uuid).await?;
    let failed = node["provision_state"] == "inspect failed";
    let mut outcome = json!({"failed": failed});
    if failed {
        // What stands of it is nobody's promise. It can be deleted from here.
        api.provision(&uuid, "manage", json!({})).await?;
        reaches(api, &uuid, &["manageable"]).await?;
    } else {
        outcome["properties"] = properties(&node["properties"]);
        outcome["ports"] = ports(api, &uuid, case.knows_boot).await?;
        let stored = api.get(&format!("/v1/nodes/{uuid}/inventory")).await?;
        outcome["data"] = data(&stored["plugin_data"]);
    }
    // Its addresses are free for the next server's policy.
    api.call(Method::DELETE, &format!("/v1/nodes/{uuid}"), None)
        .await
        .with_context(|| format!("deleting a node in {}", node["provision_state"]))?;
    Ok(outcome)
}

/// The order of capabilities says nothing.
fn properties(properties: &Value) -> Value {
    let mut properties = properties.clone();
    let parts = |text: &str| {
        let mut parts: Vec<String> = text.split(',').map(str::to_owned).collect();
        parts.sort_unstable();
        json!(parts)
    };
    if let Some(text) = properties["capabilities"].as_str().map(parts) {
        properties["capabilities"] = text;
    }
    if let Some(map) = properties.as_object_mut() {
        map.retain(|_, value| !value.is_null());
    }
    properties
}

async fn ports(api: &Api, node: &str, knows_boot: bool) -> Result<Value> {
    let fields = "address,pxe_enabled,extra,local_link_connection,physical_network";
    let path = format!("/v1/ports?node={node}&fields={fields}");
    let listed = api.get(&path).await?;
    let listed = listed["ports"].as_array().context("no ports")?;
    let mut ports: Vec<Value> = listed
        .iter()
        .map(|port| {
            let mut shown = json!({
                "address": port["address"], "extra": port["extra"],
                "local_link_connection": port["local_link_connection"],
                "physical_network": port["physical_network"],
            });
            if knows_boot {
                shown["pxe_enabled"] = port["pxe_enabled"].clone();
            }
            shown
        })
        .collect();
    ports.sort_by_key(|port| port["address"].to_string());
    Ok(Value::Array(ports))
}

/// What hooks made of the data. A NIC's address is told as it was sent by one
/// and in lower case by the other.
fn data(data: &Value) -> Value {
    let of = |key: &&str| Some(((*key).to_owned(), data.get(*key)?.clone()));
    let mut map: Map<String, Value> = DATA.iter().filter_map(of).collect();
    let lower = |value: &mut Value| {
        if let Some(text) = value.as_str().map(str::to_lowercase) {
            *value = text.into();
        }
    };
    for key in ["all_interfaces", "valid_interfaces"] {
        let nics = map.get_mut(key).and_then(Value::as_object_mut);
        for nic in nics.into_iter().flat_map(Map::values_mut) {
            lower(&mut nic["mac_address"]);
        }
    }
    if let Some(macs) = map.get_mut("macs").and_then(Value::as_array_mut) {
        macs.iter_mut().for_each(lower);
        macs.sort_by_key(Value::to_string);
    }
    Value::Object(map)
}

async fn reaches(api: &Api, node: &str, states: &[&str]) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        let shown = api.node(node).await?;
        let state = shown["provision_state"].as_str().unwrap_or_default();
        if states.contains(&state) && shown["reservation"].is_null() {
            return Ok(());
        }
        ensure!(
            Instant::now() < until,
            "the node is in {state:?} instead of {states:?}: {}",
            shown["last_error"]
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The configuration of each server for the policies.
fn configuration(kind: Kind, add: &str, keep: &str) -> String {
    match kind {
        Kind::Ironic => format!(
            "hooks = {}\nadd_ports = {add}\nkeep_ports = {keep}\n\
             pci_device_alias = {{\"vendor_id\": \"8086\", \"product_id\": \"1533\", \
             \"name\": \"nic\"}}\n\
             physical_network_cidr_map = 2001:db8::/64:storage,198.51.100.0/24:other\n",
            HOOKS.join(",")
        ),
        Kind::Wrought => format!(
            "[conductor.inspection]\nhooks = {}\nadd_ports = \"{add}\"\n\
             keep_ports = \"{keep}\"\n\
             pci_device_alias = [{{vendor_id = \"8086\", product_id = \"1533\", name = \
             \"nic\"}}]\n\
             physical_network_cidr_map = [\"2001:db8::/64:storage\", \
             \"198.51.100.0/24:other\"]\n",
            json!(HOOKS)
        ),
    }
}

async fn all(
    paths: &Paths,
    kind: Kind,
    policy: (&str, &str),
    cases: &[Case],
) -> Result<Vec<Value>> {
    let more = configuration(kind, policy.0, policy.1);
    let subject = Subject::configured(paths, kind, false, &more).await?;
    let api = Api::plain(subject.client().base())?;
    let mut outcomes = Vec::new();
    for case in cases {
        let outcome = inspect(&api, case).await;
        outcomes.push(outcome.with_context(|| format!("{kind:?}, case {:?}", case.name))?);
    }
    subject.stop().await;
    Ok(outcomes)
}

/// Both come to the same, for all machines and policies.
pub async fn check(account: &Account) -> Result<()> {
    let paths = Paths::find()?;
    let agent = paths.binary("wrought-agent")?;
    let said = std::process::Command::new(agent)
        .args(["inventory", "--json"])
        .output()
        .context("running wrought-agent inventory")?;
    let inventory: Value = serde_json::from_slice(&said.stdout).context("parsing an inventory")?;
    let own = json!({"inventory": inventory, "error": null});
    let cases = cases(own);
    let mut differences = Vec::new();
    let (mut compared, mut failed, mut ports) = (0, 0, 0);
    for policy in POLICIES {
        let theirs = all(&paths, Kind::Ironic, policy, &cases).await?;
        let ours = all(&paths, Kind::Wrought, policy, &cases).await?;
        for ((case, theirs), ours) in cases.iter().zip(theirs).zip(ours) {
            compared += 1;
            failed += usize::from(theirs["failed"] == true);
            ports += theirs["ports"].as_array().map_or(0, Vec::len);
            for line in compare(&theirs, &ours) {
                differences.push(format!("{policy:?}, {:?}: {line}", case.name));
            }
        }
        account.say(&format!(
            "add_ports and keep_ports {policy:?}: {} machines",
            cases.len()
        ));
    }
    if !differences.is_empty() {
        bail!(
            "{compared} inspections, differences:\n{}",
            differences.join("\n")
        );
    }
    ensure!(
        failed > 0 && failed < compared / 2 && ports > compared,
        "the real one's {compared} inspections show little: {failed} failed, {ports} ports"
    );
    account.say(&format!(
        "{compared} inspections came to the same on both sides: {failed} of them failed, the \
         others made {ports} ports"
    ));
    Ok(())
}

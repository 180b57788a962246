//! NICs become ports (hook `ports`).

use serde_json::Map;
use serde_json::Value;
use wrought_store::port::Port;

use crate::config::AddPorts;
use crate::config::Inspection;
use crate::config::KeepPorts;
use crate::error::Error;
use crate::nodes::taken;
use crate::task::Task;
use crate::task::store;
use crate::validate;

/// The key of `extra` under which a port's DHCP client identifier is.
const CLIENT_ID: &str = "client-id";

fn strings(value: Option<&Value>) -> Vec<String> {
    let list = value.and_then(Value::as_array);
    let texts = list.into_iter().flatten().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

/// Makes ports for the valid NICs, corrects which are booted from and as whom
/// they ask for addresses, and deletes those that are not to be kept.
pub(super) async fn make(
    task: &Task,
    data: &Map<String, Value>,
    settings: &Inspection,
) -> Result<(), Error> {
    let svc = &task.svc;
    let node = task.node.uuid;
    let macs = strings(data.get("macs"));
    let all = data.get("all_interfaces").and_then(Value::as_object);
    let nics: Vec<&Value> = all.into_iter().flat_map(Map::values).collect();
    let is_pxe = |address: &str| {
        nics.iter()
            .any(|nic| nic["mac_address"] == *address && nic["pxe_enabled"] == true)
    };
    // Infiniband has one; no NIC without it loses that of its port.
    let client_id = |address: &str| {
        let nic = nics.iter().find(|nic| nic["mac_address"] == *address)?;
        let id = nic.get("client_id")?;
        id.as_str()
            .is_some_and(|text| !text.is_empty())
            .then(|| id.clone())
    };
    // Without knowing what was booted from, any NIC may be.
    let known = nics.iter().any(|nic| nic["pxe_enabled"] == true);
    let present = |address: &str| nics.iter().any(|nic| nic["mac_address"] == *address);
    let existing = validate::ports(svc, node).await?;
    for mut port in existing.clone() {
        let keep = match settings.keep_ports {
            KeepPorts::All => true,
            KeepPorts::Present => present(&port.address),
            KeepPorts::Added => macs.contains(&port.address),
        };
        if !keep {
            tracing::info!(%node, address = port.address, "port not kept");
            svc.store.remove::<Port>(port.uuid).await.map_err(taken)?;
            continue;
        }
        let before = port.clone();
        if known && settings.update_pxe_enabled {
            port.pxe_enabled = is_pxe(&port.address);
        }
        if let Some(id) = client_id(&port.address) {
            port.extra.insert(CLIENT_ID.to_owned(), id);
        }
        if port != before {
            svc.store.save(&mut port).await.map_err(taken)?;
        }
    }
    if settings.add_ports == AddPorts::Disabled {
        return Ok(());
    }
    let is_new = |address: &&String| !existing.iter().any(|port| port.address == **address);
    for address in macs.iter().filter(is_new) {
        let mut port = Port {
            pxe_enabled: !known || is_pxe(address),
            ..Port::new(node, address)
        };
        if let Some(id) = client_id(address) {
            port.extra.insert(CLIENT_ID.to_owned(), id);
        }
        insert(task, &port).await?;
    }
    Ok(())
}

/// Makes a port, unless another node has the address.
pub(crate) async fn add_port(task: &Task, address: &str, pxe_enabled: bool) -> Result<(), Error> {
    let port = Port {
        pxe_enabled,
        ..Port::new(task.node.uuid, address)
    };
    insert(task, &port).await
}

async fn insert(task: &Task, port: &Port) -> Result<(), Error> {
    let (node, address) = (task.node.uuid, &port.address);
    match task.svc.store.insert(port).await {
        Ok(()) => tracing::info!(%node, address, "port made"),
        Err(wrought_store::Error::DuplicateAddress { other, .. }) => {
            tracing::warn!(%node, address, %other, "address belongs to another port");
        }
        Err(error) => return Err(store("store a port")(error)),
    }
    Ok(())
}

//! Which node a ramdisk runs on: the one it names, the one whose ports have its
//! MAC addresses, or the one whose BMC it has.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;
use wrought_store::Inventory;
use wrought_store::NodeQuery;
use wrought_store::node::Node;
use wrought_wire::state::ProvisionState;

use super::interfaces;
use crate::error::Error;
use crate::internal;
use crate::periodic::pages::Pages;
use crate::service::Service;
use crate::task::store;

/// How long a BMC's name may take to be resolved.
const RESOLVE: Duration = Duration::from_secs(5);
/// Addresses of one BMC that are kept.
const MOST_ADDRESSES: usize = 8;
/// Properties that tell where a BMC is.
const ADDRESS_PROPERTIES: [&str; 2] = ["redfish_address", "ipmi_address"];

/// One answer for all that is not told apart, so that nothing can be found out.
pub(super) fn missing() -> Error {
    Error::NotFound("Resource could not be found.".to_owned())
}

/// The node that waits for what was found; none when no node is known by it.
/// One that is named must be there; all must be waiting.
pub(super) async fn node(
    svc: &Arc<Service>,
    named: Option<Uuid>,
    found: &Inventory,
) -> Result<Option<Uuid>, Error> {
    let waits = |node: &Node| node.provision_state == ProvisionState::InspectWait;
    if let Some(uuid) = named {
        let read = svc.store.node_by_uuid(uuid).await;
        let node = read.map_err(store("read a node"))?;
        return Ok(Some(node.filter(waits).ok_or_else(missing)?.uuid));
    }
    let by_mac = match by_mac(svc, found).await? {
        Some(node) if waits(&node) => Some(node.uuid),
        Some(node) => {
            tracing::info!(node = %node.uuid, state = node.provision_state.as_str(),
                "inspection data of a node that does not wait for it");
            return Err(missing());
        }
        None => None,
    };
    let mut nodes = by_bmc(svc, found).await?;
    nodes.extend(by_mac);
    nodes.sort();
    nodes.dedup();
    match nodes.as_slice() {
        [] => Ok(None),
        [node] => Ok(Some(*node)),
        _ => {
            tracing::warn!(?nodes, "inspection data fit more than one node");
            Err(missing())
        }
    }
}

/// Whether any of the machine's addresses belongs to a node, whatever it is
/// doing.
pub(super) async fn is_known(svc: &Service, found: &Inventory) -> Result<bool, Error> {
    let addresses = interfaces::macs(&found.inventory);
    match svc.store.node_by_addresses(&addresses).await {
        Ok(found) => Ok(found.is_some()),
        Err(wrought_store::Error::AmbiguousAddresses { .. }) => Ok(true),
        Err(error) => Err(store("look a node up")(error)),
    }
}

async fn by_mac(svc: &Service, found: &Inventory) -> Result<Option<Node>, Error> {
    let addresses = interfaces::macs(&found.inventory);
    match svc.store.node_by_addresses(&addresses).await {
        Ok(found) => Ok(found),
        Err(wrought_store::Error::AmbiguousAddresses { addresses, nodes }) => {
            tracing::warn!(?addresses, ?nodes, "inspection data of more than one node");
            Err(missing())
        }
        Err(error) => Err(store("look a node up")(error)),
    }
}

/// Waiting nodes whose BMC has one of the addresses that were found.
async fn by_bmc(svc: &Arc<Service>, found: &Inventory) -> Result<Vec<Uuid>, Error> {
    let wanted: Vec<IpAddr> = ["bmc_address", "bmc_v6address"]
        .iter()
        .filter_map(|key| found.inventory.get(*key)?.as_str())
        // IPv6 addresses come with their prefix length.
        .filter_map(|text| text.split('/').next()?.parse().ok())
        .filter(|address: &IpAddr| !address.is_unspecified())
        .collect();
    let mut matching = Vec::new();
    if wanted.is_empty() {
        return Ok(matching);
    }
    let query = NodeQuery {
        provision_state: vec![ProvisionState::InspectWait],
        include_children: true,
        ..NodeQuery::default()
    };
    let mut pages = Pages::of(svc, query);
    while let Some(nodes) = pages.try_next().await.map_err(store("list nodes"))? {
        let has = |node: &&Node| {
            let known: Vec<IpAddr> =
                internal::read(node, internal::BMC_ADDRESSES).unwrap_or_default();
            known.iter().any(|address| wanted.contains(address))
        };
        matching.extend(nodes.iter().filter(has).map(|node| node.uuid));
    }
    Ok(matching)
}

/// Addresses of the node's BMC, by which its ramdisk can be known later.
pub(crate) async fn bmc_addresses(node: &Node) -> Vec<IpAddr> {
    let text = ADDRESS_PROPERTIES
        .iter()
        .find_map(|key| node.driver_info.get(*key).and_then(Value::as_str));
    let Some(host) = text.and_then(host) else {
        return Vec::new();
    };
    if let Ok(address) = host.parse() {
        return vec![address];
    }
    let looked_up = tokio::time::timeout(RESOLVE, tokio::net::lookup_host((host.as_str(), 0)));
    match looked_up.await {
        Ok(Ok(found)) => found.map(|at| at.ip()).take(MOST_ADDRESSES).collect(),
        _ => {
            // Its MAC addresses may do as well.
            tracing::info!(node = %node.uuid, host, "name of the BMC not resolved");
            Vec::new()
        }
    }
}

/// The host of an address with or without scheme and port.
fn host(text: &str) -> Option<String> {
    let url = match text.contains("://") {
        true => reqwest::Url::parse(text),
        false if text.parse::<std::net::Ipv6Addr>().is_ok() => {
            reqwest::Url::parse(&format!("https://[{text}]"))
        }
        false => reqwest::Url::parse(&format!("https://{text}")),
    };
    let host = url.ok()?.host_str()?.to_owned();
    Some(host.trim_matches(['[', ']']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::host;

    #[test]
    fn hosts_of_addresses() {
        for (text, expected) in [
            ("https://192.0.2.1:8443/redfish", "192.0.2.1"),
            ("192.0.2.1", "192.0.2.1"),
            ("bmc.test", "bmc.test"),
            ("2001:db8::1", "2001:db8::1"),
            ("https://[2001:db8::1]:443", "2001:db8::1"),
        ] {
            assert_eq!(host(text).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(host("::bad::x"), None);
    }
}

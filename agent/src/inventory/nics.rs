//! Network interfaces that have a device behind them, and VLANs and bonds made
//! of those, which carry the addresses where there are any.

use std::net::Ipv4Addr;
use std::net::Ipv6Addr;
use std::path::Path;

use nix::ifaddrs::getifaddrs;
use serde_json::Value;
use serde_json::json;

use super::Roots;
use crate::disk::sysfs;
use crate::net::lldp::Heard;
use crate::net::nic;
use crate::net::nic::Nic;

/// The interfaces that the inventory lists, by index.
pub(super) fn listed() -> Vec<Nic> {
    nic::list()
        .into_iter()
        .filter(|nic| nic.physical || nic.stacked)
        .collect()
}

/// What the inventory tells of them, by index; `heard` is what their switches
/// said.
pub(super) fn list(roots: Roots<'_>, heard: Option<&Heard>) -> Vec<Value> {
    let nics = listed();
    nics.iter().map(|nic| describe(roots, nic, heard)).collect()
}

fn describe(roots: Roots<'_>, nic: &Nic, heard: Option<&Heard>) -> Value {
    let device = roots.sys.join("class/net").join(&nic.name).join("device");
    let (v4, v6) = addresses(&nic.name);
    json!({
        "name": nic.name,
        "mac_address": nic.identity().to_string(),
        "ipv4_address": v4,
        "ipv6_address": v6,
        "has_carrier": nic.has_carrier(),
        "lldp": heard.and_then(|heard| heard.get(&nic.name)),
        "vendor": sysfs::text(&device.join("vendor")),
        "product": sysfs::text(&device.join("device")),
        "client_id": null,
        "biosdevname": null,
        "speed_mbps": speed(roots, &nic.name),
        "pci_address": target_name(&device),
        "driver": target_name(&device.join("driver")),
    })
}

/// Mbit/s; none without a link, for which the kernel says -1.
fn speed(roots: Roots<'_>, name: &str) -> Option<u64> {
    sysfs::number(&roots.sys.join("class/net").join(name).join("speed")).filter(|mbps| *mbps > 0)
}

/// The last part of where a link leads.
fn target_name(link: &Path) -> Option<String> {
    let target = std::fs::canonicalize(link).ok()?;
    Some(target.file_name()?.to_str()?.to_owned())
}

/// The first address of each kind; of IPv6 one that is not link-local where
/// there is one.
fn addresses(name: &str) -> (Option<Ipv4Addr>, Option<Ipv6Addr>) {
    let (mut v4, mut v6): (Option<Ipv4Addr>, Option<Ipv6Addr>) = (None, None);
    let Ok(all) = getifaddrs() else {
        return (None, None);
    };
    for entry in all.filter(|entry| entry.interface_name == name) {
        let Some(address) = entry.address else {
            continue;
        };
        if let Some(found) = address.as_sockaddr_in() {
            v4 = v4.or(Some(found.ip()));
        }
        if let Some(found) = address.as_sockaddr_in6() {
            let better = v6.is_none_or(|v6| v6.is_unicast_link_local());
            if better {
                v6 = Some(found.ip());
            }
        }
    }
    (v4, v6)
}

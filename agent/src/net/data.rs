//! `network_data.json` of virtual media: OpenStack's description of a machine's
//! network (links, networks, services), as config drives carry it.
//!
//! Links are known by the MAC addresses of their NICs. What is not understood is
//! an error that says where; a network that is set up wrongly is worse than one
//! that is asked for.

use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::Ipv6Addr;

use serde_json::Value;

use crate::net::mac::Mac;

/// Links, networks and servers that are read.
const MOST: usize = 256;

/// The network cannot be set up so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("network data: {place}: expected {expected}, found {found}")]
pub struct DataError {
    place: String,
    expected: &'static str,
    found: String,
}

/// What a link is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A NIC with this address.
    Nic(Mac),
    /// A VLAN of another link.
    Vlan {
        /// The id of that link.
        link: String,
        /// Its number, 1 to 4094.
        number: u16,
        /// An address of its own.
        mac: Option<Mac>,
    },
    /// A bond of others.
    Bond {
        /// Their ids.
        links: Vec<String>,
        /// The kernel's name of the mode.
        mode: String,
        /// Milliseconds between looks at the links of its members.
        miimon: u32,
        /// Its address.
        mac: Option<Mac>,
    },
}

/// One link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// By which others name it.
    pub id: String,
    /// What it is.
    pub kind: Kind,
    /// Its MTU.
    pub mtu: Option<u32>,
}

/// A route: network, prefix, gateway.
pub type Route = (IpAddr, u8, IpAddr);

/// How a network gives addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Addressing {
    /// This one.
    Static {
        /// The address.
        address: IpAddr,
        /// Length of the network's prefix.
        prefix: u8,
        /// Routes; the default route has prefix 0.
        routes: Vec<Route>,
    },
    /// By DHCPv4.
    Dhcp,
    /// By router advertisements, and DHCPv6 where they say so.
    Automatic,
}

/// One network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// The id of its link.
    pub link: String,
    /// Its addresses.
    pub addressing: Addressing,
}

/// The whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkData {
    /// Links; a link that is made of others may come before them.
    pub links: Vec<Link>,
    /// Networks.
    pub networks: Vec<Network>,
    /// DNS servers.
    pub dns: Vec<IpAddr>,
}

fn error(place: &str, expected: &'static str, found: &Value) -> DataError {
    DataError {
        place: place.to_owned(),
        expected,
        found: found.to_string().chars().take(80).collect(),
    }
}

fn list<'a>(whole: &'a Value, key: &str) -> impl Iterator<Item = (String, &'a Value)> {
    let list = whole.get(key).and_then(Value::as_array);
    let key = key.to_owned();
    let items = list.into_iter().flatten().take(MOST).enumerate();
    items.map(move |(number, item)| (format!("{key}/{number}"), item))
}

/// A text or a number as a text.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn field<T: std::str::FromStr>(
    place: &str,
    item: &Value,
    key: &str,
    expected: &'static str,
) -> Result<Option<T>, DataError> {
    let value = item.get(key).unwrap_or(&Value::Null);
    if value.is_null() {
        return Ok(None);
    }
    let parsed = text(value).and_then(|text| text.parse().ok());
    let bad = || error(&format!("{place}/{key}"), expected, value);
    parsed.map(Some).ok_or_else(bad)
}

fn needed<T: std::str::FromStr>(
    place: &str,
    item: &Value,
    key: &str,
    expected: &'static str,
) -> Result<T, DataError> {
    let bad = || error(&format!("{place}/{key}"), expected, &Value::Null);
    field(place, item, key, expected)?.ok_or_else(bad)
}

impl NetworkData {
    /// Reads the JSON text.
    pub fn parse(text: &str) -> Result<Self, DataError> {
        let whole: Value = serde_json::from_str(text)
            .map_err(|problem| error("", "JSON", &Value::String(problem.to_string())))?;
        if !whole.is_object() {
            return Err(error("", "an object", &whole));
        }
        let mut data = Self::default();
        for (place, item) in list(&whole, "links") {
            data.links.push(link(&place, item)?);
        }
        for (place, item) in list(&whole, "networks") {
            let id: String = needed(&place, item, "link", "the id of a link")?;
            if !data.links.iter().any(|link| link.id == id) {
                let found = Value::String(id);
                return Err(error(&format!("{place}/link"), "the id of a link", &found));
            }
            data.networks.push(network(&place, id, item)?);
            data.dns.extend(servers(&place, item)?);
        }
        data.dns.extend(servers("", &whole)?);
        let mut known = Vec::new();
        data.dns.retain(|server| {
            let new = !known.contains(server);
            known.push(*server);
            new
        });
        data.check()?;
        Ok(data)
    }

    /// The link of this id.
    pub fn link(&self, id: &str) -> Option<&Link> {
        self.links.iter().find(|link| link.id == id)
    }

    /// Links that others are made of are there, and nothing is made of itself.
    fn check(&self) -> Result<(), DataError> {
        for link in &self.links {
            let (parts, expected) = match &link.kind {
                Kind::Nic(_) => continue,
                Kind::Vlan { link: parent, .. } => {
                    (vec![parent], "the id of a NIC's or a bond's link")
                }
                Kind::Bond { links, .. } => (links.iter().collect(), "ids of NICs' links"),
            };
            for part in parts {
                let fits = self.link(part).is_some_and(|other| {
                    matches!(
                        (&link.kind, &other.kind),
                        (_, Kind::Nic(_)) | (Kind::Vlan { .. }, Kind::Bond { .. })
                    )
                });
                if !fits {
                    let found = Value::String(part.clone());
                    return Err(error(&format!("link {}", link.id), expected, &found));
                }
            }
        }
        Ok(())
    }
}

fn link(place: &str, item: &Value) -> Result<Link, DataError> {
    let id: String = needed(place, item, "id", "a text")?;
    let mac_text = "a MAC address";
    let kind = match item.get("type").and_then(Value::as_str).unwrap_or("phy") {
        "vlan" => Kind::Vlan {
            link: needed(place, item, "vlan_link", "the id of a link")?,
            number: needed(place, item, "vlan_id", "a number")?,
            mac: field(place, item, "vlan_mac_address", mac_text)?,
        },
        "bond" => {
            let members = item.get("bond_links").and_then(Value::as_array);
            let members: Vec<String> = members.into_iter().flatten().filter_map(text).collect();
            if members.is_empty() {
                let found = item.get("bond_links").unwrap_or(&Value::Null);
                return Err(error(&format!("{place}/bond_links"), "ids of links", found));
            }
            let mode: Option<String> = field(place, item, "bond_mode", "a text")?;
            let miimon = field(place, item, "bond_miimon", "a number of milliseconds")?;
            Kind::Bond {
                links: members,
                mode: mode.unwrap_or_else(|| "active-backup".to_owned()),
                miimon: miimon.unwrap_or(100),
                mac: field(place, item, "ethernet_mac_address", mac_text)?,
            }
        }
        // Names of hypervisors' NICs (tap, ovs and others) mean a NIC here too.
        _ => Kind::Nic(needed(place, item, "ethernet_mac_address", mac_text)?),
    };
    if let Kind::Vlan { number, .. } = kind
        && !(1..=4094).contains(&number)
    {
        let found = Value::from(number);
        return Err(error(&format!("{place}/vlan_id"), "1 to 4094", &found));
    }
    let mtu = field(place, item, "mtu", "a number of bytes")?;
    Ok(Link { id, kind, mtu })
}

fn network(place: &str, link: String, item: &Value) -> Result<Network, DataError> {
    let kind: String = needed(place, item, "type", "a kind of network")?;
    let addressing = match kind.as_str() {
        "ipv4" | "ipv6" => {
            let address: IpAddr = needed_address(place, item)?;
            let prefix = prefix(place, item, address)?;
            let mut routes = Vec::new();
            for (number, route) in list(item, "routes") {
                routes.push(self::route(&format!("{place}/{number}"), route)?);
            }
            if let Some(gateway) = field(place, item, "gateway", "an IP address")? {
                routes.push((any(gateway), 0, gateway));
            }
            Addressing::Static {
                address,
                prefix,
                routes,
            }
        }
        "ipv4_dhcp" => Addressing::Dhcp,
        "ipv6_dhcp" | "ipv6_slaac" | "ipv6_dhcpv6-stateful" | "ipv6_dhcpv6-stateless" => {
            Addressing::Automatic
        }
        _ => {
            let found = Value::String(kind);
            let expected = "ipv4, ipv6, ipv4_dhcp, ipv6_dhcp or ipv6_slaac";
            return Err(error(&format!("{place}/type"), expected, &found));
        }
    };
    Ok(Network { link, addressing })
}

fn any(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// With or without the prefix behind it.
fn needed_address(place: &str, item: &Value) -> Result<IpAddr, DataError> {
    let text: String = needed(place, item, "ip_address", "an IP address")?;
    let address = text.split('/').next().and_then(|text| text.parse().ok());
    let found = Value::String(text.clone());
    address.ok_or_else(|| error(&format!("{place}/ip_address"), "an IP address", &found))
}

/// By `netmask` (a mask or a length), or behind the address.
fn prefix(place: &str, item: &Value, address: IpAddr) -> Result<u8, DataError> {
    let behind = item.get("ip_address").and_then(Value::as_str);
    let behind = behind.and_then(|text| Some(text.split_once('/')?.1.to_owned()));
    let mask: Option<String> = field(place, item, "netmask", "a netmask")?;
    let Some(mask) = mask.or(behind) else {
        let expected = "a netmask or the length of a prefix";
        return Err(error(&format!("{place}/netmask"), expected, &Value::Null));
    };
    length(&mask, address).ok_or_else(|| {
        let found = Value::String(mask.clone());
        error(
            &format!("{place}/netmask"),
            "a netmask or the length of a prefix",
            &found,
        )
    })
}

fn length(mask: &str, address: IpAddr) -> Option<u8> {
    let (bits, ones) = match (mask.parse::<u8>(), mask.parse::<IpAddr>()) {
        (Ok(length), _) => {
            let most = if address.is_ipv4() { 32 } else { 128 };
            return (length <= most).then_some(length);
        }
        (_, Ok(IpAddr::V4(mask))) if address.is_ipv4() => {
            (mask.to_bits().count_ones(), mask.to_bits().leading_ones())
        }
        (_, Ok(IpAddr::V6(mask))) if address.is_ipv6() => {
            (mask.to_bits().count_ones(), mask.to_bits().leading_ones())
        }
        _ => return None,
    };
    // A mask with holes is none.
    (bits == ones).then(|| u8::try_from(ones).ok()).flatten()
}

fn route(place: &str, item: &Value) -> Result<Route, DataError> {
    let network: String = needed(place, item, "network", "an IP network")?;
    let gateway: IpAddr = needed(place, item, "gateway", "an IP address")?;
    let (address, behind) = match network.split_once('/') {
        Some((address, length)) => (address, Some(length.to_owned())),
        None => (network.as_str(), None),
    };
    let parsed: Option<IpAddr> = address.parse().ok();
    let mask: Option<String> = field(place, item, "netmask", "a netmask")?;
    let mask = mask.or(behind);
    let prefix = parsed.and_then(|address| length(&mask?, address));
    match (parsed, prefix) {
        (Some(address), Some(prefix)) if address.is_ipv4() == gateway.is_ipv4() => {
            Ok((address, prefix, gateway))
        }
        _ => Err(error(
            place,
            "a network, its netmask and a gateway of one kind",
            item,
        )),
    }
}

/// DNS servers of the whole or of a network.
fn servers(place: &str, item: &Value) -> Result<Vec<IpAddr>, DataError> {
    let mut found = Vec::new();
    for (number, service) in list(item, "services") {
        if service.get("type").and_then(Value::as_str) == Some("dns") {
            let place = format!("{place}/{number}");
            found.push(needed(&place, service, "address", "an IP address")?);
        }
    }
    for (number, server) in list(item, "dns_nameservers") {
        let address = text(server).and_then(|text| text.parse().ok());
        let bad = || error(&format!("{place}/{number}"), "an IP address", server);
        found.push(address.ok_or_else(bad)?);
    }
    Ok(found)
}

#[cfg(test)]
#[path = "data_tests.rs"]
mod tests;

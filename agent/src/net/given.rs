//! A network as virtual media describe it: links, VLANs, bonds, addresses,
//! without anybody being asked on the network.

use std::collections::BTreeMap;
use std::time::Duration;

use tracing::info;
use tracing::warn;

use crate::command::CommandFailure;
use crate::net::data::Addressing;
use crate::net::data::Kind;
use crate::net::data::Link;
use crate::net::data::NetworkData;
use crate::net::link::LinkError;
use crate::net::link::Links;
use crate::net::nic::Nic;
use crate::net::resolv::Dns;
use crate::net::resolv::Resolv;
use crate::net::resolv::Source;

/// How long drivers may take to show a NIC.
const NIC_WAIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);

/// What is to be asked for addresses.
#[derive(Debug, Default)]
pub struct Asked {
    /// By DHCPv4.
    pub dhcp: Vec<Nic>,
    /// By router advertisements and DHCPv6.
    pub automatic: Vec<Nic>,
    /// Whether any address was set.
    pub has_addresses: bool,
}

/// Sets all of it up. One part that does not work does not keep the others from
/// it: each is told in the log.
pub async fn apply(
    links: &Links,
    data: &NetworkData,
    list: fn() -> Vec<Nic>,
    resolv: &Resolv,
) -> Asked {
    let mut made: BTreeMap<&str, Nic> = BTreeMap::new();
    // Bonds are made of NICs, VLANs of either.
    let rank = |link: &Link| match link.kind {
        Kind::Nic(_) => 0,
        Kind::Bond { .. } => 1,
        Kind::Vlan { .. } => 2,
    };
    let mut ordered: Vec<&Link> = data.links.iter().collect();
    ordered.sort_by_key(|link| rank(link));
    for link in ordered {
        match make(links, link, &made, list).await {
            Ok(Some(nic)) => {
                if let Some(mtu) = link.mtu {
                    links.mtu(nic.index, mtu).await;
                }
                made.insert(&link.id, nic);
            }
            Ok(None) => {}
            Err(error) => warn!(
                "network: link {}: {}",
                link.id,
                CommandFailure::chain(&error)
            ),
        }
    }
    let mut asked = Asked::default();
    for network in &data.networks {
        // Why it is not there has been said.
        let Some(nic) = made.get(network.link.as_str()) else {
            continue;
        };
        match &network.addressing {
            Addressing::Dhcp => asked.dhcp.push(nic.clone()),
            Addressing::Automatic => asked.automatic.push(nic.clone()),
            Addressing::Static {
                address,
                prefix,
                routes,
            } => {
                let set = links.address(nic.index, *address, *prefix).await;
                match set {
                    Ok(()) => {
                        info!(
                            "network: {} has address {address}/{prefix}, as given",
                            nic.name
                        );
                        asked.has_addresses = true;
                    }
                    Err(error) => warn!("network: {}", CommandFailure::chain(&error)),
                }
                for route in routes {
                    // A gateway elsewhere is taken at its word.
                    let mut set = links.route(nic.index, *route, true).await;
                    if set.is_err() {
                        set = links.route(nic.index, *route, false).await;
                    }
                    if let Err(error) = set {
                        warn!("network: {}", CommandFailure::chain(&error));
                    }
                }
            }
        }
    }
    let dns = Dns {
        servers: data.dns.clone(),
        domains: Vec::new(),
    };
    resolv.set(Source::Given, 0, dns);
    asked
}

/// Makes one link of those that are there; none where it lacks a part, which is
/// said in the log.
async fn make(
    links: &Links,
    link: &Link,
    made: &BTreeMap<&str, Nic>,
    list: fn() -> Vec<Nic>,
) -> Result<Option<Nic>, LinkError> {
    let lacks = |what: &str| {
        warn!("network: link {} cannot be made without {what}", link.id);
        Ok(None)
    };
    let (name, index) = match &link.kind {
        Kind::Nic(mac) => {
            let is = |nic: &Nic| nic.mac == *mac || nic.permanent_mac == Some(*mac);
            let Some(nic) = wait_for(is, list).await else {
                return lacks(&format!("the NIC {mac}, which is not there"));
            };
            links.up(nic.index).await?;
            return Ok(Some(nic));
        }
        Kind::Bond {
            links: members,
            mode,
            miimon,
            mac,
        } => {
            let name = interface_name(&link.id, "bond0");
            let index = links.bond(&name, mode, *miimon, *mac).await?;
            for member in members {
                match made.get(member.as_str()) {
                    Some(nic) => links.enslave(nic.index, index).await?,
                    // The others carry it.
                    None => warn!("network: bond {name} lacks its member {member}"),
                }
            }
            (name, index)
        }
        Kind::Vlan {
            link: parent,
            number,
            mac,
        } => {
            let Some(parent) = made.get(parent.as_str()) else {
                return lacks(&format!("its link {parent}"));
            };
            let name = vlan_name(&parent.name, *number);
            let index = links.vlan(&name, parent.index, *number, *mac).await?;
            (name, index)
        }
    };
    links.up(index).await?;
    let is = |nic: &Nic| nic.index == index;
    match wait_for(is, crate::net::nic::list).await {
        Some(nic) => Ok(Some(nic)),
        None => lacks(&format!("interface {name}, which was made")),
    }
}

async fn wait_for(is: impl Fn(&Nic) -> bool, list: fn() -> Vec<Nic>) -> Option<Nic> {
    let mut waited = Duration::ZERO;
    loop {
        if let Some(nic) = list().into_iter().find(&is) {
            return Some(nic);
        }
        if waited >= NIC_WAIT {
            return None;
        }
        tokio::time::sleep(POLL).await;
        waited += POLL;
    }
}

/// Characters of an interface's name, at most (`IFNAMSIZ` less one).
const LONGEST_NAME: usize = 15;

/// The name of a VLAN's interface: its parent's and the number, as everybody
/// writes it; the parent's is cut where both are too long.
pub fn vlan_name(parent: &str, number: u16) -> String {
    let end = format!(".{number}");
    let room = LONGEST_NAME.saturating_sub(end.len());
    let parent: String = parent.chars().take(room).collect();
    parent + &end
}

/// The id, where it can be an interface's name.
fn interface_name(id: &str, otherwise: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let fits = !id.is_empty() && id.len() <= LONGEST_NAME && id.chars().all(plain);
    if fits { id } else { otherwise }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::interface_name;
    use super::vlan_name;

    #[test]
    fn names_of_interfaces_fit() {
        assert_eq!(vlan_name("eth0", 100), "eth0.100");
        assert_eq!(vlan_name("enp129s0f0np0", 4094), "enp129s0f0.4094");
        assert_eq!(interface_name("bond7", "bond0"), "bond7");
        for id in ["", "a bond", "0123456789abcdef", "../x"] {
            assert_eq!(interface_name(id, "bond0"), "bond0");
        }
    }
}

//! `ipa-enable-vlan-interfaces`: VLANs that are made before addresses are asked
//! for, as ironic-python-agent's parameter names them: `eth0.100` for one, `eth0`
//! for those that its switch names by LLDP, `all` for those of all NICs.

use std::collections::BTreeSet;

use tracing::info;
use tracing::warn;

use crate::command::CommandFailure;
use crate::net::given::vlan_name;
use crate::net::i40e;
use crate::net::link::Links;
use crate::net::lldp;
use crate::net::nic;
use crate::net::nic::Nic;
use crate::params::Params;

/// What the parameter asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Wanted {
    /// Interface and VLAN.
    named: BTreeSet<(String, u16)>,
    /// Interfaces whose switches are heard.
    heard: BTreeSet<String>,
    /// Whether all are.
    all: bool,
}

impl Wanted {
    fn parse(text: &str) -> Self {
        let mut wanted = Self::default();
        for word in text
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
        {
            match word.rsplit_once('.') {
                Some((name, number)) => match number.parse::<u16>() {
                    Ok(number @ 1..=4094) => {
                        wanted.named.insert((name.to_owned(), number));
                    }
                    _ => warn!(
                        "ipa-enable-vlan-interfaces: expected a VLAN from 1 to 4094, found {word:?}"
                    ),
                },
                None if word == "all" => wanted.all = true,
                None => {
                    wanted.heard.insert(word.to_owned());
                }
            }
        }
        wanted
    }
}

/// Makes the VLANs of these NICs, which are up, and gives them. Listens for as
/// long as `ipa-lldp-timeout` says where switches are to name them.
pub async fn enable(links: &Links, params: &Params, nics: &[Nic]) -> Vec<Nic> {
    let Some(text) = params.get("ipa-enable-vlan-interfaces") else {
        return Vec::new();
    };
    let wanted = Wanted::parse(text);
    let mut vlans = wanted.named.clone();
    let listened: Vec<Nic> = nics
        .iter()
        .filter(|nic| wanted.all || wanted.heard.contains(&nic.name))
        .cloned()
        .collect();
    if !listened.is_empty() {
        let patience = lldp::patience(params);
        i40e::stop_lldp_agents(&listened);
        let heard = tokio::task::spawn_blocking(move || lldp::listen(&listened, patience));
        match heard.await {
            Ok(heard) => vlans.extend(heard.iter().flat_map(|(name, tlvs)| {
                let numbers = lldp::vlans(tlvs).into_iter();
                numbers.map(move |number| (name.clone(), number))
            })),
            Err(error) => warn!("network: listening for VLANs ended: {error}"),
        }
    }
    let mut made = Vec::new();
    for (parent, number) in vlans {
        let Some(nic) = nics.iter().find(|nic| nic.name == parent) else {
            warn!("ipa-enable-vlan-interfaces: there is no NIC {parent}");
            continue;
        };
        let name = vlan_name(&nic.name, number);
        let result = match links.vlan(&name, nic.index, number, None).await {
            Ok(index) => links.up(index).await.map(|()| index),
            Err(error) => Err(error),
        };
        match result {
            Ok(index) => {
                info!("network: VLAN {name} is there");
                made.extend(nic::list().into_iter().find(|nic| nic.index == index));
            }
            Err(error) => warn!("network: VLAN {name}: {}", CommandFailure::chain(&error)),
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use super::Wanted;

    #[test]
    fn vlans_are_named_or_heard() {
        let wanted = Wanted::parse("eth0.100, eth1 ,eth0.0,eth2.4095,a.b.7,,");
        let named: Vec<(&str, u16)> = wanted
            .named
            .iter()
            .map(|(name, number)| (name.as_str(), *number))
            .collect();
        assert_eq!(named, [("a.b", 7), ("eth0", 100)]);
        assert!(wanted.heard.contains("eth1") && wanted.heard.len() == 1 && !wanted.all);
        assert!(Wanted::parse("all").all);
    }
}

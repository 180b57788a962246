//! IPv6 on one interface: the kernel makes addresses and routes of router
//! advertisements; what they say of DHCPv6 and DNS is followed here.

use std::net::IpAddr;
use std::net::Ipv6Addr;
use std::time::Duration;

use tokio::task::JoinHandle;
use tracing::debug;
use tracing::info;
use tracing::warn;

use crate::command::CommandFailure;
use crate::net::advert::Listener;
use crate::net::dhcp6::Client;
use crate::net::dhcp6::Event;
use crate::net::dhcp6::Wanted;
use crate::net::link::Links;
use crate::net::nic::Nic;
use crate::net::resolv::Dns;
use crate::net::resolv::Resolv;
use crate::net::resolv::Source;

/// Until a socket that could not be opened is tried again.
const PAUSE: Duration = Duration::from_secs(5);
/// An address of DHCPv6 says nothing of the network around it.
const PREFIX: u8 = 128;

/// Follows the routers of an interface for ever.
pub async fn follow(links: Links, nic: Nic, resolv: Resolv) {
    let mut running: Option<(Wanted, JoinHandle<()>)> = None;
    let mut listener = None;
    loop {
        let open = match listener.take() {
            Some(open) => Ok(open),
            None => Listener::open(&nic.name, nic.index),
        };
        let advert = match open {
            Ok(mut open) => {
                let advert = open.next().await;
                listener = Some(open);
                advert
            }
            Err(error) => Err(error),
        };
        let advert = match advert {
            Ok(advert) => advert,
            Err(error) => {
                debug!("network: {}: router advertisements: {error}", nic.name);
                listener = None;
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let wanted = match (advert.managed, advert.other) {
            (true, _) => Some(Wanted::Address),
            (false, true) => Some(Wanted::Other),
            (false, false) => None,
        };
        resolv.set(Source::Router, nic.index, advert.dns);
        let Some(wanted) = wanted else { continue };
        // One that has an address goes on, whatever a second router says.
        let enough = running.as_ref().is_some_and(|(kind, task)| {
            !task.is_finished() && (*kind == wanted || *kind == Wanted::Address)
        });
        if !enough {
            if let Some((_, task)) = running.take() {
                task.abort();
            }
            let task = dhcp(links.clone(), nic.clone(), wanted, resolv.clone());
            running = Some((wanted, tokio::spawn(task)));
        }
    }
}

/// Follows a DHCPv6 client for ever.
async fn dhcp(links: Links, nic: Nic, wanted: Wanted, resolv: Resolv) {
    let mut client = loop {
        match Client::open(&nic, wanted) {
            Ok(client) => break client,
            Err(error) => debug!("network: {}: dhcpv6: {error}", nic.name),
        }
        tokio::time::sleep(PAUSE).await;
    };
    let mut held: Option<Ipv6Addr> = None;
    loop {
        let (address, dns) = match client.next().await {
            Event::Bound(lease) => {
                let dns = Dns {
                    servers: lease.dns.iter().copied().map(IpAddr::V6).collect(),
                    domains: lease.domains,
                };
                (lease.address, dns)
            }
            Event::Lost(reason) => {
                warn!("network: {} loses its IPv6 address: {reason}", nic.name);
                (None, Dns::default())
            }
        };
        if let Some(old) = held.take_if(|old| Some(*old) != address) {
            links
                .remove_address(nic.index, old.into(), PREFIX)
                .await
                .ok();
        }
        if let Some(address) = address {
            match links.address(nic.index, address.into(), PREFIX).await {
                Ok(()) if held.is_none() => {
                    info!("network: {} has address {address}, by DHCPv6", nic.name);
                }
                Ok(()) => {}
                Err(error) => warn!("network: {}", CommandFailure::chain(&error)),
            }
            held = Some(address);
        }
        resolv.set(Source::Dhcp6, nic.index, dns);
    }
}

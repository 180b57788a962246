//! From NICs without an address to a network that reaches the API.
//!
//! The NIC that the firmware booted from (`BOOTIF`) or that was named goes
//! first and alone; if nothing comes of it, all others are tried side by side
//! and the first lease wins. One NIC is configured, no more: several default
//! routes would only race. The lease is kept in the background.

use std::time::Duration;

use futures_util::future::select_all;
use tracing::info;
use tracing::warn;

use crate::api::Random;
use crate::command::CommandFailure;
use crate::net::dhcp::Client;
use crate::net::dhcp::Event;
use crate::net::dhcp::Lease;
use crate::net::dhcp::RawTransport;
use crate::net::link::LinkError;
use crate::net::link::Links;
use crate::net::link::write_resolv_conf;
use crate::net::nic;
use crate::net::nic::Nic;
use crate::net::source;
use crate::params::Params;

/// `lo` is always the first interface of a network namespace.
const LOOPBACK: u32 = 1;
/// How long drivers may take to show their NICs.
const NIC_WAIT: Duration = Duration::from_secs(60);
/// How long we wait for the wanted NIC once there is another.
const WANTED_WAIT: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(100);
/// How long a link may take to come up; then DHCP is tried anyway.
const CARRIER_WAIT: Duration = Duration::from_secs(20);
/// How long the wanted NIC is tried alone, and all NICs before we say so.
const PATIENCE: Duration = Duration::from_secs(45);

type Dhcp = Client<RawTransport>;

/// Brings the network up; gives up only if the kernel refuses us.
pub async fn bring_up(params: &Params) -> Result<(), LinkError> {
    let links = Links::connect()?;
    links.up(LOOPBACK).await?;
    loop {
        let (wanted, nics) = wait_for_nics(params).await;
        for nic in &nics {
            if let Err(error) = links.up(nic.index).await {
                warn!("network: {}: {}", nic.name, CommandFailure::chain(&error));
            }
        }
        let mut found = None;
        if let Some(wanted) = wanted {
            info!(
                "network: asking for an address on {} {}",
                wanted.name, wanted.mac
            );
            found = first_lease(&[wanted], params).await;
        }
        if found.is_none() && !nics.is_empty() {
            let names: Vec<&str> = nics.iter().map(|nic| nic.name.as_str()).collect();
            info!("network: asking for an address on {}", names.join(", "));
            found = first_lease(&nics, params).await;
        }
        match found {
            Some(Found::Lease(nic, client, lease)) => {
                use_lease(&links, &nic, &lease).await?;
                tokio::spawn(keep(links, nic, client, *lease));
                return Ok(());
            }
            Some(Found::Route) => {
                info!("network: the API is reached without DHCP");
                return Ok(());
            }
            None => warn!("network: no DHCP server answers, trying again"),
        }
    }
}

/// Waits for NICs; tells the wanted one apart.
async fn wait_for_nics(params: &Params) -> (Option<Nic>, Vec<Nic>) {
    let is_wanted = |nic: &Nic| {
        params.network_interface.as_ref() == Some(&nic.name)
            || params
                .bootif
                .is_some_and(|mac| nic.mac == mac || nic.permanent_mac == Some(mac))
    };
    let one_is_wanted = params.network_interface.is_some() || params.bootif.is_some();
    let mut waited = Duration::ZERO;
    loop {
        let nics: Vec<Nic> = nic::list().into_iter().filter(|nic| nic.physical).collect();
        let wanted = nics.iter().find(|nic| is_wanted(nic)).cloned();
        let enough = if one_is_wanted {
            waited >= WANTED_WAIT
        } else {
            true
        };
        if wanted.is_some() || (!nics.is_empty() && enough) {
            if one_is_wanted && wanted.is_none() {
                warn!("network: the NIC that the machine booted from is not there, trying others");
            }
            return (wanted, nics);
        }
        if waited >= NIC_WAIT {
            warn!(
                "network: no NIC after {} s: is its driver in the ramdisk?",
                waited.as_secs()
            );
            return (None, nics);
        }
        tokio::time::sleep(POLL).await;
        waited += POLL;
    }
}

enum Found {
    Lease(Nic, Dhcp, Box<Lease>),
    Route,
}

/// The first lease that any of these NICs gets.
async fn first_lease(nics: &[Nic], params: &Params) -> Option<Found> {
    let attempts = nics.iter().map(|nic| Box::pin(lease(nic.clone())));
    tokio::select! {
        ((nic, client, lease), _, _) = select_all(attempts) => {
            Some(Found::Lease(nic, client, lease))
        }
        () = ipv6_route(params) => Some(Found::Route),
        () = tokio::time::sleep(PATIENCE) => None,
    }
}

async fn lease(nic: Nic) -> (Nic, Dhcp, Box<Lease>) {
    let mut waited = Duration::ZERO;
    while !nic.has_carrier() && waited < CARRIER_WAIT {
        tokio::time::sleep(POLL).await;
        waited += POLL;
    }
    let mut client = Client::new(nic.mac, Random::default(), RawTransport::new(nic.index));
    loop {
        if let Event::Bound(lease) = client.next().await {
            return (nic, client, lease);
        }
    }
}

/// Waits until the kernel has found its own way to an IPv6 API address, by
/// router advertisements.
async fn ipv6_route(params: &Params) {
    let urls: Vec<&String> = params
        .api_urls
        .iter()
        .filter(|url| url.contains("://["))
        .collect();
    loop {
        for url in &urls {
            if source::route_exists(url).await {
                return;
            }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn use_lease(links: &Links, nic: &Nic, lease: &Lease) -> Result<(), LinkError> {
    links.apply(nic.index, lease).await?;
    write_resolv_conf(lease);
    let gateway = lease.routes.iter().find(|(_, prefix, _)| *prefix == 0);
    let gateway = gateway.map_or_else(|| "none".to_owned(), |(_, _, gateway)| gateway.to_string());
    info!(
        "network: {} has address {}/{}, gateway {gateway}, from {}",
        nic.name, lease.address, lease.prefix, lease.server
    );
    Ok(())
}

/// Follows the client for ever.
async fn keep(links: Links, nic: Nic, mut client: Dhcp, lease: Lease) {
    let mut current = Some(lease);
    loop {
        let event = client.next().await;
        let result = match event {
            Event::Bound(lease) if current.as_ref() == Some(&*lease) => Ok(()),
            Event::Bound(lease) => {
                if let Some(old) = current.take().filter(|old| old.address != lease.address) {
                    links.remove(nic.index, &old).await.ok();
                }
                let result = use_lease(&links, &nic, &lease).await;
                current = Some(*lease);
                result
            }
            Event::Lost(reason) => {
                warn!("network: {} loses its address: {reason}", nic.name);
                match current.take() {
                    Some(old) => links.remove(nic.index, &old).await,
                    None => Ok(()),
                }
            }
        };
        if let Err(error) = result {
            warn!("network: {}", CommandFailure::chain(&error));
        }
    }
}

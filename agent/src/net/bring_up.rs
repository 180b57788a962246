//! From NICs without an address to a network that reaches the API.
//!
//! Virtual media may describe the network; then nobody is asked, and what they
//! name is set up. Else the NIC that the firmware booted from (`BOOTIF`) or that
//! was named goes first and alone; if nothing comes of it, all others and the
//! VLANs of `ipa-enable-vlan-interfaces` are tried side by side and the first
//! lease wins, unless no route leads from it to the API. One NIC is configured
//! by DHCPv4, no more: several default routes would only race. IPv6 configures
//! itself on all of them. Leases are kept in the background.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use futures_util::future::select_all;
use tokio::time::Instant;
use tracing::info;
use tracing::warn;

use crate::api::Random;
use crate::command::CommandFailure;
use crate::net::data::NetworkData;
use crate::net::dhcp::Client;
use crate::net::dhcp::Event;
use crate::net::dhcp::Lease;
use crate::net::dhcp::RawTransport;
use crate::net::given;
use crate::net::i40e;
use crate::net::ipv6;
use crate::net::link::LinkError;
use crate::net::link::Links;
use crate::net::lldp;
use crate::net::nic;
use crate::net::nic::Nic;
use crate::net::resolv::Dns;
use crate::net::resolv::Resolv;
use crate::net::resolv::Source;
use crate::net::source;
use crate::net::vlan;
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
/// Between two looks at a link.
const LINK_POLL: Duration = Duration::from_millis(500);
/// How long the wanted NIC is tried alone, and all NICs before we say so.
const PATIENCE: Duration = Duration::from_secs(45);
/// How long a network that is described may take to lead to the API.
const GIVEN_WAIT: Duration = Duration::from_secs(120);
/// How long a name server may take to say where the API is.
const NAME_WAIT: Duration = Duration::from_secs(10);

type Dhcp = Client<RawTransport>;

/// Brings the network up; gives up only if the kernel refuses us.
pub async fn bring_up(params: &Params) -> Result<(), LinkError> {
    let physical = || {
        let nics = nic::list().into_iter();
        nics.filter(|nic| nic.physical).collect::<Vec<_>>()
    };
    bring_up_of(params, physical).await?;
    if lldp::is_collected(params) {
        i40e::stop_lldp_agents(&physical());
    }
    Ok(())
}

/// The same with the NICs that `list` gives; tests have others than real ones.
pub async fn bring_up_of(params: &Params, list: fn() -> Vec<Nic>) -> Result<(), LinkError> {
    let mut network = Network {
        links: Links::connect()?,
        resolv: Resolv::default(),
        followed: BTreeSet::new(),
        done: BTreeSet::new(),
    };
    network.links.up(LOOPBACK).await?;
    if let Some(text) = &params.network_data {
        match NetworkData::parse(text) {
            Ok(data) if network.set_up(params, &data, list).await => return Ok(()),
            Ok(_) => warn!("network: the data of the virtual medium lead nowhere, asking around"),
            Err(error) => warn!("{error}; asking around"),
        }
    }
    loop {
        let (wanted, nics) = wait_for_nics(params, list).await;
        for nic in &nics {
            network.start(nic).await;
        }
        if let Some(wanted) = wanted {
            info!(
                "network: asking for an address on {} {}",
                wanted.name, wanted.mac
            );
            if network.ask(&[wanted], params).await? {
                return Ok(());
            }
        }
        let mut all = nics.clone();
        for vlan in vlan::enable(&network.links, params, &nics).await {
            network.start(&vlan).await;
            all.push(vlan);
        }
        all.retain(|nic| !network.done.contains(&nic.index));
        if !all.is_empty() {
            let names: Vec<&str> = all.iter().map(|nic| nic.name.as_str()).collect();
            info!("network: asking for an address on {}", names.join(", "));
            if network.ask(&all, params).await? {
                return Ok(());
            }
        }
        warn!("network: no way to the API yet, trying again");
        // With nobody left to ask, nothing would take any time.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// What is set up so far.
struct Network {
    links: Links,
    resolv: Resolv,
    /// Interfaces whose routers are followed.
    followed: BTreeSet<u32>,
    /// Interfaces with a lease.
    done: BTreeSet<u32>,
}

impl Network {
    /// Switches an interface on; IPv6 begins by itself.
    async fn start(&mut self, nic: &Nic) {
        if let Err(error) = self.links.up(nic.index).await {
            warn!("network: {}: {}", nic.name, CommandFailure::chain(&error));
        }
        self.follow(nic);
    }

    fn follow(&mut self, nic: &Nic) {
        if self.followed.insert(nic.index) {
            let (links, resolv) = (self.links.clone(), self.resolv.clone());
            tokio::spawn(ipv6::follow(links, nic.clone(), resolv));
        }
    }

    /// Sets up what virtual media describe; whether it leads to the API.
    async fn set_up(
        &mut self,
        params: &Params,
        data: &NetworkData,
        list: fn() -> Vec<Nic>,
    ) -> bool {
        let asked = given::apply(&self.links, data, list, &self.resolv).await;
        for nic in &asked.automatic {
            self.follow(nic);
        }
        let is_empty = !asked.has_addresses && asked.dhcp.is_empty() && asked.automatic.is_empty();
        for nic in asked.dhcp {
            self.done.insert(nic.index);
            let (links, resolv) = (self.links.clone(), self.resolv.clone());
            tokio::spawn(async move {
                let (nic, client, lease) = lease(nic).await;
                if let Err(error) = use_lease(&links, &resolv, &nic, &lease).await {
                    warn!("network: {}", CommandFailure::chain(&error));
                }
                keep(links, resolv, nic, client, *lease).await;
            });
        }
        if is_empty {
            return false;
        }
        let until = Instant::now() + GIVEN_WAIT;
        while !leads_to_api(params).await {
            if Instant::now() >= until {
                return false;
            }
            tokio::time::sleep(LINK_POLL).await;
        }
        true
    }

    /// Asks for addresses on all of these at once; whether there is a way to the
    /// API then. A lease without one is kept, and the others go on.
    async fn ask(&mut self, nics: &[Nic], params: &Params) -> Result<bool, LinkError> {
        let mut left = nics.to_vec();
        let until = Instant::now() + patience(params);
        while !left.is_empty() {
            match first_lease(&left, params, until).await {
                Some(Found::Lease(nic, client, lease)) => {
                    use_lease(&self.links, &self.resolv, &nic, &lease).await?;
                    self.done.insert(nic.index);
                    left.retain(|other| other.index != nic.index);
                    let (links, resolv) = (self.links.clone(), self.resolv.clone());
                    let name = nic.name.clone();
                    tokio::spawn(keep(links, resolv, nic, client, *lease));
                    if leads_to_api(params).await {
                        return Ok(true);
                    }
                    warn!("network: no route leads from {name} to the API");
                }
                Some(Found::Route) => {
                    info!("network: the API is reached by IPv6");
                    return Ok(true);
                }
                None => {
                    for nic in &left {
                        let why = match nic.has_carrier() {
                            true => "no DHCP server answers",
                            false => "there is no link",
                        };
                        warn!("network: {}: {why}", nic.name);
                    }
                    return Ok(false);
                }
            }
        }
        Ok(leads_to_api(params).await)
    }
}

/// How long NICs are asked on: `wrought-dhcp-timeout`, seconds.
fn patience(params: &Params) -> Duration {
    let seconds = params.get("wrought-dhcp-timeout");
    let seconds = seconds.and_then(|text| text.parse().ok());
    seconds.map_or(PATIENCE, Duration::from_secs)
}

/// Whether the routing table knows a way to an address of the API. An API that
/// is not named at all is nowhere; a name that nobody resolves in time may be
/// anywhere.
async fn leads_to_api(params: &Params) -> bool {
    if params.api_urls.is_empty() {
        return true;
    }
    for url in &params.api_urls {
        match tokio::time::timeout(NAME_WAIT, source::route_exists(url)).await {
            Ok(true) | Err(_) => return true,
            Ok(false) => {}
        }
    }
    false
}

/// Waits for NICs; tells the wanted one apart.
async fn wait_for_nics(params: &Params, list: fn() -> Vec<Nic>) -> (Option<Nic>, Vec<Nic>) {
    let is_wanted = |nic: &Nic| {
        params.network_interface.as_ref() == Some(&nic.name)
            || params
                .bootif
                .is_some_and(|mac| nic.mac == mac || nic.permanent_mac == Some(mac))
    };
    let one_is_wanted = params.network_interface.is_some() || params.bootif.is_some();
    let mut waited = Duration::ZERO;
    loop {
        let nics = list();
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
async fn first_lease(nics: &[Nic], params: &Params, until: Instant) -> Option<Found> {
    let attempts = nics.iter().map(|nic| Box::pin(lease(nic.clone())));
    tokio::select! {
        ((nic, client, lease), _, _) = select_all(attempts) => {
            Some(Found::Lease(nic, client, lease))
        }
        () = ipv6_route(params) => Some(Found::Route),
        () = tokio::time::sleep_until(until) => None,
    }
}

fn client(nic: &Nic) -> Dhcp {
    Client::new(nic.mac, Random::default(), RawTransport::new(nic.index))
}

/// Waits until the link, which is or gets down, is up again.
async fn link_returns(nic: &Nic) {
    let mut was_up = nic.has_carrier();
    loop {
        tokio::time::sleep(LINK_POLL).await;
        let is_up = nic.has_carrier();
        if is_up && !was_up {
            return;
        }
        was_up = is_up;
    }
}

/// Asks until somebody answers. A link that comes late is asked on at once.
async fn lease(nic: Nic) -> (Nic, Dhcp, Box<Lease>) {
    let mut waited = Duration::ZERO;
    while !nic.has_carrier() && waited < CARRIER_WAIT {
        tokio::time::sleep(POLL).await;
        waited += POLL;
    }
    let mut dhcp = client(&nic);
    loop {
        tokio::select! {
            event = dhcp.next() => {
                if let Event::Bound(lease) = event {
                    return (nic, dhcp, lease);
                }
            }
            () = link_returns(&nic) => dhcp = client(&nic),
        }
    }
}

/// Waits until there is a way to an API address by what routers advertise.
async fn ipv6_route(params: &Params) {
    let is_v4 = |url: &&String| {
        let host = url.split("://").nth(1).unwrap_or_default();
        let host = host.split(['/', ':']).next().unwrap_or_default();
        host.parse::<std::net::Ipv4Addr>().is_ok()
    };
    let urls: Vec<&String> = params.api_urls.iter().filter(|url| !is_v4(url)).collect();
    loop {
        for url in &urls {
            // A name needs a name server, which comes with the network.
            let looked = tokio::time::timeout(NAME_WAIT, source::route_exists(url));
            if let Ok(true) = looked.await {
                return;
            }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn use_lease(
    links: &Links,
    resolv: &Resolv,
    nic: &Nic,
    lease: &Lease,
) -> Result<(), LinkError> {
    links.apply(nic.index, lease).await?;
    let dns = Dns {
        servers: lease.dns.iter().copied().map(IpAddr::V4).collect(),
        domains: lease.domain.iter().cloned().collect(),
    };
    resolv.set(Source::Dhcp, nic.index, dns);
    let gateway = lease.routes.iter().find(|(_, prefix, _)| *prefix == 0);
    let gateway = gateway.map_or_else(|| "none".to_owned(), |(_, _, gateway)| gateway.to_string());
    info!(
        "network: {} has address {}/{}, gateway {gateway}, from {}",
        nic.name, lease.address, lease.prefix, lease.server
    );
    Ok(())
}

/// A lease that is in use, and its end.
struct Held(Lease, Option<Instant>);

impl Held {
    fn new(lease: Lease) -> Self {
        let end = lease.expire.map(|expire| Instant::now() + expire);
        Self(lease, end)
    }
}

async fn end_of(held: Option<&Held>) {
    match held.and_then(|Held(_, end)| *end) {
        Some(end) => tokio::time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}

/// Follows the client for ever. After a link was lost, the network may be
/// another: it is asked anew, and the old address stays until it answers or the
/// lease ends.
async fn keep(links: Links, resolv: Resolv, nic: Nic, mut dhcp: Dhcp, lease: Lease) {
    let mut current = Some(Held::new(lease));
    loop {
        let event = tokio::select! {
            event = dhcp.next() => event,
            () = end_of(current.as_ref()) => Event::Lost("the lease has ended"),
            () = link_returns(&nic) => {
                info!("network: the link of {} is back, asking again", nic.name);
                dhcp = client(&nic);
                continue;
            }
        };
        let result = match event {
            Event::Bound(lease) => {
                let old = current.take().map(|Held(old, _)| old);
                if let Some(old) = old.as_ref().filter(|old| old.address != lease.address) {
                    links.remove(nic.index, old).await.ok();
                }
                // A link that was gone may have taken the routes with it.
                let result = match old.as_ref() == Some(&*lease) {
                    true => links.apply(nic.index, &lease).await,
                    false => use_lease(&links, &resolv, &nic, &lease).await,
                };
                current = Some(Held::new(*lease));
                result
            }
            Event::Lost(reason) => match current.take() {
                Some(Held(old, _)) => {
                    warn!("network: {} loses its address: {reason}", nic.name);
                    resolv.set(Source::Dhcp, nic.index, Dns::default());
                    links.remove(nic.index, &old).await
                }
                None => Ok(()),
            },
        };
        if let Err(error) = result {
            warn!("network: {}", CommandFailure::chain(&error));
        }
    }
}

//! What a server gave us.

use std::net::Ipv4Addr;
use std::time::Duration;

use dhcproto::v4::DhcpOption;
use dhcproto::v4::Message;
use dhcproto::v4::OptionCode;

use crate::net::resolv::clean_domain;

/// Times that a server leaves out, or sets absurdly low.
const LEAST_LEASE: Duration = Duration::from_secs(60);

/// An address with all that belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Our address.
    pub address: Ipv4Addr,
    /// Length of the network's prefix.
    pub prefix: u8,
    /// Routes as (network, prefix, gateway); the default route has prefix 0.
    pub routes: Vec<(Ipv4Addr, u8, Ipv4Addr)>,
    /// DNS servers.
    pub dns: Vec<Ipv4Addr>,
    /// Domain to search.
    pub domain: Option<String>,
    /// MTU of the link, when the server gives one that can be used.
    pub mtu: Option<u16>,
    /// The server to renew with.
    pub server: Ipv4Addr,
    /// From the beginning of the lease: when to ask the server again.
    pub renew: Duration,
    /// When to ask any server.
    pub rebind: Duration,
    /// When the address is lost; none for a lease without an end.
    pub expire: Option<Duration>,
}

impl Lease {
    /// Reads an offer or acknowledgement; nothing if it lacks an address or a
    /// server.
    pub(super) fn from_message(message: &Message) -> Option<Self> {
        let options = message.opts();
        let address = message.yiaddr();
        if address.is_unspecified() {
            return None;
        }
        let Some(DhcpOption::ServerIdentifier(server)) = options.get(OptionCode::ServerIdentifier)
        else {
            return None;
        };
        let prefix = match options.get(OptionCode::SubnetMask) {
            Some(DhcpOption::SubnetMask(mask)) => prefix_of(*mask),
            _ => class_prefix(address),
        };
        let seconds = |code| match options.get(code) {
            Some(
                DhcpOption::AddressLeaseTime(seconds)
                | DhcpOption::Renewal(seconds)
                | DhcpOption::Rebinding(seconds),
            ) => Some(Duration::from_secs(u64::from(*seconds))),
            _ => None,
        };
        let infinite = Duration::from_secs(u64::from(u32::MAX));
        let time = seconds(OptionCode::AddressLeaseTime)
            .unwrap_or(infinite)
            .max(LEAST_LEASE);
        let rebind = seconds(OptionCode::Rebinding)
            .unwrap_or(time * 7 / 8)
            .min(time);
        let renew = seconds(OptionCode::Renewal).unwrap_or(time / 2).min(rebind);
        let dns = match options.get(OptionCode::DomainNameServer) {
            Some(DhcpOption::DomainNameServer(servers)) => servers.clone(),
            _ => Vec::new(),
        };
        let domain = match options.get(OptionCode::DomainName) {
            Some(DhcpOption::DomainName(name)) => clean_domain(name),
            _ => None,
        };
        let mtu = match options.get(OptionCode::InterfaceMtu) {
            Some(DhcpOption::InterfaceMtu(mtu)) if *mtu >= 576 => Some(*mtu),
            _ => None,
        };
        Some(Self {
            address,
            prefix,
            routes: routes(message),
            dns,
            domain,
            mtu,
            server: *server,
            renew,
            rebind,
            expire: (time < infinite).then_some(time),
        })
    }
}

/// Classless routes win over the router option (RFC 3442).
fn routes(message: &Message) -> Vec<(Ipv4Addr, u8, Ipv4Addr)> {
    let options = message.opts();
    if let Some(DhcpOption::ClasslessStaticRoute(routes)) =
        options.get(OptionCode::ClasslessStaticRoute)
        && !routes.is_empty()
    {
        return routes
            .iter()
            .map(|(network, gateway)| (network.network(), network.prefix_len(), *gateway))
            .collect();
    }
    match options.get(OptionCode::Router) {
        Some(DhcpOption::Router(routers)) => routers
            .first()
            .map(|gateway| (Ipv4Addr::UNSPECIFIED, 0, *gateway))
            .into_iter()
            .collect(),
        _ => Vec::new(),
    }
}

fn prefix_of(mask: Ipv4Addr) -> u8 {
    // At most 32.
    u8::try_from(mask.to_bits().leading_ones()).unwrap_or(32)
}

/// The prefix of the days before masks, for servers that send none.
fn class_prefix(address: Ipv4Addr) -> u8 {
    match address.octets()[0] {
        0..128 => 8,
        128..192 => 16,
        _ => 24,
    }
}

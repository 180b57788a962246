//! Changes to interfaces, addresses and routes, by rtnetlink.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::net::Ipv4Addr;

use rtnetlink::AddressMessageBuilder;
use rtnetlink::Handle;
use rtnetlink::LinkUnspec;
use rtnetlink::RouteMessageBuilder;
use rtnetlink::packet_route::route::RouteScope;
use tracing::warn;

use crate::net::dhcp::Lease;

/// The kernel refused a change.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// No netlink socket.
    #[error("cannot open a netlink socket")]
    Socket(#[source] io::Error),
    /// One change failed.
    #[error("cannot {what}")]
    Change {
        /// What was tried.
        what: String,
        /// What the kernel says.
        #[source]
        source: Box<rtnetlink::Error>,
    },
}

/// Changes the machine's network.
#[derive(Debug, Clone)]
pub struct Links(Handle);

impl Links {
    /// Connects to the kernel.
    pub fn connect() -> Result<Self, LinkError> {
        let (connection, handle, _) = rtnetlink::new_connection().map_err(LinkError::Socket)?;
        tokio::spawn(connection);
        Ok(Self(handle))
    }

    /// Switches an interface on.
    pub async fn up(&self, index: u32) -> Result<(), LinkError> {
        let message = LinkUnspec::new_with_index(index).up().build();
        let result = self.0.link().set(message).execute().await;
        result.map_err(change(format!("switch interface {index} on")))
    }

    /// Switches an interface off; its addresses and routes are out of use.
    pub async fn down(&self, index: u32) -> Result<(), LinkError> {
        let message = LinkUnspec::new_with_index(index).down().build();
        let result = self.0.link().set(message).execute().await;
        result.map_err(change(format!("switch interface {index} off")))
    }

    /// Takes a lease into use: MTU, address, routes.
    pub async fn apply(&self, index: u32, lease: &Lease) -> Result<(), LinkError> {
        if let Some(mtu) = lease.mtu {
            let builder = LinkUnspec::new_with_index(index);
            let message = builder.mtu(u32::from(mtu)).build();
            // A driver that does not want this MTU still works.
            if let Err(error) = self.0.link().set(message).execute().await {
                warn!("network: MTU {mtu} cannot be set: {error}");
            }
        }
        let Lease {
            address, prefix, ..
        } = *lease;
        let request = self
            .0
            .address()
            .add(index, IpAddr::V4(address), prefix)
            .replace();
        request
            .execute()
            .await
            .map_err(change(format!("set address {address}/{prefix}")))?;
        for route in &lease.routes {
            self.route(index, lease, *route).await?;
        }
        Ok(())
    }

    async fn route(
        &self,
        index: u32,
        lease: &Lease,
        (network, prefix, gateway): (Ipv4Addr, u8, Ipv4Addr),
    ) -> Result<(), LinkError> {
        let mut builder = RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(network, prefix)
            .output_interface(index);
        if gateway.is_unspecified() {
            builder = builder.scope(RouteScope::Link);
        } else {
            builder = builder.gateway(gateway);
            if !same_network(lease, gateway) {
                builder = builder.onlink();
            }
        }
        let result = self
            .0
            .route()
            .add(builder.build())
            .replace()
            .execute()
            .await;
        result.map_err(change(format!(
            "set the route to {network}/{prefix} by {gateway}"
        )))
    }

    /// Takes an address away; its routes go with it.
    pub async fn remove(&self, index: u32, lease: &Lease) -> Result<(), LinkError> {
        let message = AddressMessageBuilder::<Ipv4Addr>::new()
            .index(index)
            .address(lease.address, lease.prefix)
            .build();
        let result = self.0.address().del(message).execute().await;
        result.map_err(change(format!("remove address {}", lease.address)))
    }
}

fn change(what: String) -> impl FnOnce(rtnetlink::Error) -> LinkError {
    move |source| LinkError::Change {
        what,
        source: Box::new(source),
    }
}

fn same_network(lease: &Lease, gateway: Ipv4Addr) -> bool {
    let host_bits = 32 - u32::from(lease.prefix.min(32));
    let network = |address: Ipv4Addr| address.to_bits().checked_shr(host_bits).unwrap_or(0);
    network(lease.address) == network(gateway)
}

/// The text of `/etc/resolv.conf` for a lease.
pub fn resolv_conf(lease: &Lease) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    if let Some(domain) = &lease.domain {
        writeln!(text, "search {domain}").ok();
    }
    // Resolvers read three at most.
    for server in lease.dns.iter().take(3) {
        writeln!(text, "nameserver {server}").ok();
    }
    text
}

/// Writes `/etc/resolv.conf`.
pub fn write_resolv_conf(lease: &Lease) {
    let result =
        fs::create_dir_all("/etc").and_then(|()| fs::write("/etc/resolv.conf", resolv_conf(lease)));
    if let Err(error) = result {
        warn!("network: /etc/resolv.conf cannot be written: {error}");
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::resolv_conf;
    use super::same_network;
    use crate::net::dhcp::Lease;

    #[test]
    fn texts_and_networks() {
        let lease = Lease {
            address: Ipv4Addr::new(192, 0, 2, 77),
            prefix: 26,
            routes: Vec::new(),
            dns: vec![Ipv4Addr::new(192, 0, 2, 1); 4],
            domain: Some("example.org".to_owned()),
            mtu: None,
            server: Ipv4Addr::new(192, 0, 2, 1),
            renew: Duration::ZERO,
            rebind: Duration::ZERO,
            expire: None,
        };
        assert!(same_network(&lease, Ipv4Addr::new(192, 0, 2, 126)));
        assert!(!same_network(&lease, Ipv4Addr::new(192, 0, 2, 1)));
        let text = resolv_conf(&lease);
        assert!(text.starts_with("search example.org\nnameserver 192.0.2.1\n"));
        assert_eq!(text.lines().count(), 4);
        let all = Lease { prefix: 0, ..lease };
        assert!(same_network(&all, Ipv4Addr::new(8, 8, 8, 8)));
    }
}

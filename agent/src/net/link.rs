//! Changes to interfaces, addresses and routes, by rtnetlink.

use std::io;
use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::Ipv6Addr;

use rtnetlink::AddressMessageBuilder;
use rtnetlink::Handle;
use rtnetlink::LinkBond;
use rtnetlink::LinkUnspec;
use rtnetlink::LinkVlan;
use rtnetlink::RouteMessageBuilder;
use rtnetlink::packet_route::link::BondMode;
use rtnetlink::packet_route::link::LinkMessage;
use rtnetlink::packet_route::route::RouteScope;
use tracing::warn;

use crate::net::data::Route;
use crate::net::dhcp::Lease;
use crate::net::mac::Mac;

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
    /// An interface that was made is not there.
    #[error("interface {name} was made and is not there")]
    Vanished {
        /// Its name.
        name: String,
        /// What the kernel says.
        #[source]
        source: io::Error,
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

    async fn set(&self, message: LinkMessage, what: String) -> Result<(), LinkError> {
        let result = self.0.link().set(message).execute().await;
        result.map_err(change(what))
    }

    /// Switches an interface on.
    pub async fn up(&self, index: u32) -> Result<(), LinkError> {
        let message = LinkUnspec::new_with_index(index).up().build();
        self.set(message, format!("switch interface {index} on"))
            .await
    }

    /// Sets an interface's MTU. A driver that does not want it still works.
    pub async fn mtu(&self, index: u32, mtu: u32) {
        let message = LinkUnspec::new_with_index(index).mtu(mtu).build();
        if let Err(error) = self.0.link().set(message).execute().await {
            warn!("network: MTU {mtu} cannot be set: {error}");
        }
    }

    /// Makes a VLAN of an interface and gives its index; one that is there
    /// already is taken as it is.
    pub async fn vlan(
        &self,
        name: &str,
        parent: u32,
        number: u16,
        mac: Option<Mac>,
    ) -> Result<u32, LinkError> {
        let mut builder = LinkVlan::new(name, parent, number);
        if let Some(mac) = mac {
            builder = builder.address(mac.0.to_vec());
        }
        self.add(name, builder.build()).await
    }

    /// Makes a bond and gives its index; one that is there already is taken as
    /// it is.
    pub async fn bond(
        &self,
        name: &str,
        mode: &str,
        miimon: u32,
        mac: Option<Mac>,
    ) -> Result<u32, LinkError> {
        let mode = match mode {
            "balance-rr" | "0" => BondMode::BalanceRr,
            "balance-xor" | "2" => BondMode::BalanceXor,
            "broadcast" | "3" => BondMode::Broadcast,
            "802.3ad" | "4" => BondMode::Ieee8023Ad,
            "balance-tlb" | "5" => BondMode::BalanceTlb,
            "balance-alb" | "6" => BondMode::BalanceAlb,
            "active-backup" | "1" => BondMode::ActiveBackup,
            other => {
                warn!("network: bond mode {other:?} is not known, taking active-backup");
                BondMode::ActiveBackup
            }
        };
        let mut builder = LinkBond::new(name).mode(mode).miimon(miimon);
        if let Some(mac) = mac {
            builder = builder.address(mac.0.to_vec());
        }
        self.add(name, builder.build()).await
    }

    async fn add(&self, name: &str, message: LinkMessage) -> Result<u32, LinkError> {
        let index = || nix::net::if_::if_nametoindex(name);
        if let Ok(index) = index() {
            return Ok(index);
        }
        let mut result = self.0.link().add(message.clone()).execute().await;
        // The module of bonds makes one by itself when it is loaded for ours.
        if result.is_err()
            && let Ok(other) = index()
        {
            self.0.link().del(other).execute().await.ok();
            result = self.0.link().add(message).execute().await;
        }
        result.map_err(change(format!("make interface {name}")))?;
        index().map_err(|error| LinkError::Vanished {
            name: name.to_owned(),
            source: error.into(),
        })
    }

    /// Makes an interface a member of a bond, which wants it switched off for
    /// that.
    pub async fn enslave(&self, member: u32, bond: u32) -> Result<(), LinkError> {
        let down = LinkUnspec::new_with_index(member).down().build();
        self.set(down, format!("switch interface {member} off"))
            .await?;
        let message = LinkUnspec::new_with_index(member).controller(bond).build();
        let what = format!("put interface {member} into bond {bond}");
        self.set(message, what).await?;
        self.up(member).await
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
            self.mtu(index, u32::from(mtu)).await;
        }
        let Lease {
            address, prefix, ..
        } = *lease;
        self.address(index, address.into(), prefix).await?;
        for (network, length, gateway) in &lease.routes {
            let route = ((*network).into(), *length, (*gateway).into());
            let near = same_network(address, prefix, *gateway);
            self.route(index, route, near).await?;
        }
        Ok(())
    }

    /// Gives an interface an address.
    pub async fn address(&self, index: u32, address: IpAddr, prefix: u8) -> Result<(), LinkError> {
        let request = self.0.address().add(index, address, prefix).replace();
        request
            .execute()
            .await
            .map_err(change(format!("set address {address}/{prefix}")))
    }

    /// Sets a route; `near`: its gateway is in a network of the interface.
    pub async fn route(&self, index: u32, route: Route, near: bool) -> Result<(), LinkError> {
        let (network, prefix, gateway) = route;
        let message = match (network, gateway) {
            (IpAddr::V4(network), IpAddr::V4(gateway)) => {
                let mut builder = RouteMessageBuilder::<Ipv4Addr>::new()
                    .destination_prefix(network, prefix)
                    .output_interface(index);
                if gateway.is_unspecified() {
                    builder = builder.scope(RouteScope::Link);
                } else {
                    builder = builder.gateway(gateway);
                    if !near {
                        builder = builder.onlink();
                    }
                }
                builder.build()
            }
            (IpAddr::V6(network), IpAddr::V6(gateway)) => {
                let mut builder = RouteMessageBuilder::<Ipv6Addr>::new()
                    .destination_prefix(network, prefix)
                    .output_interface(index);
                if !gateway.is_unspecified() {
                    builder = builder.gateway(gateway);
                }
                builder.build()
            }
            // Network data are checked for it.
            _ => return Ok(()),
        };
        let result = self.0.route().add(message).replace().execute().await;
        result.map_err(change(format!(
            "set the route to {network}/{prefix} by {gateway}"
        )))
    }

    /// Takes a lease's address away; its routes go with it.
    pub async fn remove(&self, index: u32, lease: &Lease) -> Result<(), LinkError> {
        self.remove_address(index, lease.address.into(), lease.prefix)
            .await
    }

    /// Takes an address away; routes by it go with it.
    pub async fn remove_address(
        &self,
        index: u32,
        address: IpAddr,
        prefix: u8,
    ) -> Result<(), LinkError> {
        let message = match address {
            IpAddr::V4(v4) => AddressMessageBuilder::<Ipv4Addr>::new()
                .index(index)
                .address(v4, prefix)
                .build(),
            IpAddr::V6(v6) => AddressMessageBuilder::<Ipv6Addr>::new()
                .index(index)
                .address(v6, prefix)
                .build(),
        };
        let result = self.0.address().del(message).execute().await;
        result.map_err(change(format!("remove address {address}")))
    }
}

fn change(what: String) -> impl FnOnce(rtnetlink::Error) -> LinkError {
    move |source| LinkError::Change {
        what,
        source: Box::new(source),
    }
}

fn same_network(address: Ipv4Addr, prefix: u8, gateway: Ipv4Addr) -> bool {
    let host_bits = 32 - u32::from(prefix.min(32));
    let network = |address: Ipv4Addr| address.to_bits().checked_shr(host_bits).unwrap_or(0);
    network(address) == network(gateway)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::same_network;

    #[test]
    fn gateways_are_near_or_far() {
        let address = Ipv4Addr::new(192, 0, 2, 77);
        assert!(same_network(address, 26, Ipv4Addr::new(192, 0, 2, 126)));
        assert!(!same_network(address, 26, Ipv4Addr::new(192, 0, 2, 1)));
        assert!(same_network(address, 0, Ipv4Addr::new(8, 8, 8, 8)));
    }
}

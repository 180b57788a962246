//! Which of our addresses the API would see.

use std::io;
use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::Ipv6Addr;
use std::net::SocketAddr;
use std::time::Duration;

use reqwest::Url;
use tokio::net::UdpSocket;
use tracing::info;

/// There is no usable route.
#[derive(Debug, thiserror::Error)]
pub enum NoSource {
    /// The URL names no host.
    #[error("{0} names no host")]
    Url(String),
    /// The kernel has no route, or DNS no answer.
    #[error("no route to {host} after {ATTEMPTS} attempts: is the network up?")]
    Route {
        /// Host of the API.
        host: String,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The route leaves by an address that nobody else can call.
    #[error(
        "the route to {host} leaves by {address}, a link-local address; expected a global one (set ipa-advertise-host)"
    )]
    LinkLocal {
        /// Host of the API.
        host: String,
        /// The address.
        address: IpAddr,
    },
}

/// Attempts to find a route, and the pause between them.
const ATTEMPTS: u32 = 6;
const PAUSE: Duration = Duration::from_secs(10);

/// The source address of packets to this URL's host, by the routing table.
/// No packet is sent.
pub async fn toward(url: &str) -> Result<IpAddr, NoSource> {
    let parsed = Url::parse(url).map_err(|_| NoSource::Url(url.to_owned()))?;
    let host = parsed
        .host_str()
        .ok_or_else(|| NoSource::Url(url.to_owned()))?;
    let host = host.trim_matches(['[', ']']).to_owned();
    let port = parsed.port_or_known_default().unwrap_or(443);
    let mut attempt = 1;
    loop {
        match once(&host, port).await {
            Ok(address) if !is_link_local(address) => return Ok(address),
            // The network's own address may come a little later.
            Ok(address) if attempt >= ATTEMPTS => {
                return Err(NoSource::LinkLocal { host, address });
            }
            Ok(address) => info!("network: only {address} leads to {host} yet"),
            Err(source) if attempt >= ATTEMPTS => return Err(NoSource::Route { host, source }),
            Err(error) => info!("network: no route to {host} yet: {error}"),
        }
        attempt += 1;
        tokio::time::sleep(PAUSE).await;
    }
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// Whether the kernel has a route to this URL's host, with a source address
/// that is not link-local.
pub async fn route_exists(url: &str) -> bool {
    let Some((host, port)) = Url::parse(url).ok().and_then(|parsed| {
        let host = parsed.host_str()?.trim_matches(['[', ']']).to_owned();
        Some((host, parsed.port_or_known_default()?))
    }) else {
        return false;
    };
    once(&host, port)
        .await
        .is_ok_and(|address| !is_link_local(address))
}

async fn once(host: &str, port: u16) -> io::Result<IpAddr> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for target in tokio::net::lookup_host((host, port)).await? {
        let any: IpAddr = match target {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0)).await?;
        match socket.connect(target).await {
            Ok(()) => return Ok(socket.local_addr()?.ip()),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::toward;

    #[tokio::test]
    async fn loopback_reaches_itself() {
        let address = toward("https://127.0.0.1:6385").await.unwrap();
        assert_eq!(address.to_string(), "127.0.0.1");
        assert!(toward("nonsense").await.is_err());
    }
}

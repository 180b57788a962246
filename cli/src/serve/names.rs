//! The names that the server's certificate must hold for.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::Ipv6Addr;
use std::net::SocketAddr;

use anyhow::Context;
use anyhow::Result;

use crate::ca::leaf::Name;

/// The names of one server.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    /// Every way to it: what a certificate made here is for.
    pub(crate) all: Vec<Name>,
    /// Those by which others are told to find it: the least that a certificate
    /// made elsewhere must be for.
    pub(crate) told: Vec<Name>,
}

/// Host name, `localhost`, the loopback addresses, the listening addresses (all
/// of the machine's when one is a wildcard) and the hosts of the URLs that
/// clients and agents are told, each with the name of its setting.
pub(crate) fn collect(
    host: &str,
    listen: &[Option<SocketAddr>],
    urls: &[(&str, Option<&str>)],
) -> Result<Names> {
    let mut names = BTreeSet::from([
        Name::Dns("localhost".to_owned()),
        Name::Ip(Ipv4Addr::LOCALHOST.into()),
        Name::Ip(Ipv6Addr::LOCALHOST.into()),
    ]);
    let host = Name::parse(host);
    match &host {
        Ok(name) => drop(names.insert(name.clone())),
        // Host names of machines may have characters that DNS has not.
        Err(error) => tracing::warn!("the certificate will not hold for the host name: {error}"),
    }
    for listen in listen.iter().flatten() {
        if listen.ip().is_unspecified() {
            names.extend(own_addresses()?.into_iter().map(Name::Ip));
        } else {
            names.insert(Name::Ip(listen.ip()));
        }
    }
    let mut told = BTreeSet::new();
    for (setting, url) in urls {
        let Some(url) = url else { continue };
        let host = host_of(url).with_context(|| format!("{setting} {url:?} names no host"))?;
        told.insert(Name::parse(host).with_context(|| format!("in {setting}"))?);
    }
    names.extend(told.iter().cloned());
    if told.is_empty() {
        told.extend(host.ok());
    }
    Ok(Names {
        all: names.into_iter().collect(),
        told: told.into_iter().collect(),
    })
}

/// The host part of a URL.
fn host_of(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = match authority.strip_prefix('[') {
        Some(literal) => literal.split(']').next()?,
        None => authority.split(':').next()?,
    };
    (!host.is_empty()).then_some(host)
}

/// Addresses of the machine's interfaces, link-local ones apart.
fn own_addresses() -> Result<Vec<IpAddr>> {
    let interfaces = nix::ifaddrs::getifaddrs().context("listing the machine's addresses")?;
    let addresses = interfaces.filter_map(|interface| {
        let address = interface.address?;
        let v4 = address
            .as_sockaddr_in()
            .map(|address| IpAddr::V4(address.ip()));
        v4.or_else(|| {
            address
                .as_sockaddr_in6()
                .map(|address| IpAddr::V6(address.ip()))
        })
    });
    Ok(addresses
        .filter(|address| match address {
            IpAddr::V4(_) => true,
            IpAddr::V6(address) => !address.is_unicast_link_local(),
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::collect;
    use super::host_of;
    use crate::ca::leaf::Name;

    #[test]
    fn all_ways_to_the_server() {
        let listen = "192.0.2.1:6385".parse().unwrap();
        let urls = [
            ("public_endpoint", Some("https://[2001:db8::5]:6385/x")),
            ("url of [ramdisk]", None),
        ];
        let other = "192.0.2.2:1".parse().unwrap();
        let names = collect("Node_1", &[Some(listen), Some(other)], &urls).unwrap();
        for name in [
            "localhost",
            "127.0.0.1",
            "::1",
            "192.0.2.1",
            "192.0.2.2",
            "2001:db8::5",
        ] {
            assert!(names.all.contains(&Name::parse(name).unwrap()), "{name}");
        }
        assert_eq!(names.told, [Name::parse("2001:db8::5").unwrap()]);
        let any = collect("h.example", &[Some("0.0.0.0:1".parse().unwrap())], &[]).unwrap();
        assert!(any.all.contains(&Name::parse("h.example").unwrap()));
        assert_eq!(any.told, [Name::parse("h.example").unwrap()]);
    }

    #[test]
    fn hosts_of_urls() {
        for (url, host) in [
            ("https://a.example:6385", Some("a.example")),
            ("http://192.0.2.1/x", Some("192.0.2.1")),
            ("https://[::1]:1", Some("::1")),
            ("https://", None),
            ("a.example", None),
        ] {
            assert_eq!(host_of(url), host, "{url}");
        }
    }
}

//! Reverse proxies before the API: whose word is taken for how clients reached
//! them, and what they say.

use std::net::IpAddr;
use std::net::Ipv6Addr;
use std::str::FromStr;

use axum::http::HeaderMap;

/// A range of addresses, such as `192.0.2.0/24`; one address is a range too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// In 128 bits, IPv4 as `::ffff:a.b.c.d`.
    address: u128,
    mask: u128,
}

/// Not a range of addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no network: expected an address, or one with a prefix such as 192.0.2.0/24")]
pub struct BadNetwork(String);

fn bits(address: IpAddr) -> u128 {
    let address: Ipv6Addr = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    address.to_bits()
}

impl FromStr for Network {
    type Err = BadNetwork;

    fn from_str(text: &str) -> Result<Self, BadNetwork> {
        let bad = || BadNetwork(text.to_owned());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.trim().parse().map_err(|_| bad())?;
        let longest: u32 = if address.is_ipv4() { 32 } else { 128 };
        let prefix: u32 = match prefix {
            Some(prefix) => prefix.trim().parse().map_err(|_| bad())?,
            None => longest,
        };
        let free = longest.checked_sub(prefix).ok_or_else(bad)?;
        let mask = u128::MAX.checked_shl(free).unwrap_or(0);
        Ok(Self {
            address: bits(address) & mask,
            mask,
        })
    }
}

/// The proxies that are believed.
#[derive(Debug, Clone, Default)]
pub struct Proxies(Vec<Network>);

impl Proxies {
    /// Those in the ranges.
    pub fn new(networks: Vec<Network>) -> Self {
        Self(networks)
    }

    fn trusts(&self, peer: IpAddr) -> bool {
        let peer = bits(peer);
        self.0
            .iter()
            .any(|network| peer & network.mask == network.address)
    }

    /// What links begin with, as the proxy at `peer` tells it. `scheme` and
    /// `host` are those of the proxy's own request, for what it leaves out.
    pub(crate) fn base(
        &self,
        peer: IpAddr,
        headers: &HeaderMap,
        scheme: &str,
        host: &str,
    ) -> Option<String> {
        if !self.trusts(peer) {
            return None;
        }
        // Of a chain of proxies the first one met the client.
        let told = |name: &str| {
            let value = headers.get(name)?.to_str().ok()?;
            let first = value.split(',').next()?.trim();
            (!first.is_empty()).then_some(first)
        };
        let scheme = told("x-forwarded-proto")
            .filter(|word| matches!(*word, "http" | "https"))
            .unwrap_or(scheme);
        let host = told("x-forwarded-host")
            .filter(|host| is_host(host))
            .unwrap_or(host);
        let port = told("x-forwarded-port").filter(|port| port.parse::<u16>().is_ok());
        let usual = if scheme == "https" { "443" } else { "80" };
        let has_port = host
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let port = match port {
            Some(port) if !has_port && port != usual => format!(":{port}"),
            _ => String::new(),
        };
        let prefix = told("x-forwarded-prefix").filter(|prefix| is_path(prefix));
        let prefix = prefix.unwrap_or("").trim_end_matches('/');
        Some(format!("{scheme}://{host}{port}{prefix}"))
    }
}

/// Whether a text can stand in a URL as host and port. Links are written
/// without escapes, so nothing else may come through.
pub(crate) fn is_host(text: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || "-._~:[]".contains(c);
    !text.is_empty() && text.len() <= 255 && text.chars().all(fine)
}

fn is_path(text: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || "-._~/".contains(c);
    text.starts_with('/') && text.len() <= 255 && text.chars().all(fine)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderMap;
    use axum::http::HeaderName;
    use axum::http::HeaderValue;

    use super::Network;
    use super::Proxies;
    use super::is_host;

    fn proxies(networks: &[&str]) -> Proxies {
        Proxies::new(networks.iter().map(|text| text.parse().unwrap()).collect())
    }

    #[test]
    fn ranges() {
        let some = proxies(&["192.0.2.0/24", "10.1.2.3", "2001:db8::/32", "::1"]);
        for (address, inside) in [
            ("192.0.2.255", true),
            ("::ffff:192.0.2.1", true),
            ("192.0.3.0", false),
            ("10.1.2.3", true),
            ("10.1.2.4", false),
            ("2001:db8:1::1", true),
            ("2001:db9::1", false),
            ("::1", true),
            ("::2", false),
        ] {
            assert_eq!(some.trusts(address.parse().unwrap()), inside, "{address}");
        }
        assert!(proxies(&["0.0.0.0/0"]).trusts("198.51.100.1".parse().unwrap()));
        assert!(!proxies(&["0.0.0.0/0"]).trusts("2001:db8::1".parse().unwrap()));
        assert!(!Proxies::default().trusts("127.0.0.1".parse().unwrap()));
        for bad in [
            "",
            "x",
            "192.0.2.0/33",
            "::/129",
            "192.0.2.0/",
            "192.0.2.0/-1",
        ] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
    }

    #[test]
    fn only_sound_words_of_trusted_proxies() {
        let trusted = proxies(&["192.0.2.1"]);
        let base = |peer: &str, pairs: &[(&'static str, &'static str)]| {
            let pair = |(name, value): &(&'static str, &'static str)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            };
            let headers: HeaderMap = pairs.iter().map(pair).collect();
            trusted.base(peer.parse().unwrap(), &headers, "http", "in:1")
        };
        let proto = ("x-forwarded-proto", "https");
        let host = ("x-forwarded-host", "api.test, other");
        assert_eq!(base("192.0.2.2", &[proto, host]), None);
        for (pairs, expected) in [
            (vec![], "http://in:1"),
            (vec![proto, host], "https://api.test"),
            (
                vec![host, ("x-forwarded-port", "8080")],
                "http://api.test:8080",
            ),
            (
                vec![proto, host, ("x-forwarded-port", "443")],
                "https://api.test",
            ),
            (
                vec![host, ("x-forwarded-prefix", "/baremetal/")],
                "http://api.test/baremetal",
            ),
            (
                vec![("x-forwarded-host", "a\"b"), ("x-forwarded-proto", "ftp")],
                "http://in:1",
            ),
            (vec![("x-forwarded-prefix", "/\"")], "http://in:1"),
        ] {
            assert_eq!(
                base("192.0.2.1", &pairs).as_deref(),
                Some(expected),
                "{pairs:?}"
            );
        }
        assert!(is_host("[::1]:6385") && !is_host("a b") && !is_host("a\"") && !is_host(""));
    }
}

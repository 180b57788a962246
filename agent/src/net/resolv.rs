//! `/etc/resolv.conf`, of all that the networks say about DNS.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;

use tracing::warn;

const PATH: &str = "/etc/resolv.conf";
/// Resolvers read three servers at most.
const MOST_SERVERS: usize = 3;
/// And six domains (resolv.conf(5)).
const MOST_DOMAINS: usize = 6;

/// Who says it, the most trusted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Network data on virtual media.
    Given,
    /// A DHCPv4 lease.
    Dhcp,
    /// DHCPv6.
    Dhcp6,
    /// A router advertisement.
    Router,
}

/// What one of them says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dns {
    /// Servers.
    pub servers: Vec<IpAddr>,
    /// Domains to search.
    pub domains: Vec<String>,
}

/// The file, shared by all who hear of DNS.
#[derive(Debug, Clone, Default)]
pub struct Resolv(Arc<Mutex<BTreeMap<(Source, u32), Dns>>>);

impl Resolv {
    /// Replaces what a source says on the interface `index`, and writes the
    /// file; nothing to say takes it away.
    pub fn set(&self, source: Source, index: u32, dns: Dns) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = text(&known);
        match dns == Dns::default() {
            true => known.remove(&(source, index)),
            false => known.insert((source, index), dns),
        };
        let text = text(&known);
        if text == before {
            return;
        }
        let result = fs::create_dir_all("/etc").and_then(|()| fs::write(PATH, text));
        if let Err(error) = result {
            warn!("network: {PATH} cannot be written: {error}");
        }
    }
}

fn text(known: &BTreeMap<(Source, u32), Dns>) -> String {
    let (mut servers, mut domains): (Vec<IpAddr>, Vec<&String>) = (Vec::new(), Vec::new());
    for dns in known.values() {
        for server in &dns.servers {
            if !servers.contains(server) {
                servers.push(*server);
            }
        }
        for domain in &dns.domains {
            if !domains.contains(&domain) {
                domains.push(domain);
            }
        }
    }
    domains.truncate(MOST_DOMAINS);
    let mut text = String::new();
    // Writing to a String cannot fail.
    if !domains.is_empty() {
        let domains: Vec<&str> = domains.iter().map(|domain| domain.as_str()).collect();
        writeln!(text, "search {}", domains.join(" ")).ok();
    }
    for server in servers.iter().take(MOST_SERVERS) {
        writeln!(text, "nameserver {server}").ok();
    }
    text
}

/// A domain that may go into a file line by line.
pub fn clean_domain(name: &str) -> Option<String> {
    let name = name.trim_end_matches(['\0', '.']);
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    (!name.is_empty() && name.len() < 256 && name.chars().all(plain)).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::Dns;
    use super::Source;
    use super::clean_domain;
    use super::text;

    #[test]
    fn dns_of_all_networks_is_put_together() {
        let dns = |servers: &[&str], domains: &[&str]| Dns {
            servers: servers.iter().map(|text| text.parse().unwrap()).collect(),
            domains: domains.iter().map(|text| (*text).to_owned()).collect(),
        };
        let mut known = BTreeMap::new();
        assert_eq!(text(&known), "");
        known.insert(
            (Source::Router, 2),
            dns(&["2001:db8::1", "2001:db8::2"], &["a.test"]),
        );
        known.insert(
            (Source::Dhcp, 3),
            dns(&["192.0.2.1"], &["b.test", "a.test"]),
        );
        known.insert((Source::Dhcp6, 2), dns(&["2001:db8::1"], &[]));
        assert_eq!(
            text(&known),
            "search b.test a.test\nnameserver 192.0.2.1\nnameserver 2001:db8::1\n\
             nameserver 2001:db8::2\n"
        );
        known.insert((Source::Given, 1), dns(&["198.51.100.1"], &[]));
        assert_eq!(text(&known).lines().count(), 4, "three servers at most");
    }

    #[test]
    fn domains_cannot_add_lines() {
        assert_eq!(clean_domain("example.org.").as_deref(), Some("example.org"));
        assert_eq!(clean_domain("a\nnameserver 192.0.2.66"), None);
        assert_eq!(clean_domain(""), None);
    }
}

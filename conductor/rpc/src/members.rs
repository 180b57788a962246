//! The conductors that are alive, and which of them looks after a node.

use std::collections::BTreeMap;
use std::time::Duration;

use uuid::Uuid;
use wrought_store::Conductor;

use crate::Error;
use crate::Kind;
use crate::ring::Ring;

/// Why no conductor looks after a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoOwner {
    /// There is none at all, for now.
    #[error("Resource temporarily unavailable, please retry: no conductor is alive.")]
    NobodyAlive,
    /// None of those that live is for such nodes.
    #[error(
        "No valid host was found. Reason: No conductor service registered which supports driver \
         {driver} for conductor group \"{group}\"."
    )]
    NoDriver {
        /// The hardware type.
        driver: String,
        /// The group of conductors.
        group: String,
    },
}

impl From<NoOwner> for Error {
    fn from(error: NoOwner) -> Self {
        let kind = match error {
            NoOwner::NobodyAlive => Kind::Busy,
            NoOwner::NoDriver { .. } => Kind::NotFound,
        };
        Self::new(kind, error.to_string())
    }
}

/// The conductors that were alive at one moment. Nodes of one group and one
/// driver share a ring of the conductors that are for both.
#[derive(Debug, Clone, Default)]
pub struct Members {
    /// By host name.
    alive: Vec<Conductor>,
    /// By group, then by driver.
    rings: BTreeMap<String, BTreeMap<String, Ring>>,
}

impl Members {
    /// Those of `conductors` that gave a sign of life within `dead_after`.
    pub fn new(conductors: Vec<Conductor>, dead_after: Duration) -> Self {
        let mut alive = conductors;
        alive.retain(|conductor| conductor.is_alive(dead_after));
        alive.sort_by(|one, other| one.hostname.cmp(&other.hostname));
        let mut hosts: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
        for conductor in &alive {
            for driver in &conductor.drivers {
                let key = (conductor.conductor_group.as_str(), driver.as_str());
                hosts
                    .entry(key)
                    .or_default()
                    .push(conductor.hostname.clone());
            }
        }
        let mut rings: BTreeMap<String, BTreeMap<String, Ring>> = BTreeMap::new();
        for ((group, driver), hosts) in hosts {
            let ring = Ring::new(&hosts);
            let of_group = rings.entry(group.to_owned()).or_default();
            of_group.insert(driver.to_owned(), ring);
        }
        Self { alive, rings }
    }

    /// Who looks after the node of that group and driver.
    ///
    /// # Errors
    /// Nobody does.
    pub fn owner(&self, group: &str, driver: &str, node: Uuid) -> Result<&Conductor, NoOwner> {
        if self.alive.is_empty() {
            return Err(NoOwner::NobodyAlive);
        }
        let ring = self.rings.get(group).and_then(|group| group.get(driver));
        let host = ring.and_then(|ring| ring.owner(node));
        host.and_then(|host| self.find(host))
            .ok_or_else(|| NoOwner::NoDriver {
                driver: driver.to_owned(),
                group: group.to_owned(),
            })
    }

    /// Those that are alive, by host name.
    pub fn alive(&self) -> &[Conductor] {
        &self.alive
    }

    /// Those that have a driver, of any group.
    pub fn with_driver<'a>(&'a self, driver: &'a str) -> impl Iterator<Item = &'a Conductor> {
        let has = move |conductor: &&Conductor| conductor.drivers.iter().any(|name| name == driver);
        self.alive.iter().filter(has)
    }

    fn find(&self, host: &str) -> Option<&Conductor> {
        let place = self
            .alive
            .binary_search_by(|conductor| conductor.hostname.as_str().cmp(host));
        self.alive.get(place.ok()?)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use uuid::Uuid;
    use wrought_store::Registration;
    use wrought_store::Store;

    use super::Members;
    use super::NoOwner;
    use crate::Error;
    use crate::Kind;

    const DEAD_AFTER: Duration = Duration::from_secs(60);

    async fn members(registered: &[(&str, &str, &[&str])], gone: &[&str]) -> Members {
        let store = Store::open("sqlite::memory:").await.unwrap();
        for (host, group, drivers) in registered {
            let drivers: Vec<String> = drivers.iter().map(|name| (*name).to_owned()).collect();
            let row = Registration::new(host, group, &drivers);
            store.register_conductor(&row).await.unwrap();
        }
        for row in store.conductors().await.unwrap() {
            if gone.contains(&row.hostname.as_str()) {
                let left = store.unregister_conductor(&row.hostname, row.instance);
                left.await.unwrap();
            }
        }
        Members::new(store.conductors().await.unwrap(), DEAD_AFTER)
    }

    fn host(members: &Members, group: &str, driver: &str, node: u128) -> Option<String> {
        let owner = members.owner(group, driver, Uuid::from_u128(node));
        owner.ok().map(|conductor| conductor.hostname.clone())
    }

    #[tokio::test]
    async fn groups_and_drivers_have_rings_of_their_own() {
        let members = members(
            &[
                ("c", "", &["redfish"]),
                ("a", "", &["redfish", "fake-hardware"]),
                ("b", "rack", &["redfish"]),
            ],
            &[],
        )
        .await;
        let mut seen = std::collections::BTreeSet::new();
        for node in 0..200 {
            assert_eq!(host(&members, "rack", "redfish", node).unwrap(), "b");
            assert_eq!(host(&members, "", "fake-hardware", node).unwrap(), "a");
            seen.extend(host(&members, "", "redfish", node));
        }
        assert_eq!(Vec::from_iter(seen), ["a", "c"]);
        let hosts = |driver| {
            let with = members.with_driver(driver);
            with.map(|conductor| conductor.hostname.as_str())
                .collect::<Vec<_>>()
        };
        assert_eq!(hosts("redfish"), ["a", "b", "c"]);
        assert_eq!(hosts("ipmi"), Vec::<&str>::new());
    }

    #[tokio::test]
    async fn without_a_conductor_it_is_told_why() {
        let some = members(&[("a", "", &["redfish"]), ("b", "x", &["snmp"])], &["b"]).await;
        let error = some.owner("x", "snmp", Uuid::nil()).unwrap_err();
        let error = Error::from(error);
        assert_eq!(error.kind, Kind::NotFound);
        assert_eq!(
            error.message,
            "No valid host was found. Reason: No conductor service registered which supports \
             driver snmp for conductor group \"x\"."
        );
        let nobody = members(&[("a", "", &["redfish"])], &["a"]).await;
        let error = nobody.owner("", "redfish", Uuid::nil()).unwrap_err();
        assert_eq!(error, NoOwner::NobodyAlive);
        let error = Error::from(error);
        assert_eq!(error.kind, Kind::Busy);
        assert!(
            error
                .message
                .starts_with("Resource temporarily unavailable, please retry"),
            "{error}"
        );
    }
}

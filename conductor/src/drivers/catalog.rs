//! Hardware types and the names of the interfaces that each may have.

use std::collections::BTreeMap;

use wrought_rpc::Driver;
use wrought_store::node::INTERFACE_KINDS;
use wrought_store::node::Node;

use crate::error::Error;

/// A hardware type: for each interface kind the implementations on offer, the
/// default first.
#[derive(Debug)]
pub struct HardwareType {
    /// Its name.
    pub name: &'static str,
    interfaces: [(&'static str, &'static [&'static str]); 13],
}

/// All hardware types.
pub const HARDWARE_TYPES: &[HardwareType] = &[
    HardwareType {
        name: "fake-hardware",
        interfaces: [
            ("bios", &["fake", "no-bios"]),
            ("boot", &["fake", "ipxe"]),
            ("console", &["fake", "no-console"]),
            ("deploy", &["fake", "direct", "autodetect"]),
            ("firmware", &["fake", "no-firmware"]),
            ("inspect", &["fake", "no-inspect", "agent"]),
            ("management", &["fake", "noop"]),
            ("network", &["noop", "flat"]),
            ("power", &["fake"]),
            ("raid", &["fake", "no-raid", "agent"]),
            ("rescue", &["fake", "no-rescue", "agent"]),
            ("storage", &["noop", "fake", "external"]),
            ("vendor", &["fake", "no-vendor"]),
        ],
    },
    HardwareType {
        name: "redfish",
        interfaces: [
            ("bios", &["redfish", "no-bios"]),
            ("boot", &["ipxe", "redfish-virtual-media"]),
            ("console", &["no-console"]),
            ("deploy", &["autodetect", "direct"]),
            ("firmware", &["redfish", "no-firmware"]),
            ("inspect", &["redfish", "no-inspect", "agent"]),
            ("management", &["redfish", "noop"]),
            ("network", &["noop", "flat"]),
            ("power", &["redfish"]),
            ("raid", &["redfish", "no-raid", "agent"]),
            ("rescue", &["no-rescue", "agent"]),
            ("storage", &["noop", "external"]),
            ("vendor", &["redfish", "no-vendor"]),
        ],
    },
];

impl HardwareType {
    /// The hardware type of that name.
    pub fn find(name: &str) -> Option<&'static Self> {
        HARDWARE_TYPES.iter().find(|known| known.name == name)
    }

    /// Implementations of one kind, default first.
    pub fn enabled(&self, kind: &str) -> &'static [&'static str] {
        self.interfaces
            .iter()
            .find(|(known, _)| *known == kind)
            .map_or(&[], |(_, names)| names)
    }

    /// The default of one kind.
    pub fn default(&self, kind: &str) -> &'static str {
        self.enabled(kind).first().copied().unwrap_or("")
    }

    /// What the API shows of it.
    pub fn describe(&self, hosts: Vec<String>) -> Driver {
        let kinds = || INTERFACE_KINDS.iter().copied();
        Driver {
            name: self.name.to_owned(),
            hosts,
            defaults: kinds()
                .map(|k| (k.to_owned(), self.default(k).to_owned()))
                .collect(),
            enabled: kinds()
                .map(|k| {
                    (
                        k.to_owned(),
                        self.enabled(k).iter().map(|n| (*n).to_owned()).collect(),
                    )
                })
                .collect(),
            properties: super::properties(self.name),
        }
    }
}

/// Gives the node the default of each interface that it has not chosen, and
/// checks those that it has. `keep`: interfaces that were chosen before and are
/// kept only where the hardware type has them.
pub fn resolve(node: &mut Node, keep: &BTreeMap<String, String>) -> Result<(), Error> {
    let driver = HardwareType::find(&node.driver).ok_or_else(|| {
        Error::Invalid(format!(
            "No valid host was found. Reason: No conductor service registered which supports \
             driver {} for conductor group \"{}\". Ensure the driver is valid and enabled.",
            node.driver, node.conductor_group
        ))
    })?;
    for kind in INTERFACE_KINDS {
        let enabled = driver.enabled(kind);
        let chosen = node.interfaces.get(kind).filter(|name| !name.is_empty());
        if let Some(chosen) = chosen {
            let chosen = alias(kind, chosen);
            check(driver, kind, chosen)?;
            node.interfaces.insert(kind.to_owned(), chosen.to_owned());
            continue;
        }
        let kept = keep
            .get(kind)
            .filter(|name| enabled.contains(&name.as_str()));
        let name = kept
            .cloned()
            .unwrap_or_else(|| driver.default(kind).to_owned());
        node.interfaces.insert(kind.to_owned(), name);
    }
    if let Some(odd) = node
        .interfaces
        .keys()
        .find(|kind| !INTERFACE_KINDS.contains(&kind.as_str()))
    {
        return Err(Error::Invalid(format!(
            "There is no interface of the kind {odd:?}."
        )));
    }
    Ok(())
}

/// Names of the project's own documents for what Ironic calls otherwise.
fn alias<'a>(kind: &str, name: &'a str) -> &'a str {
    match (kind, name) {
        ("inspect", "inspector") => "agent",
        _ => name,
    }
}

fn check(driver: &HardwareType, kind: &str, name: &str) -> Result<(), Error> {
    if driver.enabled(kind).contains(&name) {
        return Ok(());
    }
    let mut known: Vec<&str> = HARDWARE_TYPES
        .iter()
        .flat_map(|t| t.enabled(kind))
        .copied()
        .collect();
    known.sort_unstable();
    known.dedup();
    if known.contains(&name) {
        return Err(Error::Invalid(format!(
            "Hardware type {} does not support the {kind} interface {name}. Supported are {}.",
            driver.name,
            list(driver.enabled(kind)),
        )));
    }
    Err(Error::Invalid(format!(
        "Could not find the following interface in the 'ironic.hardware.interfaces.{kind}' \
         entrypoint: {name}. Valid interfaces are {}.",
        list(&known),
    )))
}

fn list(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    format!("[{}]", quoted.join(", "))
}

#[cfg(test)]
mod tests {
    use wrought_store::node::INTERFACE_KINDS;

    use super::HARDWARE_TYPES;
    use super::resolve;
    use crate::testing::node;

    #[test]
    fn each_kind_has_a_default() {
        for hardware in HARDWARE_TYPES {
            for kind in INTERFACE_KINDS {
                assert!(
                    !hardware.default(kind).is_empty(),
                    "{} {kind}",
                    hardware.name
                );
            }
        }
    }

    #[test]
    fn fills_and_checks() {
        let mut fresh = node("redfish");
        fresh.interfaces.clear();
        fresh
            .interfaces
            .insert("boot".to_owned(), "redfish-virtual-media".to_owned());
        resolve(&mut fresh, &Default::default()).unwrap();
        assert_eq!(fresh.interfaces["boot"], "redfish-virtual-media");
        assert_eq!(fresh.interfaces["power"], "redfish");
        assert_eq!(fresh.interfaces.len(), 13);
        for (kind, name, text) in [
            (
                "boot",
                "pixie",
                "Could not find the following interface in the 'ironic.hardware.interfaces.boot' entrypoint: pixie. Valid interfaces are ['fake', 'ipxe', 'redfish-virtual-media'].",
            ),
            (
                "power",
                "fake",
                "Hardware type redfish does not support the power interface fake. Supported are ['redfish'].",
            ),
        ] {
            let mut bad = fresh.clone();
            bad.interfaces.insert(kind.to_owned(), name.to_owned());
            assert_eq!(
                resolve(&mut bad, &Default::default())
                    .unwrap_err()
                    .to_string(),
                text
            );
        }
    }
}

//! Hardware types and the names of the interfaces that each may have; which of
//! them are on offer is a setting.

use std::collections::BTreeMap;

use wrought_rpc::Driver;
use wrought_store::node::INTERFACE_KINDS;
use wrought_store::node::Node;

use crate::config;
use crate::error::Error;

/// A hardware type as it is built: for each interface kind the
/// implementations, the default first.
struct Known {
    name: &'static str,
    interfaces: [(&'static str, &'static [&'static str]); 13],
}

/// All hardware types.
const KNOWN: &[Known] = &[
    Known {
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
    Known {
        name: "ipmi",
        interfaces: [
            ("bios", &["no-bios"]),
            ("boot", &["ipxe"]),
            ("console", &["no-console"]),
            ("deploy", &["autodetect", "direct"]),
            ("firmware", &["no-firmware"]),
            ("inspect", &["agent", "no-inspect"]),
            ("management", &["ipmitool", "noop"]),
            ("network", &["noop", "flat"]),
            ("power", &["ipmitool"]),
            ("raid", &["no-raid", "agent"]),
            ("rescue", &["no-rescue", "agent"]),
            ("storage", &["noop", "external"]),
            ("vendor", &["ipmitool", "no-vendor"]),
        ],
    },
    Known {
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

/// A hardware type as it is on offer.
#[derive(Debug)]
pub struct HardwareType {
    /// Its name.
    pub name: &'static str,
    /// By kind; the default first, never empty.
    interfaces: BTreeMap<&'static str, Vec<&'static str>>,
}

impl HardwareType {
    /// Implementations of one kind, default first.
    pub fn enabled(&self, kind: &str) -> &[&'static str] {
        self.interfaces.get(kind).map_or(&[], Vec::as_slice)
    }

    /// The default of one kind.
    pub fn default(&self, kind: &str) -> &'static str {
        self.enabled(kind).first().copied().unwrap_or("")
    }

    /// What the API shows of it.
    pub fn describe(&self, hosts: Vec<String>) -> Driver {
        let each = |of: &dyn Fn(&str) -> Vec<String>| -> BTreeMap<String, Vec<String>> {
            let kinds = INTERFACE_KINDS.iter();
            kinds.map(|kind| ((*kind).to_owned(), of(kind))).collect()
        };
        let owned = |name: &&'static str| (*name).to_owned();
        let defaults = INTERFACE_KINDS.iter();
        Driver {
            name: self.name.to_owned(),
            hosts,
            defaults: defaults
                .map(|kind| ((*kind).to_owned(), self.default(kind).to_owned()))
                .collect(),
            enabled: each(&|kind| self.enabled(kind).iter().map(owned).collect()),
            properties: super::properties(self.name),
        }
    }

    fn of(known: &'static Known, settings: &config::Drivers) -> Result<Self, Error> {
        let mut interfaces = BTreeMap::new();
        for (kind, built) in known.interfaces {
            let mut names: Vec<&'static str> = built
                .iter()
                .copied()
                .filter(|name| match settings.interfaces.get(kind) {
                    None => true,
                    Some(enabled) => enabled.iter().any(|enabled| enabled == name),
                })
                .collect();
            let default = settings.defaults.get(kind);
            if let Some(at) = names
                .iter()
                .position(|name| default.is_some_and(|default| default == name))
            {
                let default = names.remove(at);
                names.insert(0, default);
            }
            if names.is_empty() {
                return Err(Error::Invalid(format!(
                    "[drivers.interfaces] {kind}: hardware type {} needs one of {}, found none of \
                     them; add one or take the type out of [drivers] hardware_types.",
                    known.name,
                    list(built)
                )));
            }
            interfaces.insert(kind, names);
        }
        Ok(Self {
            name: known.name,
            interfaces,
        })
    }
}

/// The hardware types on offer.
#[derive(Debug)]
pub struct Catalog {
    types: Vec<HardwareType>,
}

impl Catalog {
    /// What the settings leave of all that is built.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name that nothing has, and for a hardware type
    /// that is left without an interface of some kind.
    pub fn new(settings: &config::Drivers) -> Result<Self, Error> {
        check_names(settings)?;
        let wanted = |known: &&Known| match &settings.hardware_types {
            None => true,
            Some(names) => names.iter().any(|name| name == known.name),
        };
        let types: Vec<HardwareType> = KNOWN
            .iter()
            .filter(wanted)
            .map(|known| HardwareType::of(known, settings))
            .collect::<Result<_, _>>()?;
        if types.is_empty() {
            return Err(Error::Invalid(
                "[drivers] hardware_types: expected at least one, found none.".to_owned(),
            ));
        }
        Ok(Self { types })
    }

    /// All, by name.
    pub fn types(&self) -> &[HardwareType] {
        &self.types
    }

    /// The hardware type of that name.
    pub fn find(&self, name: &str) -> Option<&HardwareType> {
        self.types.iter().find(|known| known.name == name)
    }

    /// Gives the node the default of each interface that it has not chosen,
    /// and checks those that it has.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an unknown or disabled hardware type, kind or
    /// interface.
    pub fn resolve(&self, node: &mut Node) -> Result<(), Error> {
        let driver = self.find(&node.driver).ok_or_else(|| {
            Error::Invalid(format!(
                "No valid host was found. Reason: No conductor service registered which supports \
                 driver {} for conductor group \"{}\". Ensure the driver is valid and enabled.",
                node.driver, node.conductor_group
            ))
        })?;
        for kind in INTERFACE_KINDS {
            let chosen = node.interfaces.get(kind).filter(|name| !name.is_empty());
            let name = match chosen {
                Some(chosen) => {
                    let chosen = alias(kind, chosen);
                    self.check(driver, kind, chosen)?;
                    chosen.to_owned()
                }
                None => driver.default(kind).to_owned(),
            };
            node.interfaces.insert(kind.to_owned(), name);
        }
        let odd = node
            .interfaces
            .keys()
            .find(|kind| !INTERFACE_KINDS.contains(&kind.as_str()));
        match odd {
            Some(odd) => Err(Error::Invalid(format!(
                "There is no interface of the kind {odd:?}."
            ))),
            None => Ok(()),
        }
    }

    fn check(&self, driver: &HardwareType, kind: &str, name: &str) -> Result<(), Error> {
        if driver.enabled(kind).contains(&name) {
            return Ok(());
        }
        let of_types = self.types.iter().flat_map(|one| one.enabled(kind));
        let mut known: Vec<&str> = of_types.copied().collect();
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
}

/// Whether the settings name only what there is.
fn check_names(settings: &config::Drivers) -> Result<(), Error> {
    let types: Vec<&str> = KNOWN.iter().map(|known| known.name).collect();
    let named = settings.hardware_types.iter().flatten();
    check_among("hardware_types", &types, named)?;
    let kinds = settings.interfaces.keys().chain(settings.defaults.keys());
    check_among("interfaces", &INTERFACE_KINDS, kinds)?;
    for kind in INTERFACE_KINDS {
        let built = KNOWN.iter().flat_map(|known| &known.interfaces);
        let mut built: Vec<&str> = built
            .filter(|(of, _)| *of == kind)
            .flat_map(|(_, names)| names.iter().copied())
            .collect();
        built.sort_unstable();
        built.dedup();
        let enabled = settings.interfaces.get(kind).into_iter().flatten();
        check_among(kind, &built, enabled.chain(settings.defaults.get(kind)))?;
    }
    Ok(())
}

fn check_among<'a>(
    what: &str,
    known: &[&str],
    mut named: impl Iterator<Item = &'a String>,
) -> Result<(), Error> {
    match named.find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(odd) => Err(Error::Invalid(format!(
            "[drivers] {what}: expected names among {}, found '{odd}'.",
            list(known)
        ))),
    }
}

/// Names of the project's own documents for what Ironic calls otherwise.
fn alias<'a>(kind: &str, name: &'a str) -> &'a str {
    match (kind, name) {
        ("inspect", "inspector") => "agent",
        _ => name,
    }
}

fn list(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    format!("[{}]", quoted.join(", "))
}

#[cfg(test)]
mod tests {
    use wrought_store::node::INTERFACE_KINDS;

    use super::Catalog;
    use crate::config::Drivers;
    use crate::testing::node;

    fn all() -> Catalog {
        Catalog::new(&Drivers::default()).unwrap()
    }

    #[test]
    fn each_kind_has_a_default() {
        for hardware in all().types() {
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
        let catalog = all();
        let mut fresh = node("redfish");
        fresh.interfaces.clear();
        fresh
            .interfaces
            .insert("boot".to_owned(), "redfish-virtual-media".to_owned());
        catalog.resolve(&mut fresh).unwrap();
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
            let refused = catalog.resolve(&mut bad).unwrap_err();
            assert_eq!(refused.to_string(), text);
        }
    }

    #[test]
    fn settings_narrow_and_reorder() {
        let settings = Drivers {
            hardware_types: Some(vec!["redfish".to_owned()]),
            interfaces: [(
                "boot".to_owned(),
                vec!["redfish-virtual-media".to_owned(), "ipxe".to_owned()],
            )]
            .into(),
            defaults: [("boot".to_owned(), "redfish-virtual-media".to_owned())].into(),
        };
        let catalog = Catalog::new(&settings).unwrap();
        assert_eq!(catalog.types().len(), 1);
        let redfish = catalog.find("redfish").unwrap();
        assert_eq!(redfish.enabled("boot"), ["redfish-virtual-media", "ipxe"]);
        let gone = catalog.resolve(&mut node("ipmi")).unwrap_err();
        assert!(gone.to_string().contains("driver ipmi"), "{gone}");
    }

    #[test]
    fn settings_that_cannot_be_are_refused() {
        let with = |kind: &str, name: &str| Drivers {
            interfaces: [(kind.to_owned(), vec![name.to_owned()])].into(),
            ..Drivers::default()
        };
        let unknown = Drivers {
            hardware_types: Some(vec!["ilo".to_owned()]),
            ..Drivers::default()
        };
        let none = Drivers {
            hardware_types: Some(Vec::new()),
            ..Drivers::default()
        };
        for (settings, word) in [
            (unknown, "'ilo'"),
            (none, "at least one"),
            (with("boots", "ipxe"), "'boots'"),
            (with("boot", "floppy"), "'floppy'"),
            (with("power", "redfish"), "fake-hardware needs one of"),
        ] {
            let error = Catalog::new(&settings).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}

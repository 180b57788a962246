//! What becomes of inspections.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Deserialize;
use serde::Serialize;
use serde_json::Map;
use serde_json::Value;

/// CPU flags with the capabilities that Ironic makes of them.
const CPU_FLAGS: [(&str, &str); 6] = [
    ("vmx", "cpu_vt"),
    ("svm", "cpu_vt"),
    ("aes", "cpu_aes"),
    ("pse", "cpu_hugepages"),
    ("pdpe1gb", "cpu_hugepages_1g"),
    ("smx", "cpu_txt"),
];
/// Its number among the vendors of PCI devices.
const NVIDIA: &str = "10de";
/// The accelerators that Ironic knows.
const ACCELERATORS: [(&str, &str); 6] = [
    ("1eb8", "NVIDIA Corporation Tesla T4"),
    ("1df6", "NVIDIA Corporation GV100GL"),
    ("2236", "NVIDIA Corporation A10"),
    ("2235", "NVIDIA Corporation A40"),
    ("26b9", "NVIDIA Corporation L40S"),
    ("26ba", "NVIDIA Corporation L20"),
];

/// `[conductor.inspection]`
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Inspection {
    /// Seconds that a ramdisk may take to send what it found; 0: any time.
    pub timeout: u64,
    /// Whether the machine is switched off once that has come.
    pub power_off: bool,
    /// Parameters of the ramdisk of an inspection, `key=value` with blanks.
    pub extra_kernel_params: String,
    /// What is taken over from it, in this order.
    pub hooks: Vec<Hook>,
    /// Which NICs become ports.
    pub add_ports: AddPorts,
    /// Which ports stay.
    pub keep_ports: KeepPorts,
    /// Whether `pxe_enabled` of ports follows what the machine booted from.
    pub update_pxe_enabled: bool,
    /// CPU flags and the capabilities that they make (`cpu-capabilities`).
    pub cpu_capabilities: BTreeMap<String, String>,
    /// PCI devices that are counted in capabilities (`pci-devices`).
    pub pci_device_alias: Vec<PciAlias>,
    /// PCI devices that are accelerators (`accelerators`).
    pub known_accelerators: Vec<Accelerator>,
    /// Physical networks by the addresses in them (`physical-network`).
    pub physical_network_cidr_map: Vec<Network>,
    /// Whether `local_gb` leaves one GiB for partition tables (`root-device`).
    pub disk_partitioning_spacing: bool,
    /// Hardware type of the nodes that are made for machines that nobody
    /// knows; none: such machines are turned away.
    pub discovery_driver: Option<String>,
    /// Nodes that were made so and are still in `enroll`, at most.
    pub discovery_max: usize,
    /// Fields of a node that is made so, by their names in the API.
    pub discovery_fields: Map<String, Value>,
    /// URLs at and below which inspection rules may call (`api-call`).
    pub api_call_allow: Vec<String>,
}

impl Default for Inspection {
    fn default() -> Self {
        Self {
            timeout: 1800,
            power_off: true,
            extra_kernel_params: String::new(),
            hooks: vec![
                Hook::RamdiskError,
                Hook::ValidateInterfaces,
                Hook::Ports,
                Hook::Architecture,
            ],
            add_ports: AddPorts::default(),
            keep_ports: KeepPorts::default(),
            update_pxe_enabled: true,
            cpu_capabilities: CPU_FLAGS
                .map(|(flag, name)| (flag.to_owned(), name.to_owned()))
                .into(),
            pci_device_alias: Vec::new(),
            known_accelerators: ACCELERATORS.map(Accelerator::of).into(),
            physical_network_cidr_map: Vec::new(),
            disk_partitioning_spacing: true,
            discovery_driver: None,
            discovery_max: 100,
            discovery_fields: Map::new(),
            api_call_allow: Vec::new(),
        }
    }
}

/// One thing that is taken over from what a ramdisk found; the names are
/// Ironic's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hook {
    /// An error of the ramdisk ends the inspection.
    RamdiskError,
    /// Which NICs are real.
    ValidateInterfaces,
    /// NICs become ports.
    Ports,
    /// `properties.cpu_arch`.
    Architecture,
    /// `properties.cpus`.
    Cpus,
    /// `properties.memory_mb`.
    Memory,
    /// `properties.local_gb`, by the node's root device hints, else by the disk
    /// that the ramdisk would write to.
    RootDevice,
    /// The capability `boot_mode`.
    BootMode,
    /// Capabilities by CPU flags.
    CpuCapabilities,
    /// Capabilities that count PCI devices.
    PciDevices,
    /// `properties.accelerators`.
    Accelerators,
    /// `properties.root_device`, by the disk that was not there in the
    /// inspection before.
    RaidDevice,
    /// `local_link_connection` of ports, by what the switches say.
    LocalLinkConnection,
    /// What the switches say in words, in the plugin data.
    ParseLldp,
    /// `physical_network` of ports, by the addresses of the NICs.
    PhysicalNetwork,
}

impl Hook {
    /// As it is written in the configuration.
    pub(crate) fn name(self) -> String {
        let name = serde_json::to_value(self).ok();
        name.and_then(|name| name.as_str().map(str::to_owned))
            .unwrap_or_default()
    }

    /// Whether `validate-interfaces` must go before it.
    fn needs_interfaces(self) -> bool {
        matches!(
            self,
            Self::Ports | Self::LocalLinkConnection | Self::PhysicalNetwork
        )
    }
}

impl Inspection {
    /// Whether the hooks can do their work in their order.
    pub fn check(&self) -> Result<(), String> {
        let is_first = |hook: &Hook| *hook == Hook::ValidateInterfaces;
        let ready = self.hooks.iter().position(is_first);
        let early = self
            .hooks
            .iter()
            .position(|hook| hook.needs_interfaces())
            .filter(|at| ready.is_none_or(|ready| ready > *at));
        match early.and_then(|at| self.hooks.get(at)) {
            Some(hook) => Err(format!(
                "hooks: {} works on what validate-interfaces finds: put validate-interfaces \
                 before it",
                hook.name()
            )),
            None => Ok(()),
        }
    }
}

/// A kind of PCI device with a name; numbers are four hex digits.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PciAlias {
    /// Who made it.
    pub vendor_id: String,
    /// What it is.
    pub product_id: String,
    /// The capability that counts such devices.
    pub name: String,
}

/// A kind of accelerator; numbers are four hex digits. As it stands here, with
/// the device's address, it comes into `properties.accelerators`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Accelerator {
    /// Who made it.
    pub vendor_id: String,
    /// What it is.
    pub device_id: String,
    /// Such as `GPU`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its name for people.
    pub device_info: String,
}

impl Accelerator {
    fn of((device, info): (&str, &str)) -> Self {
        Self {
            vendor_id: NVIDIA.to_owned(),
            device_id: device.to_owned(),
            kind: "GPU".to_owned(),
            device_info: info.to_owned(),
        }
    }
}

/// Addresses of a physical network, written `192.0.2.0/24:name`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Network {
    address: IpAddr,
    prefix: u32,
    /// The network's name.
    pub name: String,
}

impl TryFrom<String> for Network {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let parse = || {
            let (network, name) = text.rsplit_once(':')?;
            let (address, prefix) = network.split_once('/')?;
            let (address, prefix): (IpAddr, u32) = (address.parse().ok()?, prefix.parse().ok()?);
            let width = if address.is_ipv4() { 32 } else { 128 };
            let name = name.trim();
            (prefix <= width && !name.is_empty()).then(|| Self {
                address,
                prefix,
                name: name.to_owned(),
            })
        };
        parse().ok_or_else(|| {
            format!("expected a network and its name such as 192.0.2.0/24:storage, found {text:?}")
        })
    }
}

impl Network {
    /// Whether the address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        let bits = |address: IpAddr, width: u32| {
            let bits = match address {
                IpAddr::V4(v4) => u128::from(v4.to_bits()),
                IpAddr::V6(v6) => v6.to_bits(),
            };
            bits.checked_shr(width.saturating_sub(self.prefix))
                .unwrap_or(0)
        };
        match (self.address, address) {
            (IpAddr::V4(_), IpAddr::V4(_)) => bits(self.address, 32) == bits(address, 32),
            (IpAddr::V6(_), IpAddr::V6(_)) => bits(self.address, 128) == bits(address, 128),
            _ => false,
        }
    }
}

/// Which NICs become ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AddPorts {
    /// The one that the machine booted from; when that is not known, all.
    #[default]
    Pxe,
    /// Those with an address.
    Active,
    /// All.
    All,
    /// None.
    Disabled,
}

impl AddPorts {
    /// As it is written in the configuration.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pxe => "pxe",
            Self::Active => "active",
            Self::All => "all",
            Self::Disabled => "disabled",
        }
    }
}

/// Which ports of an inspected node stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeepPorts {
    /// All.
    #[default]
    All,
    /// Those whose NIC was found.
    Present,
    /// Those whose NIC becomes a port.
    Added,
}

#[cfg(test)]
mod tests {
    use super::Hook;
    use super::Inspection;
    use super::Network;

    #[test]
    fn hooks_go_in_an_order_that_works() {
        let with = |hooks: &[Hook]| Inspection {
            hooks: hooks.to_vec(),
            ..Inspection::default()
        };
        Inspection::default().check().unwrap();
        with(&[]).check().unwrap();
        with(&[Hook::ParseLldp, Hook::Memory]).check().unwrap();
        for hooks in [
            [Hook::Ports, Hook::ValidateInterfaces],
            [Hook::Architecture, Hook::PhysicalNetwork],
        ] {
            let problem = with(&hooks).check().unwrap_err();
            assert!(
                problem.contains("put validate-interfaces before it"),
                "{problem}"
            );
        }
        for name in [
            "local-link-connection",
            "parse-lldp",
            "raid-device",
            "cpu-capabilities",
        ] {
            let text = format!("\"{name}\"");
            assert!(serde_json::from_str::<Hook>(&text).is_ok(), "{name}");
        }
    }

    #[test]
    fn networks_with_names() {
        let network = |text: &str| Network::try_from(text.to_owned());
        for (text, inside, outside) in [
            ("192.0.2.0/24:a", "192.0.2.200", "192.0.3.1"),
            ("2001:db8::/64:a", "2001:db8::7", "192.0.2.1"),
            ("0.0.0.0/0:a", "198.51.100.1", "::1"),
            ("192.0.2.7/32:a", "192.0.2.7", "192.0.2.8"),
        ] {
            let network = network(text).unwrap();
            assert_eq!(network.name, "a");
            assert!(network.contains(inside.parse().unwrap()), "{text}");
            assert!(!network.contains(outside.parse().unwrap()), "{text}");
        }
        for text in [
            "192.0.2.0/33:a",
            "192.0.2.0:a",
            "a/8:b",
            "192.0.2.0/24:",
            "x",
        ] {
            assert!(
                network(text).unwrap_err().contains("expected a network"),
                "{text}"
            );
        }
    }

    /// Each setting is on the page.
    #[test]
    fn inspection_settings_are_documented() {
        let page = include_str!("../../../docs/inspection.md");
        let source = include_str!("inspection.rs");
        let from = source.find("pub struct Inspection {").unwrap();
        let fields = source[from..].split("\n}").next().unwrap();
        let names = fields
            .lines()
            .filter_map(|line| line.trim().strip_prefix("pub ")?.split_once(':'))
            .map(|(name, _)| name);
        let mut count = 0;
        for name in names {
            assert!(page.contains(&format!("`{name}`")), "{name} is not in docs");
            count += 1;
        }
        assert!(count > 12, "{count}");
    }
}

//! Drivers as composition: a hardware type names, for each of the thirteen
//! interface kinds, the implementations that a node may choose from; what a
//! node has chosen is looked up here and called as a trait object.
//!
//! A new implementation is one file with its trait, one line in one of the
//! tables below and its name in [`catalog`].

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use wrought_bmc::redfish::BootMode;
use wrought_bmc::redfish::PowerAction;
use wrought_rpc::Indicator;
use wrought_rpc::Media;
use wrought_rpc::MediaDevice;
use wrought_store::node::Node;
use wrought_store::port::Port;
use wrought_wire::state::BootDevice;
use wrought_wire::state::IndicatorState;
use wrought_wire::state::MediaKind;
use wrought_wire::state::PowerState;
use wrought_wire::step::Step;

use crate::error::Error;
use crate::service::Service;
use crate::steps::Kind;
use crate::steps::Outcome;
use crate::task::Task;

pub mod bmc;
pub mod boot_mode;
pub mod catalog;
mod direct;
mod fake;
pub(crate) mod image;
mod inspect;
mod ipmi;
mod ipxe;
mod redfish;
mod vmedia;

pub(crate) mod console;
pub(crate) mod network;
pub(crate) mod readings;
pub(crate) mod rescue;
pub(crate) mod vendor;

/// Switching a machine on and off.
#[async_trait]
pub trait Power: Send + Sync {
    /// Whether the node's settings suffice.
    fn validate(&self, svc: &Service, node: &Node) -> Result<(), Error>;
    /// Reads the state.
    async fn state(&self, svc: &Service, node: &Node) -> Result<PowerState, Error>;
    /// Brings a state about, waiting no longer than `within`.
    async fn reach(
        &self,
        svc: &Service,
        node: &Node,
        action: PowerAction,
        within: Duration,
    ) -> Result<PowerState, Error>;
}

/// What the firmware says of itself; none where the driver cannot tell.
#[derive(Debug, Default)]
pub struct Observed {
    /// The mode in which it boots.
    pub boot_mode: Option<BootMode>,
    /// Whether it boots securely.
    pub secure_boot: Option<bool>,
    /// `OK`, `Warning` or `Critical`.
    pub health: Option<String>,
}

/// Boot devices, and what else a BMC is asked for. What an implementation
/// leaves out, it does not support.
#[async_trait]
pub trait Management: Send + Sync {
    /// Whether the node's settings suffice.
    fn validate(&self, svc: &Service, node: &Node) -> Result<(), Error>;
    /// Devices that can be set.
    async fn boot_devices(&self, svc: &Service, node: &Node) -> Result<Vec<BootDevice>, Error>;
    /// The device and whether it holds for good.
    async fn boot_device(
        &self,
        svc: &Service,
        node: &Node,
    ) -> Result<(Option<BootDevice>, Option<bool>), Error>;
    /// Sets it.
    async fn set_boot_device(
        &self,
        svc: &Service,
        node: &Node,
        device: BootDevice,
        persistent: bool,
        mode: Option<BootMode>,
    ) -> Result<(), Error>;
    /// Steps that check a node on its way to `manageable`; they may be run
    /// again at any time.
    fn verify_steps(&self, _node: &Node) -> Vec<Step> {
        Vec::new()
    }
    /// Runs one of them.
    async fn verify(&self, task: &mut Task, step: &Step) -> Result<(), Error> {
        Err(unsupported(&task.node, &step.step))
    }
    /// Reads what the firmware says of itself.
    async fn observe(&self, _svc: &Service, _node: &Node) -> Result<Observed, Error> {
        Ok(Observed::default())
    }
    /// Sets the boot mode.
    async fn set_boot_mode(&self, _: &Service, node: &Node, _: BootMode) -> Result<(), Error> {
        Err(unsupported(node, "set_boot_mode"))
    }
    /// Switches secure boot.
    async fn set_secure_boot(&self, _: &Service, node: &Node, _: bool) -> Result<(), Error> {
        Err(unsupported(node, "set_secure_boot_state"))
    }
    /// Sends a non-maskable interrupt.
    async fn inject_nmi(&self, _: &Service, node: &Node) -> Result<(), Error> {
        Err(unsupported(node, "inject_nmi"))
    }
    /// The indicators with their states.
    async fn indicators(
        &self,
        _: &Service,
        node: &Node,
    ) -> Result<Vec<(Indicator, IndicatorState)>, Error> {
        Err(unsupported(node, "get_supported_indicators"))
    }
    /// Sets an indicator that is there.
    async fn set_indicator(
        &self,
        _: &Service,
        node: &Node,
        _: &Indicator,
        _: IndicatorState,
    ) -> Result<(), Error> {
        Err(unsupported(node, "set_indicator_state"))
    }
    /// Devices for virtual media.
    async fn media(&self, _: &Service, node: &Node) -> Result<Vec<MediaDevice>, Error> {
        Err(unsupported(node, "get_virtual_media"))
    }
    /// Puts an image into a device of that kind.
    async fn attach_media(&self, _: &Service, node: &Node, _: &Media) -> Result<(), Error> {
        Err(unsupported(node, "attach_virtual_media"))
    }
    /// Empties the devices of these kinds.
    async fn detach_media(&self, _: &Service, node: &Node, _: &[MediaKind]) -> Result<(), Error> {
        Err(unsupported(node, "detach_virtual_media"))
    }
}

/// Bringing the ramdisk or the instance up at the next start.
#[async_trait]
pub trait Boot: Send + Sync {
    /// Whether the settings of the node and its ports suffice.
    fn validate(&self, svc: &Service, node: &Node, ports: &[Port]) -> Result<(), Error>;
    /// Makes the next start of the machine, which is off, boot the ramdisk.
    async fn prepare_ramdisk(&self, task: &mut Task) -> Result<(), Error>;
    /// Takes back what [`Boot::prepare_ramdisk`] has put up.
    async fn clean_up_ramdisk(&self, task: &mut Task) -> Result<(), Error>;
    /// Makes the machine boot its disk from now on.
    async fn prepare_instance(&self, task: &mut Task) -> Result<(), Error>;
}

/// Deploying and cleaning.
#[async_trait]
pub trait Deploy: Send + Sync {
    /// Whether the instance's settings suffice.
    fn validate(&self, svc: &Service, node: &Node) -> Result<(), Error>;
    /// Whether cleaning boots the ramdisk and takes its steps from there.
    fn cleans_by_agent(&self) -> bool;
    /// Steps of its own, without those of the agent.
    fn steps(&self, kind: Kind, node: &Node) -> Vec<Step>;
    /// Whether the agent runs this step.
    fn is_in_band(&self, step: &Step) -> bool;
    /// Runs a step, or starts it in the agent.
    async fn run(&self, task: &mut Task, kind: Kind, step: &Step) -> Result<Outcome, Error>;
    /// Takes note of a step's result from the agent.
    async fn ended(&self, task: &mut Task, step: &Step, result: &Value) -> Result<(), Error>;
    /// Brings the machine to rest before cleaning (tear-down).
    async fn tear_down(&self, task: &mut Task) -> Result<(), Error>;
}

/// Finding out what a machine is.
#[async_trait]
pub trait Inspect: Send + Sync {
    /// Whether the settings of the node and its ports suffice.
    fn validate(&self, svc: &Service, node: &Node, ports: &[Port]) -> Result<(), Error>;
    /// Begins, or does, an inspection.
    async fn inspect(&self, task: &mut Task) -> Result<Inspection, Error>;
}

/// How far an inspection is after it was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inspection {
    /// All is known.
    Finished,
    /// The ramdisk will send what it finds.
    Waiting,
}

type Table<T> = &'static [(&'static str, &'static T)];

const POWER: Table<dyn Power> = &[
    ("fake", &fake::Fake),
    ("ipmitool", &ipmi::Ipmitool),
    ("redfish", &redfish::Redfish),
];
const MANAGEMENT: Table<dyn Management> = &[
    ("fake", &fake::Fake),
    ("ipmitool", &ipmi::Ipmitool),
    ("noop", &fake::Noop),
    ("redfish", &redfish::Redfish),
];
const BOOT: Table<dyn Boot> = &[
    ("fake", &fake::Fake),
    ("ipxe", &ipxe::Ipxe),
    ("redfish-virtual-media", &vmedia::VirtualMedia),
];
const DEPLOY: Table<dyn Deploy> = &[
    ("fake", &fake::Fake),
    ("direct", &direct::Direct),
    // The only one that `autodetect` can find so far.
    ("autodetect", &direct::Direct),
];

const INSPECT: Table<dyn Inspect> = &[
    ("fake", &fake::Fake),
    ("agent", &inspect::Agent),
    ("redfish", &redfish::Redfish),
];

fn look_up<T: ?Sized>(table: Table<T>, kind: &str, node: &Node) -> Result<&'static T, Error> {
    let name = node.interfaces.get(kind).map_or("", String::as_str);
    table
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, found)| *found)
        .ok_or_else(|| unsupported(node, kind))
}

/// The node's driver cannot do it.
pub(crate) fn unsupported(node: &Node, extension: &str) -> Error {
    Error::Unsupported {
        driver: node.driver.clone(),
        extension: extension.to_owned(),
    }
}

/// The node's power interface.
pub fn power(node: &Node) -> Result<&'static dyn Power, Error> {
    look_up(POWER, "power", node)
}

/// The node's management interface.
pub fn management(node: &Node) -> Result<&'static dyn Management, Error> {
    look_up(MANAGEMENT, "management", node)
}

/// The node's boot interface.
pub fn boot(node: &Node) -> Result<&'static dyn Boot, Error> {
    look_up(BOOT, "boot", node)
}

/// The node's deploy interface.
pub fn deploy(node: &Node) -> Result<&'static dyn Deploy, Error> {
    look_up(DEPLOY, "deploy", node)
}

/// The node's inspect interface.
pub fn inspect(node: &Node) -> Result<&'static dyn Inspect, Error> {
    look_up(INSPECT, "inspect", node)
}

/// The node's console interface.
pub fn console(node: &Node) -> Result<&'static dyn console::Console, Error> {
    look_up(console::CONSOLE, "console", node)
}

/// The node's network interface.
pub fn network(node: &Node) -> Result<&'static dyn network::Network, Error> {
    look_up(network::NETWORK, "network", node)
}

/// The node's rescue interface.
pub fn rescue(node: &Node) -> Result<&'static dyn rescue::Rescue, Error> {
    look_up(rescue::RESCUE, "rescue", node)
}

/// The node's vendor interface.
pub fn vendor(node: &Node) -> Result<&'static dyn vendor::Vendor, Error> {
    look_up(vendor::VENDOR, "vendor", node)
}

/// The part `key` of `properties.capabilities` or of an object or text alike:
/// `boot_mode:uefi,secure_boot:true`.
pub fn capability(of: Option<&Value>, key: &str) -> Option<String> {
    match of? {
        Value::String(text) => {
            // A JSON object in a text is in use as well.
            if let Ok(Value::Object(map)) = serde_json::from_str(text) {
                return capability(Some(&Value::Object(map)), key);
            }
            text.split(',')
                .filter_map(|pair| pair.split_once(':'))
                .find(|(name, _)| name.trim() == key)
                .map(|(_, value)| value.trim().to_owned())
        }
        Value::Object(map) => match map.get(key)? {
            Value::String(text) => Some(text.clone()),
            Value::Bool(yes) => Some(yes.to_string()),
            _ => None,
        },
        _ => None,
    }
}

/// `driver_info` properties of a hardware type with descriptions.
pub fn properties(driver: &str) -> BTreeMap<String, String> {
    let lists: &[&[(&str, &str)]] = match driver {
        "ipmi" => &[ipmi::PROPERTIES, image::RAMDISK_PROPERTIES],
        "redfish" => &[redfish::PROPERTIES, image::RAMDISK_PROPERTIES],
        _ => &[image::RAMDISK_PROPERTIES],
    };
    let pairs = lists.iter().flat_map(|list| list.iter());
    pairs
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::capability;

    #[test]
    fn capabilities_in_each_form() {
        let text = json!("secure_boot:true, boot_mode:uefi");
        assert_eq!(
            capability(Some(&text), "boot_mode").as_deref(),
            Some("uefi")
        );
        let text = json!("{\"boot_mode\": \"bios\"}");
        assert_eq!(
            capability(Some(&text), "boot_mode").as_deref(),
            Some("bios")
        );
        let map = json!({"boot_mode": "bios", "secure_boot": true});
        assert_eq!(
            capability(Some(&map), "secure_boot").as_deref(),
            Some("true")
        );
        assert_eq!(capability(Some(&json!("boot_mode")), "boot_mode"), None);
        assert_eq!(capability(None, "boot_mode"), None);
    }
}

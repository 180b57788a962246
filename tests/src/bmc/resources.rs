//! The bodies of the BMC's resources.

use serde_json::Value;
use serde_json::json;

use super::machine::Lasting;
use super::machine::Override;
use crate::qemu::BootFrom;
use crate::qemu::Firmware;

/// The one system's path.
pub const SYSTEM: &str = "/redfish/v1/Systems/1";
/// The one manager's path.
pub const MANAGER: &str = "/redfish/v1/Managers/1";
/// Reset types that are understood.
pub const RESETS: [&str; 7] = [
    "On",
    "ForceOn",
    "ForceOff",
    "GracefulShutdown",
    "ForceRestart",
    "GracefulRestart",
    "PowerCycle",
];

/// The service root, the only resource that needs no account.
pub fn root() -> Value {
    json!({
        "@odata.id": "/redfish/v1/",
        "@odata.type": "#ServiceRoot.v1_9_0.ServiceRoot",
        "Id": "RootService",
        "Name": "Root Service",
        "RedfishVersion": "1.11.0",
        "Vendor": "Wrought harness",
        "Systems": {"@odata.id": "/redfish/v1/Systems"},
        "Managers": {"@odata.id": "/redfish/v1/Managers"},
        "Chassis": {"@odata.id": "/redfish/v1/Chassis"},
        "SessionService": {"@odata.id": "/redfish/v1/SessionService"},
        "Links": {"Sessions": {"@odata.id": "/redfish/v1/SessionService/Sessions"}},
    })
}

/// A collection with the given members.
pub fn collection(path: &str, name: &str, members: &[&str]) -> Value {
    let members: Vec<Value> = members.iter().map(|id| json!({"@odata.id": id})).collect();
    json!({
        "@odata.id": path,
        "@odata.type": format!("#{name}Collection.{name}Collection"),
        "Name": format!("{name} Collection"),
        "Members@odata.count": members.len(),
        "Members": members,
    })
}

/// A system as its BMC sees it.
#[derive(Debug)]
pub struct System<'a> {
    /// Its path.
    pub path: &'a str,
    /// Path of the manager.
    pub manager: &'a str,
    /// Its name, which is its serial number too.
    pub name: &'a str,
    /// SMBIOS UUID.
    pub uuid: String,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Processors.
    pub cpus: u32,
    /// Whether it is on.
    pub on: bool,
    /// The boot override.
    pub boot: Override,
    /// What it boots with.
    pub firmware: Firmware,
}

/// The system, with its power and boot override.
pub fn system(system: &System<'_>) -> Value {
    let path = system.path;
    let id = path.rsplit('/').next();
    json!({
        "@odata.id": path,
        "@odata.type": "#ComputerSystem.v1_13_0.ComputerSystem",
        "Id": id,
        "Name": system.name,
        "UUID": system.uuid,
        "SystemType": "Physical",
        "Manufacturer": "QEMU",
        "Model": "q35",
        "SerialNumber": system.name,
        "PowerState": if system.on { "On" } else { "Off" },
        "Status": {"State": "Enabled", "Health": "OK"},
        "MemorySummary": {"TotalSystemMemoryGiB": f64::from(system.memory_mib) / 1024.0},
        "ProcessorSummary": {"Count": system.cpus},
        "Boot": {
            "BootSourceOverrideEnabled": lasting(system.boot.lasting),
            "BootSourceOverrideTarget": target(system.boot),
            "BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Pxe", "Hdd", "Cd"],
            "BootSourceOverrideMode": mode(system.firmware),
            "BootSourceOverrideMode@Redfish.AllowableValues": ["UEFI", "Legacy"],
        },
        "EthernetInterfaces": {"@odata.id": format!("{path}/EthernetInterfaces")},
        "Actions": {"#ComputerSystem.Reset": {
            "target": format!("{path}/Actions/ComputerSystem.Reset"),
            "ResetType@Redfish.AllowableValues": RESETS,
        }},
        "Links": {
            "ManagedBy": [{"@odata.id": system.manager}],
            "Chassis": [{"@odata.id": "/redfish/v1/Chassis/1"}],
        },
    })
}

/// The manager at `path`, that is the BMC itself, of the system at `system`.
pub fn manager(path: &str, system: &str) -> Value {
    json!({
        "@odata.id": path,
        "@odata.type": "#Manager.v1_10_0.Manager",
        "Id": path.rsplit('/').next(),
        "Name": "BMC",
        "ManagerType": "BMC",
        "FirmwareVersion": env!("CARGO_PKG_VERSION"),
        "Status": {"State": "Enabled", "Health": "OK"},
        "VirtualMedia": {"@odata.id": format!("{path}/VirtualMedia")},
        "Links": {"ManagerForServers": [{"@odata.id": system}]},
    })
}

/// The virtual CD drive of the manager at `manager`, with the URL of the image
/// in it.
pub fn virtual_cd(manager: &str, url: Option<&str>) -> Value {
    let path = format!("{manager}/VirtualMedia/Cd");
    json!({
        "@odata.id": path,
        "@odata.type": "#VirtualMedia.v1_3_0.VirtualMedia",
        "Id": "Cd",
        "Name": "Virtual CD",
        "MediaTypes": ["CD", "DVD"],
        "ConnectedVia": if url.is_some() { "URI" } else { "NotConnected" },
        "Inserted": url.is_some(),
        "WriteProtected": true,
        "ImageName": url.and_then(|url| url.rsplit('/').next()),
        "Image": url,
        "Actions": {
            "#VirtualMedia.InsertMedia": {
                "target": format!("{path}/Actions/VirtualMedia.InsertMedia"),
            },
            "#VirtualMedia.EjectMedia": {
                "target": format!("{path}/Actions/VirtualMedia.EjectMedia"),
            },
        },
    })
}

/// The one NIC of the system at `system`.
pub fn nic(system: &str, mac: &str) -> Value {
    json!({
        "@odata.id": format!("{system}/EthernetInterfaces/1"),
        "@odata.type": "#EthernetInterface.v1_6_0.EthernetInterface",
        "Id": "1",
        "Name": "NIC 1",
        "MACAddress": mac,
        "PermanentMACAddress": mac,
        "Status": {"State": "Enabled", "Health": "OK"},
    })
}

/// The chassis; nothing depends on more of it.
pub fn chassis() -> Value {
    json!({
        "@odata.id": "/redfish/v1/Chassis/1",
        "@odata.type": "#Chassis.v1_14_0.Chassis",
        "Id": "1",
        "Name": "Chassis",
        "ChassisType": "RackMount",
        "Links": {"ComputerSystems": [{"@odata.id": SYSTEM}]},
    })
}

/// Reads a boot override from a PATCH's `Boot` object on top of `now`.
pub fn parse_override(boot: &Value, now: Override) -> Result<Override, String> {
    let mut new = now;
    if let Some(text) = string(boot, "BootSourceOverrideTarget")? {
        new.target = match text {
            "None" => BootFrom::Default,
            "Pxe" => BootFrom::Network,
            "Hdd" => BootFrom::Disk,
            "Cd" => BootFrom::Cd,
            _ => {
                return Err(format!(
                    "BootSourceOverrideTarget {text:?} is not supported"
                ));
            }
        };
        // DSP0266: None as the target means no override.
        if text == "None" {
            new.lasting = Lasting::Disabled;
        }
    }
    if let Some(text) = string(boot, "BootSourceOverrideEnabled")? {
        new.lasting = match text {
            "Disabled" => Lasting::Disabled,
            "Once" => Lasting::Once,
            "Continuous" => Lasting::Continuous,
            _ => {
                return Err(format!(
                    "BootSourceOverrideEnabled {text:?} is not supported"
                ));
            }
        };
    }
    if new.lasting == Lasting::Disabled {
        new = Override::NONE;
    }
    Ok(new)
}

/// Reads `BootSourceOverrideMode`.
pub fn parse_mode(boot: &Value) -> Result<Option<Firmware>, String> {
    match string(boot, "BootSourceOverrideMode")? {
        None => Ok(None),
        Some("UEFI") => Ok(Some(Firmware::Uefi)),
        Some("Legacy") => Ok(Some(Firmware::Bios)),
        Some(other) => Err(format!("BootSourceOverrideMode {other:?} is not supported")),
    }
}

fn string<'a>(object: &'a Value, key: &str) -> Result<Option<&'a str>, String> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(format!("{key} is {other}, expected a string")),
    }
}

fn lasting(lasting: Lasting) -> &'static str {
    match lasting {
        Lasting::Disabled => "Disabled",
        Lasting::Once => "Once",
        Lasting::Continuous => "Continuous",
    }
}

fn target(boot: Override) -> &'static str {
    match boot.next_boot() {
        BootFrom::Default => "None",
        BootFrom::Network => "Pxe",
        BootFrom::Disk => "Hdd",
        BootFrom::Cd => "Cd",
    }
}

fn mode(firmware: Firmware) -> &'static str {
    match firmware {
        Firmware::Uefi => "UEFI",
        Firmware::Bios => "Legacy",
    }
}

#[cfg(test)]
mod tests {
    use super::parse_override;
    use crate::bmc::machine::Lasting;
    use crate::bmc::machine::Override;
    use crate::qemu::BootFrom;
    use serde_json::json;

    #[test]
    fn overrides_are_read_member_by_member() {
        let pxe = json!({"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once"});
        let once = parse_override(&pxe, Override::NONE).unwrap();
        assert_eq!(
            once,
            Override {
                target: BootFrom::Network,
                lasting: Lasting::Once
            }
        );
        let longer = json!({"BootSourceOverrideEnabled": "Continuous"});
        assert_eq!(
            parse_override(&longer, once).unwrap().target,
            BootFrom::Network
        );
        let off = json!({"BootSourceOverrideEnabled": "Disabled"});
        assert_eq!(parse_override(&off, once).unwrap(), Override::NONE);
        assert!(parse_override(&json!({"BootSourceOverrideTarget": "Sd"}), once).is_err());
        assert!(parse_override(&json!({"BootSourceOverrideTarget": 1}), once).is_err());
    }
}

//! The steps that this agent has by itself.

use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use crate::burnin::Test;

/// What steps are run for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Clean,
    Deploy,
    Service,
}

/// What our steps do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    WriteImage,
    EraseMetadata,
    EraseAll,
    EraseExpress,
    BurnIn(Test),
    RaidCreate,
    RaidDelete,
    RaidApply,
    ErasePstore,
    CleanNvram,
}

/// One step with its priority for each purpose; `None` where it is not
/// offered. 0 runs only when it is asked for.
pub(super) struct Offer {
    pub(super) interface: &'static str,
    pub(super) name: &'static str,
    pub(super) action: Action,
    pub(super) clean: Option<i64>,
    pub(super) deploy: Option<i64>,
    pub(super) service: Option<i64>,
}

const fn burn_in(name: &'static str, test: Test, service: Option<i64>) -> Offer {
    Offer {
        interface: "deploy",
        name,
        action: Action::BurnIn(test),
        clean: Some(0),
        deploy: None,
        service,
    }
}

const fn raid(
    name: &'static str,
    action: Action,
    (clean, deploy): (Option<i64>, Option<i64>),
) -> Offer {
    Offer {
        interface: "raid",
        name,
        action,
        clean,
        deploy,
        service: Some(0),
    }
}

/// All of them.
pub(super) const OFFERS: [Offer; 13] = [
    Offer {
        interface: "deploy",
        name: "erase_devices",
        action: Action::EraseAll,
        clean: Some(10),
        deploy: None,
        service: None,
    },
    Offer {
        interface: "deploy",
        name: "erase_devices_metadata",
        action: Action::EraseMetadata,
        clean: Some(99),
        deploy: Some(0),
        service: None,
    },
    Offer {
        interface: "deploy",
        name: "erase_devices_express",
        action: Action::EraseExpress,
        clean: Some(0),
        deploy: None,
        service: None,
    },
    Offer {
        interface: "deploy",
        name: "write_image",
        action: Action::WriteImage,
        clean: None,
        deploy: Some(0),
        service: Some(0),
    },
    Offer {
        interface: "deploy",
        name: "erase_pstore",
        action: Action::ErasePstore,
        clean: Some(0),
        deploy: None,
        service: None,
    },
    Offer {
        interface: "deploy",
        name: "clean_uefi_nvram",
        action: Action::CleanNvram,
        clean: Some(0),
        deploy: Some(0),
        service: None,
    },
    burn_in("burnin_cpu", Test::Cpu, Some(0)),
    burn_in("burnin_memory", Test::Memory, Some(0)),
    // It overwrites the disks of whoever is served.
    burn_in("burnin_disk", Test::Disk, None),
    burn_in("burnin_network", Test::Network, Some(0)),
    raid("create_configuration", Action::RaidCreate, (Some(0), None)),
    raid("delete_configuration", Action::RaidDelete, (Some(0), None)),
    raid("apply_configuration", Action::RaidApply, (None, Some(0))),
];

impl Offer {
    pub(super) fn priority(&self, purpose: Purpose) -> Option<i64> {
        match purpose {
            Purpose::Clean => self.clean,
            Purpose::Deploy => self.deploy,
            Purpose::Service => self.service,
        }
    }

    /// The members of the step on the wire, beside name, interface and
    /// priority.
    pub(super) fn shown(&self, purpose: Purpose) -> Map<String, Value> {
        let mut shown = Map::new();
        shown.insert("reboot_requested".to_owned(), false.into());
        shown.insert("abortable".to_owned(), (purpose == Purpose::Clean).into());
        // Made twice would mean to be refused, or to delete what was made.
        let repeatable = !matches!(self.action, Action::RaidCreate | Action::RaidApply);
        shown.insert("repeatable".to_owned(), repeatable.into());
        if let Some(argsinfo) = self.argsinfo() {
            shown.insert("argsinfo".to_owned(), argsinfo);
        }
        shown
    }

    fn argsinfo(&self) -> Option<Value> {
        let argument =
            |text: &str, required: bool| json!({"description": text, "required": required});
        match self.action {
            Action::WriteImage => Some(json!({
                "image_info": argument(
                    "The image: id, urls, disk_format and its checksum.",
                    true,
                ),
                "configdrive": argument(
                    "The config drive: an object with meta_data, user_data, network_data and \
                     vendor_data, Base64 of an image, or a URL.",
                    false,
                ),
            })),
            Action::RaidCreate => Some(json!({
                "create_root_volume": argument(
                    "Whether the root volume is made. True by default.",
                    false,
                ),
                "create_nonroot_volumes": argument(
                    "Whether the other volumes are made. True by default.",
                    false,
                ),
                "delete_existing": argument(
                    "Whether arrays that are there are deleted before. False by default.",
                    false,
                ),
            })),
            Action::RaidApply => Some(json!({
                "raid_config": argument(
                    "The RAID that is to be: an object with logical_disks.",
                    true,
                ),
                "delete_existing": argument(
                    "Whether arrays that are there are deleted before. True by default.",
                    false,
                ),
            })),
            Action::CleanNvram => Some(json!({
                "match_patterns": argument(
                    "Regular expressions; a boot entry in whose device path one is found is \
                     removed. By default those of partitions, and of shim and GRUB.",
                    false,
                ),
            })),
            Action::EraseMetadata
            | Action::EraseAll
            | Action::EraseExpress
            | Action::ErasePstore
            | Action::RaidDelete
            | Action::BurnIn(_) => None,
        }
    }
}

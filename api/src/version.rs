//! Microversions: what a request asks for and what first came when.

use axum::http::HeaderMap;
use wrought_wire::microversion::BadVersion;
use wrought_wire::microversion::HEADER;
use wrought_wire::microversion::HEADER_GENERIC;
use wrought_wire::microversion::Microversion;

use crate::error::ApiError;
use crate::error::Result;

/// First versions of what is not a field of a resource, as the N of 1.N.
/// Fields have theirs in the field tables of their resources.
pub(crate) mod since {
    /// `available` is shown; before, it was null.
    pub(crate) const AVAILABLE: u16 = 2;
    /// Nodes can be addressed by name.
    pub(crate) const NAMES: u16 = 5;
    /// `?fields=`.
    pub(crate) const FIELDS: u16 = 8;
    /// Node names may be more than host names.
    pub(crate) const LONG_NAMES: u16 = 10;
    /// New nodes start in `enroll`.
    pub(crate) const ENROLL: u16 = 11;
    /// Links to `states` and driver `properties`.
    pub(crate) const STATES_LINK: u16 = 14;
    /// RAID configuration.
    pub(crate) const RAID: u16 = 12;
    /// `lookup` and `heartbeat`.
    pub(crate) const RAMDISK: u16 = 22;
    /// Portgroups.
    pub(crate) const PORTGROUPS: u16 = 23;
    /// Ports in portgroups and the portgroups of a node.
    pub(crate) const NESTED_PORTGROUPS: u16 = 24;
    /// Soft power actions and `timeout`.
    pub(crate) const SOFT_POWER: u16 = 27;
    /// Virtual interfaces.
    pub(crate) const VIFS: u16 = 28;
    /// Non-maskable interrupts.
    pub(crate) const INJECT_NMI: u16 = 29;
    /// Driver types and their interfaces.
    pub(crate) const DYNAMIC_DRIVERS: u16 = 30;
    /// Volumes.
    pub(crate) const VOLUME: u16 = 32;
    /// A config drive with `rebuild`.
    pub(crate) const REBUILD_CONFIGDRIVE: u16 = 35;
    /// `agent_version` in heartbeats.
    pub(crate) const AGENT_VERSION: u16 = 36;
    /// Traits.
    pub(crate) const TRAITS: u16 = 37;
    /// `inspect wait` is shown; before, it was `inspecting`.
    pub(crate) const INSPECT_WAIT: u16 = 39;
    /// BIOS settings.
    pub(crate) const BIOS: u16 = 40;
    /// `?detail=`.
    pub(crate) const DETAIL: u16 = 43;
    /// `?reset_interfaces=`.
    pub(crate) const RESET_INTERFACES: u16 = 45;
    /// Conductors.
    pub(crate) const CONDUCTORS: u16 = 49;
    /// Allocations.
    pub(crate) const ALLOCATIONS: u16 = 52;
    /// Changes of allocations.
    pub(crate) const ALLOCATION_CHANGES: u16 = 57;
    /// Allocations for what a node has already.
    pub(crate) const BACKFILL: u16 = 58;
    /// Owners of allocations.
    pub(crate) const ALLOCATION_OWNER: u16 = 60;
    /// Events.
    pub(crate) const EVENTS: u16 = 54;
    /// Deploy templates.
    pub(crate) const DEPLOY_TEMPLATES: u16 = 55;
    /// A config drive as an object.
    pub(crate) const CONFIGDRIVE_OBJECT: u16 = 56;
    /// `vendor_data` in it.
    pub(crate) const VENDOR_DATA: u16 = 59;
    /// Agent tokens.
    pub(crate) const AGENT_TOKEN: u16 = 62;
    /// `network_type` of a port's `local_link_connection`.
    pub(crate) const NETWORK_TYPE: u16 = 64;
    /// Port or portgroup of a virtual interface.
    pub(crate) const VIF_PLACES: u16 = 67;
    /// `agent_verify_ca` in heartbeats.
    pub(crate) const AGENT_VERIFY_CA: u16 = 68;
    /// Steps with a deployment.
    pub(crate) const DEPLOY_STEPS: u16 = 69;
    /// `disable_ramdisk` with `clean`.
    pub(crate) const DISABLE_RAMDISK: u16 = 70;
    /// `agent_status` in heartbeats.
    pub(crate) const AGENT_STATUS: u16 = 72;
    /// What the BIOS's registry says of settings.
    pub(crate) const BIOS_REGISTRY: u16 = 74;
    /// Boot mode and secure boot among the states.
    pub(crate) const BOOT_MODE: u16 = 75;
    /// Boot mode and secure boot can be set.
    pub(crate) const SET_BOOT_MODE: u16 = 76;
    /// `fields` for drivers.
    pub(crate) const DRIVER_FIELDS: u16 = 77;
    /// Node history.
    pub(crate) const HISTORY: u16 = 78;
    /// What an inspection found.
    pub(crate) const INVENTORY: u16 = 81;
    /// Shards.
    pub(crate) const SHARDS: u16 = 82;
    /// Parents and children.
    pub(crate) const CHILDREN: u16 = 83;
    /// `continue_inspection` for all.
    pub(crate) const CONTINUE_INSPECTION: u16 = 84;
    /// Firmware components.
    pub(crate) const FIRMWARE: u16 = 86;
    /// Names of ports.
    pub(crate) const PORT_NAMES: u16 = 88;
    /// Virtual media.
    pub(crate) const VMEDIA: u16 = 89;
    /// Ports of virtual switches.
    pub(crate) const VTEP: u16 = 90;
    /// `.json` at the end of a path is part of the name.
    pub(crate) const NO_SUFFIX: u16 = 91;
    /// Runbooks.
    pub(crate) const RUNBOOKS: u16 = 92;
    /// Devices of virtual media are shown.
    pub(crate) const VMEDIA_GET: u16 = 93;
    /// `node_ident` of a new port.
    pub(crate) const PORT_NODE_IDENT: u16 = 94;
    /// Inspection rules.
    pub(crate) const INSPECTION_RULES: u16 = 96;
    /// `~0` and `~1` in patch paths.
    pub(crate) const PATCH_ESCAPES: u16 = 98;
    /// Ports of virtual switches are withdrawn.
    pub(crate) const NO_VTEP: u16 = 105;
    /// `disable_ramdisk` with `service`.
    pub(crate) const SERVICE_DISABLE_RAMDISK: u16 = 108;
    /// Traits of runbooks.
    pub(crate) const RUNBOOK_TRAITS: u16 = 112;
    /// Vendor, model and serial number of firmware components.
    pub(crate) const FIRMWARE_PARTS: u16 = 114;
    /// State, target and duration in history entries.
    pub(crate) const HISTORY_STATES: u16 = 115;
    /// Project in history entries.
    pub(crate) const HISTORY_PROJECT: u16 = 113;
}

/// Whether a version has what first came with 1.`since`.
pub(crate) fn has(version: Microversion, since: u16) -> bool {
    version.0 >= since
}

/// The version that the headers ask for; 1.1 when they do not.
pub(crate) fn requested(headers: &HeaderMap) -> Result<Microversion> {
    let own = headers.get(HEADER);
    let generic = headers.get(HEADER_GENERIC);
    let Some((value, name)) = own
        .map(|value| (value, "X-OpenStack-Ironic-API-Version"))
        .or(generic.map(|value| (value, "OpenStack-API-Version")))
    else {
        return Ok(Microversion::MIN);
    };
    let text = value.to_str().unwrap_or_default().trim();
    let text = match own {
        Some(_) => text,
        // `baremetal 1.N`, possibly among other services' versions.
        None => {
            let mut services = text
                .split(',')
                .filter_map(|item| item.trim().split_once(' '));
            match services.find(|(service, _)| service.eq_ignore_ascii_case("baremetal")) {
                Some((_, version)) => version.trim(),
                None => return Ok(Microversion::MIN),
            }
        }
    };
    text.parse().map_err(|error| match error {
        BadVersion::Unsupported(asked) => ApiError::not_acceptable(format!(
            "Version {asked} was requested, which this service does not support. The supported version range is: [{}, {}].",
            Microversion::MIN,
            Microversion::MAX
        )),
        BadVersion::Malformed(_) => {
            ApiError::not_acceptable(format!("Invalid value for {name} header"))
        }
    })
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderMap;
    use axum::http::HeaderName;
    use axum::http::HeaderValue;
    use wrought_wire::microversion::Microversion;

    use super::requested;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn both_headers_and_none() {
        let own = "x-openstack-ironic-api-version";
        let generic = "openstack-api-version";
        for (pairs, expected) in [
            (vec![], 1),
            (vec![(own, "1.50")], 50),
            (vec![(own, "latest")], 115),
            (vec![(generic, "baremetal 1.50")], 50),
            (vec![(generic, "compute 2.1, baremetal latest")], 115),
            (vec![(generic, "compute 2.1")], 1),
            (vec![(own, "1.9"), (generic, "baremetal 1.50")], 9),
        ] {
            assert_eq!(
                requested(&headers(&pairs)),
                Ok(Microversion(expected)),
                "{pairs:?}"
            );
        }
        for bad in ["abc", "1.116", "2.0", "0.9", ""] {
            assert_eq!(
                requested(&headers(&[(own, bad)])).unwrap_err().status(),
                406,
                "{bad}"
            );
        }
    }
}

//! BIOS settings and firmware versions as a node's BMC tells them.

use wrought_bmc::redfish::Attribute;
use wrought_bmc::redfish::Firmware;
use wrought_store::BiosSetting;
use wrought_store::FirmwareComponent;
use wrought_store::node::Node;

use super::redfish::failed;
use crate::error::Error;
use crate::service::Service;

/// Whether the node's interface of that kind reads by Redfish.
fn by_redfish(node: &Node, kind: &str) -> bool {
    node.interfaces
        .get(kind)
        .is_some_and(|name| name == "redfish")
}

/// The BIOS settings; none where the node's interface reads none.
pub(crate) async fn bios(svc: &Service, node: &Node) -> Result<Option<Vec<BiosSetting>>, Error> {
    if !by_redfish(node, "bios") {
        return Ok(None);
    }
    let read = svc.bmcs.of(node)?.bios().await;
    let read = read.map_err(failed(node, "read the BIOS settings"))?;
    Ok(Some(read.into_iter().map(setting).collect()))
}

/// The firmware's versions; none where the node's interface reads none.
pub(crate) async fn firmware(
    svc: &Service,
    node: &Node,
) -> Result<Option<Vec<FirmwareComponent>>, Error> {
    if !by_redfish(node, "firmware") {
        return Ok(None);
    }
    let read = svc.bmcs.of(node)?.firmware().await;
    let read = read.map_err(failed(node, "read the firmware's versions"))?;
    Ok(Some(read.into_iter().map(component).collect()))
}

fn setting(read: Attribute) -> BiosSetting {
    BiosSetting {
        name: read.name,
        value: read.value,
        attribute_type: read.kind,
        allowable_values: read.allowable,
        lower_bound: read.bounds.0,
        upper_bound: read.bounds.1,
        min_length: read.lengths.0,
        max_length: read.lengths.1,
        read_only: read.read_only,
        reset_required: read.reset_required,
        unique: read.unique,
    }
}

fn component(read: Firmware) -> FirmwareComponent {
    FirmwareComponent {
        vendor: read.vendor,
        model: read.model,
        serial_number: read.serial_number,
        ..FirmwareComponent::read(read.component, read.version)
    }
}

//! The rule of volume connectors and targets: a running machine may be using
//! them, so they only change while it is off. New ones it does not know yet,
//! and one that is deleted stays with the machine until it stops.

use uuid::Uuid;
use wrought_store::VolumeConnector;
use wrought_store::VolumeTarget;
use wrought_store::node::Node;
use wrought_wire::state::PowerState;

use super::Deed;
use super::Kept;
use crate::error::Error;
use crate::service::Service;

impl Kept for VolumeConnector {
    fn node(&self) -> Option<Uuid> {
        Some(self.node_uuid)
    }

    async fn allow(
        &self,
        _: &Service,
        node: Option<&Node>,
        deed: &Deed<Self>,
    ) -> Result<(), Error> {
        powered_off(node, deed, "volume connector")
    }
}

impl Kept for VolumeTarget {
    fn node(&self) -> Option<Uuid> {
        Some(self.node_uuid)
    }

    async fn allow(
        &self,
        _: &Service,
        node: Option<&Node>,
        deed: &Deed<Self>,
    ) -> Result<(), Error> {
        powered_off(node, deed, "volume target")
    }
}

fn powered_off<R>(node: Option<&Node>, deed: &Deed<R>, what: &str) -> Result<(), Error> {
    match (deed, node) {
        (Deed::Update(_), Some(node)) if node.power_state != Some(PowerState::Off) => {
            let found = node.power_state.map_or("unknown", PowerState::as_str);
            Err(Error::Invalid(format!(
                "The requested action \"{what} update\" can not be performed on node \"{}\" \
                 while it is in state \"{found}\": it must be \"power off\".",
                node.uuid
            )))
        }
        _ => Ok(()),
    }
}

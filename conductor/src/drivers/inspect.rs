//! Inspection: by the ramdisk (`agent`), or without a machine (`fake`).

use async_trait::async_trait;
use wrought_store::node::Node;
use wrought_store::port::Port;

use super::Inspect;
use super::Inspection;
use super::fake::Fake;
use crate::drivers;
use crate::error::Error;
use crate::inspection;
use crate::internal;
use crate::service::Service;
use crate::steps::ramdisk;
use crate::task::Task;

/// Boots the ramdisk, which sends what it finds.
pub(super) struct Agent;

#[async_trait]
impl Inspect for Agent {
    fn validate(&self, svc: &Service, node: &Node, ports: &[Port]) -> Result<(), Error> {
        drivers::power(node)?.validate(svc, node)?;
        drivers::management(node)?.validate(svc, node)?;
        drivers::boot(node)?.validate(svc, node, ports)
    }

    async fn inspect(&self, task: &mut Task) -> Result<Inspection, Error> {
        let addresses = inspection::bmc_addresses(&task.node).await;
        internal::set(&mut task.node, internal::BMC_ADDRESSES, addresses);
        ramdisk::boot(task).await?;
        Ok(Inspection::Waiting)
    }
}

#[async_trait]
impl Inspect for Fake {
    fn validate(&self, _svc: &Service, _node: &Node, _ports: &[Port]) -> Result<(), Error> {
        Ok(())
    }

    async fn inspect(&self, _task: &mut Task) -> Result<Inspection, Error> {
        Ok(Inspection::Finished)
    }
}

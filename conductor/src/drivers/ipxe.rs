//! `ipxe`: the machine boots from the network; iPXE fetches kernel and
//! initramfs by HTTP.

use async_trait::async_trait;
use serde_json::Value;
use wrought_store::node::Node;
use wrought_store::port::Port;
use wrought_wire::state::BootDevice;

use super::Boot;
use super::boot_mode;
use crate::boot::Offer;
use crate::boot::Way;
use crate::drivers;
use crate::error::Error;
use crate::service::Service;
use crate::task::Task;

/// The implementation.
pub(super) struct Ipxe;

/// Whether this conductor is set up to boot ramdisks at all.
pub(super) fn check_service(svc: &Service, node: &Node) -> Result<(), Error> {
    let missing = |what: &str, how: &str| {
        Err(Error::Invalid(format!(
            "Node {} cannot boot the ramdisk: this conductor has no {what}; set {how}",
            node.uuid
        )))
    };
    if svc.config.boot_url().is_none() {
        return missing("boot listener", "[boot] listen, or --boot-listen");
    }
    if svc.config.public_endpoint.is_none() {
        return missing("public address that agents can call", "public_endpoint");
    }
    Ok(())
}

/// Whether a file that the ramdisk is made of is there.
pub(super) fn check_file(node: &Node, path: &std::path::Path) -> Result<(), Error> {
    if path.is_file() {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "Node {} cannot boot the ramdisk: there is no file {}; build the ramdisk, or set [boot] \
         ramdisk_dir",
        node.uuid,
        path.display()
    )))
}

#[async_trait]
impl Boot for Ipxe {
    fn validate(&self, svc: &Service, node: &Node, ports: &[Port]) -> Result<(), Error> {
        if !ports.iter().any(|port| port.pxe_enabled) {
            return Err(Error::Invalid(format!(
                "Node {} does not have any port with pxe_enabled, so that it cannot be booted \
                 from the network: create a port with the MAC address of its NIC",
                node.uuid
            )));
        }
        check_service(svc, node)?;
        for (what, name) in [("kernel", "vmlinuz"), ("ramdisk", "initramfs")] {
            let own = node
                .driver_info
                .get(&crate::boot::property(node, what))
                .and_then(Value::as_str)
                .unwrap_or_default();
            if !own.starts_with("http://") && !own.starts_with("https://") {
                check_file(node, &crate::boot::path(svc, node, what, name))?;
            }
        }
        Ok(())
    }

    async fn prepare_ramdisk(&self, task: &mut Task) -> Result<(), Error> {
        let svc = std::sync::Arc::clone(&task.svc);
        Offer::make(&svc, &mut task.node, Way::Ipxe);
        // Stored before the machine can ask for it.
        task.save().await?;
        boot_from(task, BootDevice::Pxe, false).await
    }

    async fn clean_up_ramdisk(&self, task: &mut Task) -> Result<(), Error> {
        Offer::withdraw(&mut task.node);
        Ok(())
    }

    async fn prepare_instance(&self, task: &mut Task) -> Result<(), Error> {
        self.clean_up_ramdisk(task).await?;
        boot_from(task, BootDevice::Disk, true).await
    }
}

/// Sets the boot device.
pub(super) async fn boot_from(
    task: &Task,
    device: BootDevice,
    persistent: bool,
) -> Result<(), Error> {
    task.confirm().await?;
    let mode = boot_mode::of(&task.node, &task.svc.config);
    let management = drivers::management(&task.node)?;
    management
        .set_boot_device(&task.svc, &task.node, device, persistent, Some(mode))
        .await
}

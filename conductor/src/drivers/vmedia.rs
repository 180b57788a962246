//! `redfish-virtual-media`: the BMC presents a disc image to the machine. The
//! image carries the agent's token and the installation's CA.

use async_trait::async_trait;
use serde_json::Value;
use wrought_bmc::redfish::BootMode;
use wrought_store::node::Node;
use wrought_store::port::Port;
use wrought_wire::state::BootDevice;
use wrought_wire::state::MediaKind;

use super::Boot;
use super::boot_mode;
use super::ipxe::boot_from;
use super::ipxe::check_file;
use super::ipxe::check_service;
use super::redfish::failed;
use crate::boot::Offer;
use crate::boot::Way;
use crate::boot::iso;
use crate::error::Error;
use crate::internal;
use crate::service::Service;
use crate::task::Task;
use crate::token;

/// The implementation.
pub(super) struct VirtualMedia;

fn own_image(node: &Node) -> Option<&str> {
    let key = crate::boot::property(node, "iso");
    let text = node.driver_info.get(&key).and_then(Value::as_str)?;
    (text.starts_with("http://") || text.starts_with("https://")).then_some(text)
}

#[async_trait]
impl Boot for VirtualMedia {
    fn validate(&self, svc: &Service, node: &Node, _ports: &[Port]) -> Result<(), Error> {
        svc.bmcs.of(node)?;
        if own_image(node).is_some() {
            return Ok(());
        }
        check_service(svc, node)?;
        if boot_mode::of(node, &svc.config) == BootMode::Bios {
            return Err(Error::Invalid(format!(
                "Node {} is to boot in BIOS mode, for which the virtual media image is not made; \
                 use the boot interface ipxe, or set the capability boot_mode to uefi",
                node.uuid
            )));
        }
        check_file(node, &iso::esp(svc, node))
    }

    async fn prepare_ramdisk(&self, task: &mut Task) -> Result<(), Error> {
        let svc = std::sync::Arc::clone(&task.svc);
        let url = match own_image(&task.node) {
            Some(url) => url.to_owned(),
            None => {
                let offer = Offer::make(&svc, &mut task.node, Way::VirtualMedia);
                internal::set(&mut task.node, internal::AGENT_TOKEN, token::random());
                internal::set(&mut task.node, internal::AGENT_TOKEN_PREGENERATED, true);
                let base = svc.config.boot_url().unwrap_or_default();
                offer.url(&base, "boot.iso")
            }
        };
        // Stored before the BMC can ask for it.
        task.save().await?;
        task.confirm().await?;
        let bmc = svc.bmcs.of(&task.node)?;
        bmc.eject_media(MediaKind::Cdrom)
            .await
            .map_err(failed(&task.node, "eject virtual media"))?;
        bmc.insert_media(MediaKind::Cdrom, &url)
            .await
            .map_err(failed(&task.node, "insert virtual media"))?;
        boot_from(task, BootDevice::Cdrom, false).await
    }

    async fn clean_up_ramdisk(&self, task: &mut Task) -> Result<(), Error> {
        let svc = std::sync::Arc::clone(&task.svc);
        Offer::withdraw(&mut task.node);
        let bmc = svc.bmcs.of(&task.node)?;
        bmc.eject_media(MediaKind::Cdrom)
            .await
            .map_err(failed(&task.node, "eject virtual media"))
    }

    async fn prepare_instance(&self, task: &mut Task) -> Result<(), Error> {
        // The disc stays in until the machine is off: the agent runs from it
        // no more, but some BMCs refuse to eject from a running machine.
        boot_from(task, BootDevice::Disk, true).await
    }
}

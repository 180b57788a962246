//! The demo in its kinds, and a node's further life.

use anyhow::Result;
use anyhow::ensure;
use serde_json::json;

use super::Context;
use crate::demo;
use crate::demo::Boot;
use crate::demo::Plan;
use crate::deploy::Guest;
use crate::disk;
use crate::qemu::Firmware;

/// Enough for any image; the ramdisk holds no copy of it.
const MEMORY_MIB: u32 = 512;

/// Debian on UEFI by iPXE; then the same node is torn down and deployed anew.
pub(super) async fn uefi_ipxe(context: &mut Context) -> Result<()> {
    let plan = Plan {
        firmware: Firmware::Uefi,
        boot: Boot::Ipxe,
        image: "debian".into(),
        memory_mib: MEMORY_MIB,
    };
    let outcome = demonstrate(context, &plan).await?;
    let node = outcome.node;
    let disk = &node.bmc.machine().spec().disks[0].path;
    ensure!(
        !disk::ends_are_zero(disk)?,
        "a deployed disk has no partition table"
    );

    node.go("deleted", json!({}), "available").await?;
    ensure!(
        disk::ends_are_zero(disk)?,
        "after the tear-down the disk's ends still hold data: {}",
        disk.display()
    );
    let tiny = context.world()?.offer_image("tiny")?;
    node.set_image(&tiny).await?;
    node.deploy(&Guest::random()).await?;
    Ok(())
}

/// Debian on BIOS by iPXE.
pub(super) async fn bios_ipxe(context: &mut Context) -> Result<()> {
    let plan = Plan {
        firmware: Firmware::Bios,
        boot: Boot::Ipxe,
        image: "debian".into(),
        memory_mib: MEMORY_MIB,
    };
    demonstrate(context, &plan).await.map(drop)
}

/// Debian on UEFI by virtual media.
pub(super) async fn vmedia(context: &mut Context) -> Result<()> {
    let plan = Plan {
        firmware: Firmware::Uefi,
        boot: Boot::Vmedia,
        image: "debian".into(),
        memory_mib: MEMORY_MIB,
    };
    demonstrate(context, &plan).await.map(drop)
}

async fn demonstrate(context: &mut Context, plan: &Plan) -> Result<demo::Outcome> {
    let account = context.account.clone();
    let world = context.start().await?;
    let outcome = demo::run(world, plan, &account).await?;
    account.plain(&outcome.report.to_string());
    ensure!(
        outcome.report["result"] == "active",
        "the node is not active"
    );
    Ok(outcome)
}

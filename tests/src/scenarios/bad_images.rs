//! Images that are wrong: the deploy fails and says why, the disk cannot be
//! booted, and the next attempt succeeds.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::ensure;
use serde_json::Value;
use serde_json::json;
use sha2::Digest;
use sha2::Sha256;

use super::Context;
use super::nothing::boots_nothing;
use crate::deploy::Guest;
use crate::deploy::Node;
use crate::deploy::OPERATION;
use crate::disk;
use crate::images::Fault;
use crate::qemu::Firmware;
use crate::world;
use crate::world::MachineOptions;
use crate::world::World;

/// Automated cleaning has nothing to do with these.
const NO_CLEANING: &str = "[conductor]\nautomated_clean = false\ncheck_interval = 5\n";

fn options() -> world::Options {
    world::Options {
        server_config: NO_CLEANING.to_owned(),
        ..world::Options::default()
    }
}

/// One byte is flipped on the way. The disk is then really booted.
pub(super) async fn corrupt(context: &mut Context) -> Result<()> {
    let account = context.account.clone();
    let world = context.start_with(options()).await?;
    let images = world.images.clone();
    let image = world.offer_image("tiny")?;
    let file = world.paths.image("tiny")?;
    let bmc = world
        .add_machine("one", MachineOptions::new(Firmware::Uefi))
        .await?;
    let node = Node::enrol(world, &bmc, "ipxe", &account).await?;
    node.make_available().await?;
    node.set_image(&image).await?;

    let offset = std::fs::metadata(&file)?.len() / 2;
    images.set_fault("tiny.qcow2", Some(Fault::Corrupt(offset)));
    let expected = image["image_os_hash_value"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let actual = digest_with_flip(&file, Some(offset))?;
    let error = deploy_that_fails(&node).await?;
    ensure!(
        error.contains(&expected) && error.contains(&actual),
        "last_error does not name the expected digest {expected} and the actual {actual}: {error}"
    );
    let path = &bmc.machine().spec().disks[0].path;
    ensure!(
        disk::ends_are_zero(path)?,
        "the disk's ends are not zero after the failure"
    );
    for firmware in [Firmware::Bios, Firmware::Uefi] {
        boots_nothing(&bmc, firmware).await?;
        account.say(&format!(
            "booted by {} firmware: nothing is found",
            firmware.as_str()
        ));
    }
    ensure!(
        disk::ends_are_zero(path)?,
        "the firmware has written to the disk"
    );

    images.set_fault("tiny.qcow2", None);
    node.deploy(&Guest::random()).await.map(drop)
}

/// All other ways, with the agent as a process and a file as its disk.
pub(super) async fn others(context: &mut Context) -> Result<()> {
    let account = context.account.clone();
    let world = context.start_with(options()).await?;
    let good = world.offer_image("tiny")?;
    let length = std::fs::metadata(world.paths.image("tiny")?)?.len();
    let bmc = world
        .add_machine("one", MachineOptions::host_agent())
        .await?;
    let node = Node::enrol(world, &bmc, "ipxe", &account).await?;
    node.make_available().await?;

    let with = |key: &str, value: Value| {
        let mut image = good.clone();
        image[key] = value;
        image
    };
    let wrong = "00".repeat(32);
    let unreachable = "http://10.77.0.250:8/tiny.qcow2";
    let cases: [(&str, Value, Option<Fault>, Vec<String>); 5] = [
        (
            "wrong checksum",
            with("image_os_hash_value", json!(wrong)),
            None,
            vec![wrong.clone()],
        ),
        (
            "404",
            good.clone(),
            Some(Fault::Status(404)),
            vec!["404".into(), "tiny.qcow2".into()],
        ),
        (
            "cut short",
            good.clone(),
            Some(Fault::CutShort(length / 2)),
            vec!["tiny.qcow2".into()],
        ),
        (
            "too large",
            too_large(world)?,
            None,
            vec![(64u64 << 30).to_string()],
        ),
        (
            "unreachable",
            with("image_source", json!(unreachable)),
            None,
            vec!["10.77.0.250".into()],
        ),
    ];
    for (name, image, fault, words) in cases {
        account.say(&format!("-- {name}"));
        context.world()?.images.set_fault("tiny.qcow2", fault);
        node.set_image(&image).await?;
        let error = deploy_that_fails(&node).await?;
        for word in words {
            ensure!(
                error.contains(&word),
                "{name}: last_error does not name {word:?}: {error}"
            );
        }
        let path = &bmc.machine().spec().disks[0].path;
        ensure!(
            disk::ends_are_zero(path)?,
            "{name}: the disk's ends are not zero"
        );
    }
    context.world()?.images.set_fault("tiny.qcow2", None);
    node.set_image(&good).await?;
    let extra = json!({"configdrive": Guest::random().configdrive()});
    node.go("active", extra, "active").await?;
    ensure!(
        !disk::ends_are_zero(&bmc.machine().spec().disks[0].path)?,
        "nothing was written"
    );
    Ok(())
}

/// Deploys, sees it fail, and gives `last_error`.
async fn deploy_that_fails(node: &Node) -> Result<String> {
    node.api.provision(&node.uuid, "active", json!({})).await?;
    let watch = node.watch();
    let story = watch
        .follow(OPERATION, |look| look.failed() || look.state == "active")
        .await?;
    let state = story
        .states()
        .last()
        .copied()
        .unwrap_or_default()
        .to_owned();
    ensure!(
        state == "deploy failed",
        "the node is {state:?}, expected \"deploy failed\""
    );
    // The machine is switched off after the state is set.
    let limit = tokio::time::Instant::now() + Duration::from_secs(60);
    while node.bmc.machine().is_on().await && tokio::time::Instant::now() < limit {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let shown = node.api.node(&node.uuid).await?;
    let error = shown["last_error"]
        .as_str()
        .context("there is no last_error")?
        .to_owned();
    node.account.say(&format!("last_error: {error}"));
    Ok(error)
}

/// An image for a disk of 64 GiB.
fn too_large(world: &World) -> Result<Value> {
    let file = world.run().scratch("large.qcow2");
    let made = std::process::Command::new("qemu-img")
        .args(["create", "-q", "-f", "qcow2"])
        .arg(&file)
        .arg("64G")
        .status()
        .context("running qemu-img (package qemu-utils)")?;
    ensure!(made.success(), "qemu-img failed: {made}");
    Ok(json!({
        "image_source": world.images.offer_file("large.qcow2", &file),
        "image_os_hash_algo": "sha256",
        "image_os_hash_value": digest_with_flip(&file, None)?,
        "image_disk_format": "qcow2",
    }))
}

/// SHA-256 of a file of test size, with the lowest bit of one byte flipped.
fn digest_with_flip(file: &Path, flip: Option<u64>) -> Result<String> {
    let mut bytes = std::fs::read(file).with_context(|| format!("reading {}", file.display()))?;
    if let Some(byte) = flip.and_then(|at| bytes.get_mut(usize::try_from(at).ok()?)) {
        *byte ^= 1;
    }
    Ok(Sha256::digest(&bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

//! The ramdisk by itself: what boots it, on what, and how little it needs.

use std::os::unix::fs::FileExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::ensure;
use serde_json::json;

use super::Context;
use crate::accel::Accel;
use crate::child;
use crate::deploy::Guest as Instance;
use crate::deploy::Node;
use crate::first_beat;
use crate::first_beat::Arch;
use crate::first_beat::Boot;
use crate::first_beat::Guest;
use crate::first_beat::guest::api_url;
use crate::lone::Api;
use crate::paths::Paths;
use crate::paths::existing;
use crate::qemu::Firmware;
use crate::world::MachineOptions;

/// One boot, on a busy host without KVM.
pub(super) const BOOT: Duration = Duration::from_secs(240);
/// Enough for all that is promised.
pub(super) const SMALL_MIB: u32 = 256;

/// Everything that `cargo xtask ramdisk` makes boots, in 256 MB.
pub(super) async fn boots(context: &mut Context) -> Result<()> {
    let paths = Paths::find()?;
    std::fs::create_dir_all(&paths.runs)?;
    let accel = accel(context, &paths).await?;
    let file = |name| paths.ramdisk_file(name);
    for (name, boot) in [
        (
            "kernel and initramfs",
            Some(Boot::Kernel {
                kernel: file("vmlinuz")?,
                initramfs: file("initramfs")?,
            }),
        ),
        ("UKI", Some(Boot::Uki(file("uki.efi")?))),
        ("disc, UEFI", None),
        ("disc, BIOS", None),
    ] {
        let work = work(&paths)?;
        let api = Api::start().await?;
        let boot = match boot {
            Some(boot) => boot,
            None => {
                let disc = disc(&paths, &api, work.path()).await?;
                let firmware = match name.ends_with("UEFI") {
                    true => Firmware::Uefi,
                    false => Firmware::Bios,
                };
                Boot::Disc(disc, firmware)
            }
        };
        let guest = Guest {
            arch: Arch::X86_64,
            memory_mib: SMALL_MIB,
            boot,
            append: String::new(),
        };
        let times = first_beat::boot(&guest, &api, accel, work.path(), BOOT)
            .await
            .with_context(|| name.to_owned())?;
        context.account.say(&format!(
            "{name}: /init after {:.1} s ({:.1} s of the kernel's own), first heartbeat after \
             {:.1} s",
            times.to_init, times.kernel_to_init, times.to_heartbeat
        ));
    }
    Ok(())
}

/// What `cargo xtask ramdisk --arch aarch64` makes boots on an ARM machine.
pub(super) async fn aarch64(context: &mut Context) -> Result<()> {
    /// More than a PC's: the kernel is not compressed.
    const MEMORY_MIB: u32 = 512;
    let paths = Paths::find()?;
    std::fs::create_dir_all(&paths.runs)?;
    let folder = paths.root.join("target/ramdisk-aarch64");
    let file = |name: &str| existing(folder.join(name), "cargo xtask ramdisk --arch aarch64");
    for (name, boot) in [
        (
            "kernel and initramfs",
            Boot::Kernel {
                kernel: file("vmlinuz")?,
                initramfs: file("initramfs")?,
            },
        ),
        ("UKI", Boot::Uki(file("uki.efi")?)),
    ] {
        let work = work(&paths)?;
        let api = Api::start().await?;
        let guest = Guest {
            arch: Arch::Aarch64,
            memory_mib: MEMORY_MIB,
            boot,
            append: String::new(),
        };
        // Always translated: nearly twice a PC's time.
        let times = first_beat::boot(&guest, &api, Accel::Tcg, work.path(), 2 * BOOT)
            .await
            .with_context(|| format!("aarch64, {name}"))?;
        context.account.say(&format!(
            "aarch64, {name}: /init after {:.1} s ({:.1} s of the kernel's own), first heartbeat \
             after {:.1} s",
            times.to_init, times.kernel_to_init, times.to_heartbeat
        ));
    }
    Ok(())
}

/// A machine with 256 MB deploys an image of 20 GiB.
pub(super) async fn small_memory(context: &mut Context) -> Result<()> {
    let account = context.account.clone();
    let world = context.start().await?;
    let large = large_image(
        &world.paths.image("tiny")?,
        world.run().scratch("large.qcow2"),
    )
    .await?;
    let options = MachineOptions {
        memory_mib: SMALL_MIB,
        disks: &[24 << 30],
        ..MachineOptions::new(Firmware::Uefi)
    };
    let bmc = world.add_machine("small", options).await?;
    let image = world.offer_file(&large)?;
    let node = Node::enrol(world, &bmc, "ipxe", &account).await?;
    // Overwriting such a disk would fill this host's.
    node.api
        .set(&node.uuid, &[("/automated_clean", json!(false))])
        .await?;
    node.make_available().await?;
    node.set_image(&image).await?;
    // The boot loader of the image itself wants more memory than this.
    let extra = json!({"configdrive": Instance::random().configdrive()});
    node.go("active", extra, "active").await?;
    let disk = std::fs::File::open(&node.bmc.machine().spec().disks[0].path)?;
    // Zeroes are asked for, not written: the host's file stays sparse.
    let allocated = disk.metadata()?.blocks() * 512;
    ensure!(
        allocated < DATA_LIMIT,
        "{allocated} bytes were written for {DATA_LIMIT} bytes of data at most"
    );
    let mut found = [0; 4096];
    disk.read_exact_at(&mut found, MARKED)?;
    ensure!(
        found == [MARK; 4096],
        "the image's last data is not on the disk"
    );
    let shown = node.api.node(&node.uuid).await?;
    account.say(&format!(
        "{SMALL_MIB} MiB deployed 20 GiB, {allocated} bytes of the host's; the agent's peak: {} \
         bytes",
        shown["driver_internal_info"]["agent_peak_rss_bytes"]
    ));
    Ok(())
}

/// More than the data of the large image.
const DATA_LIMIT: u64 = 1 << 30;
/// Where data lies near the end of the large image, and what it is.
const MARKED: u64 = 19 << 30;
const MARK: u8 = 0xa5;

/// The small image grown to 20 GiB, with data near its end.
async fn large_image(tiny: &Path, large: PathBuf) -> Result<PathBuf> {
    std::fs::copy(tiny, &large).with_context(|| format!("copying {}", tiny.display()))?;
    let file = large.display().to_string();
    for words in [
        vec!["qemu-img", "resize", "-q", "-f", "qcow2", &file, "20G"],
        vec![
            "qemu-io",
            "-f",
            "qcow2",
            "-c",
            "write -q -P 0xa5 19G 256M",
            &file,
        ],
    ] {
        let output = child::command(words[0]).args(&words[1..]).output().await?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{words:?}: {}", said.trim());
    }
    Ok(large)
}

/// A disc with the API's address among its parameters.
async fn disc(paths: &Paths, api: &Api, work: &Path) -> Result<PathBuf> {
    let disc = work.join("boot.iso");
    let output = child::command(paths.binary("wrought-ramdisk")?)
        .arg("disc")
        .arg("--ramdisk")
        .arg(&paths.ramdisk)
        .arg("--out")
        .arg(&disc)
        .arg("--param")
        .arg(format!("ipa-api-url={}", api_url(api)))
        .output()
        .await?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}", said.trim());
    Ok(disc)
}

pub(super) async fn accel(context: &Context, paths: &Paths) -> Result<Accel> {
    let kernel = paths.ramdisk_file("vmlinuz")?;
    Accel::choose(context.accel, &paths.runs.join("accel"), &kernel).await
}

pub(super) fn work(paths: &Paths) -> Result<tempfile::TempDir> {
    let mut folder = tempfile::Builder::new();
    Ok(folder.prefix("boot-").tempdir_in(&paths.runs)?)
}

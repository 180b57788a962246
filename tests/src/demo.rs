//! The demonstration: a bare machine becomes a running, verified OS.

use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use crate::Unavailable;
use crate::account::Account;
use crate::deploy::Guest;
use crate::deploy::Node;
use crate::deploy::Seen;
use crate::paths::Paths;
use crate::qemu::Firmware;
use crate::watch::Look;
use crate::watch::Story;
use crate::world::MachineOptions;
use crate::world::World;

/// How the agent gets into the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Boot {
    /// Firmware PXE, then iPXE.
    Ipxe,
    /// Firmware PXE, then shim and GRUB.
    Pxe,
    /// A virtual CD of the BMC.
    Vmedia,
    /// UEFI HTTP boot.
    Http,
}

impl Boot {
    /// The name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ipxe => "ipxe",
            Self::Pxe => "pxe",
            Self::Vmedia => "vmedia",
            Self::Http => "http",
        }
    }

    /// The node's boot interface, or why there is none.
    pub fn interface(self, firmware: Firmware) -> Result<&'static str> {
        match (self, firmware) {
            (Self::Ipxe, _) => Ok("ipxe"),
            (Self::Vmedia, Firmware::Uefi) => Ok("redfish-virtual-media"),
            (Self::Vmedia, Firmware::Bios) => bail!(Unavailable(
                "virtual media for BIOS is not built: the boot image carries a UEFI program \
                 only; use --firmware uefi or --boot ipxe"
                    .into()
            )),
            (Self::Pxe, _) => bail!(Unavailable(
                "the pxe boot interface (shim and GRUB over TFTP) is not built yet; use --boot ipxe"
                    .into()
            )),
            (Self::Http, _) => bail!(Unavailable(
                "the http boot interface (UEFI HTTP boot) is not built yet; use --boot ipxe".into()
            )),
        }
    }
}

/// What is demonstrated.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The machine's firmware.
    pub firmware: Firmware,
    /// How the agent boots.
    pub boot: Boot,
    /// The image's short name.
    pub image: String,
    /// Memory of the machine in MiB.
    pub memory_mib: u32,
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    /// The final object of `--json`.
    pub report: Value,
    /// The node, still deployed.
    pub node: Node,
}

/// Runs the plan in a world that is up.
pub async fn run(world: &mut World, plan: &Plan, account: &Account) -> Result<Outcome> {
    let interface = plan.boot.interface(plan.firmware)?;
    let instance_info = world.offer_image(&plan.image)?;
    let mut phases = Phases::default();
    phases.add("setup", account.elapsed());

    let options = MachineOptions {
        memory_mib: plan.memory_mib,
        ..MachineOptions::new(plan.firmware)
    };
    let bmc = world.add_machine("demo", options).await?;
    account.say(&format!(
        "machine: {} firmware, {} MiB, accelerator {}; boot by {}, image {}",
        plan.firmware.as_str(),
        options.memory_mib,
        world.accel().as_str(),
        plan.boot.as_str(),
        plan.image
    ));
    let started = Instant::now();
    let node = Node::enrol(world, &bmc, interface, account).await?;
    let (managed, cleaned) = node.make_available().await?;
    phases.until("enrol and manage", started, managed.end());
    phases.split(
        &cleaned,
        managed.end(),
        |look| look.step.starts_with("deploy."),
        ["clean: boot the agent", "clean: steps"],
    );

    node.set_image(&instance_info).await?;
    let guest = Guest::random();
    account.say(&format!(
        "deploying for host name {} and nonce {}",
        guest.hostname, guest.nonce
    ));
    let asked = Instant::now();
    let (story, seen) = node.deploy(&guest).await?;
    deploy_phases(&mut phases, &story, asked, seen);
    account.say(&format!(
        "the guest's console shows its login prompt, host name {} and nonce {}",
        guest.hostname, guest.nonce
    ));
    phases.add("total", account.elapsed());

    let shown = node.api.node(&node.uuid).await?;
    let manifest = manifest(&world.paths)?;
    let report = json!({
        "result": shown["provision_state"],
        "firmware": plan.firmware.as_str(),
        "boot": plan.boot.as_str(),
        "image": plan.image,
        "os_reached": true,
        "hostname": guest.hostname,
        "nonce": guest.nonce,
        "phases": phases.object(),
        "agent": {
            "binary_bytes": manifest["agent_bytes"],
            "peak_rss_bytes": shown["driver_internal_info"]["agent_peak_rss_bytes"],
        },
        "ramdisk": {
            "kernel_bytes": manifest["kernel_bytes"],
            "initramfs_bytes": manifest["initramfs_bytes"],
        },
        "machine": {"memory_mib": options.memory_mib, "accelerator": world.accel().as_str()},
        "server": {"peak_rss_bytes": world.server()?.peak_rss()},
    });
    phases.print(account);
    Ok(Outcome { report, node })
}

fn deploy_phases(phases: &mut Phases, story: &Story, asked: Instant, seen: Seen) {
    let writing = |look: &Look| look.step == "deploy.write_image";
    let first = story.first(writing);
    let mut after = false;
    let last = story.first(|look| {
        after |= writing(look);
        after && !writing(look)
    });
    phases.until("deploy: boot the agent", asked, first);
    if let Some(first) = first {
        phases.until("deploy: write the image", first, last);
    }
    if let Some(last) = last {
        phases.until("deploy: finish", last, story.end());
    }
    phases.add(
        "boot the operating system",
        Duration::from_secs_f64(seen.seconds),
    );
}

/// Names and lengths of what was done.
#[derive(Debug, Default)]
struct Phases(Vec<(&'static str, f64)>);

impl Phases {
    fn add(&mut self, name: &'static str, length: Duration) {
        self.0
            .push((name, (length.as_secs_f64() * 10.0).round() / 10.0));
    }

    fn until(&mut self, name: &'static str, from: Instant, end: Option<Instant>) {
        if let Some(end) = end {
            self.add(name, end.saturating_duration_since(from));
        }
    }

    /// Two phases, parted by the first look that `matches`.
    fn split(
        &mut self,
        story: &Story,
        from: Option<Instant>,
        matches: impl Fn(&Look) -> bool,
        names: [&'static str; 2],
    ) {
        if let (Some(from), Some(middle)) = (from, story.first(matches)) {
            self.until(names[0], from, Some(middle));
            self.until(names[1], middle, story.end());
        }
    }

    fn object(&self) -> Map<String, Value> {
        self.0
            .iter()
            .map(|(name, seconds)| ((*name).to_owned(), json!(seconds)))
            .collect()
    }

    fn print(&self, account: &Account) {
        account.plain("\n  phase                        seconds");
        for (name, seconds) in &self.0 {
            account.plain(&format!("  {name:<28} {seconds:>7.1}"));
        }
    }
}

/// How to look around while the world stays up.
pub fn look_around(world: &World, node: &Node, account: &Account) -> Result<()> {
    let server = world.server()?;
    let Some(address) = world.host_address() else {
        return Ok(());
    };
    let secret = world.run().scratch("password");
    crate::server::write_secret(&secret, server.password())?;
    let console = node
        .bmc
        .machine()
        .file(crate::qemu::command_line::CONSOLE_SOCKET);
    account.plain(&format!(
        "\nLook around:\n  \
         API          https://{address} (user {user}, password in {secret})\n  \
         its CA       {ca}\n  \
         try          curl --cacert {ca} -u {user}:$(cat {secret}) https://{address}/v1/nodes\n  \
         console      socat -,raw,echo=0 UNIX-CONNECT:{console}\n  \
         console log  {serial}\n  \
         all logs     {logs}",
        user = crate::server::USER,
        secret = secret.display(),
        ca = server.ca().display(),
        console = console.display(),
        serial = node.serial.path().display(),
        logs = world.run().log("").display(),
    ));
    Ok(())
}

/// What the ramdisk's build wrote down about itself.
fn manifest(paths: &Paths) -> Result<Value> {
    let path = paths.ramdisk_file("manifest.json")?;
    let text = std::fs::read_to_string(&path)?;
    serde_json::from_str(&text).with_context(|| format!("parsing {}", path.display()))
}

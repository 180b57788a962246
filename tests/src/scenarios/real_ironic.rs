//! Our agent and a real Ironic (of the package index, `fake` power, `direct`
//! deploy): it inspects, cleans and deploys by our agent, which is a process on
//! this host with one disk of its own.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use reqwest::Method;
use serde_json::Value;
use serde_json::json;

use super::Context;
use super::real_agent::offer;
use crate::Unavailable;
use crate::api::Api;
use crate::bench::ironic::Ironic;
use crate::bench::ironic::Setup;
use crate::child;
use crate::child::Daemon;
use crate::deploy::Guest;
use crate::paths::Paths;
use crate::paths::existing;
use crate::real_agent::Loop;

/// For the node to come from one point to the next.
const PATIENCE: Duration = Duration::from_secs(180);
/// Large enough to be chosen without hints.
const DISK: u64 = 5 << 30;
/// Something of an earlier user.
const OLD: [u8; 4096] = [0xa5; 4096];
/// Where it lies.
const PLACES: [u64; 3] = [0, 2 << 30, DISK - 4096];
/// The ends of a disk hold the partition tables, which a deploy changes.
const END: usize = 1 << 20;

const SETUP: Setup<'static> = Setup {
    host: "real",
    hardware: "fake-hardware",
    interfaces: &[
        ("bios", "no-bios"),
        ("boot", "fake"),
        ("console", "no-console"),
        ("deploy", "direct"),
        ("firmware", "no-firmware"),
        ("inspect", "agent,no-inspect"),
        ("management", "fake"),
        ("network", "noop"),
        ("power", "fake"),
        ("raid", "no-raid"),
        ("rescue", "no-rescue"),
        ("storage", "noop"),
        ("vendor", "no-vendor"),
    ],
    accounts: None,
    inspector: "",
};

/// Inspect, clean and deploy; a disk that was not named stays as it was.
pub(super) async fn our_agent(context: &mut Context) -> Result<()> {
    let paths = Paths::find()?;
    std::fs::create_dir_all(&paths.runs)?;
    let venv = existing(
        paths.root.join("target/tools/ironic"),
        "cargo xtask setup --all",
    )?;
    let work = tempfile::Builder::new()
        .prefix("real-ironic-")
        .tempdir_in(&paths.runs)?;
    let disk = Loop::attach(&work.path().join("disk"), DISK).await?;
    let other = Loop::attach(&work.path().join("other"), DISK).await?;
    for disk in [&disk, &other] {
        put_old(disk.path())?;
    }
    let image = paths.image("tiny")?;
    let (url, digest) = offer(std::fs::read(&image)?).await?;

    let mut ironic = Ironic::new(&venv, work.path(), &SETUP).await?;
    context
        .account
        .say(&format!("a real Ironic, version {}", ironic.version()));
    ironic.start().await?;
    let api = ironic.api()?;
    let ours = Ours {
        program: paths.binary("wrought-agent")?,
        api: format!("http://{}", ironic.target().address),
        disk: disk.path().to_owned(),
        variables: work.path().join("efivars"),
        log: paths.runs.join("real-ironic-agent.log"),
    };
    std::fs::create_dir_all(&ours.variables)?;
    std::fs::write(&ours.log, "")?;
    let node = enrol(&api, &ours.mac().await?).await?;

    api.provision(&node, "manage", json!({})).await?;
    until(&api, &node, "manageable").await?;
    api.provision(&node, "inspect", json!({})).await?;
    until(&api, &node, "inspect wait").await?;
    let agent = ours.start(&["ipa-inspection-callback-url"])?;
    until(&api, &node, "manageable").await?;
    inspected(&api, &node, disk.path()).await?;
    context.account.say("a real Ironic has inspected");
    agent.stop(Duration::from_secs(5)).await;

    api.provision(&node, "provide", json!({})).await?;
    until(&api, &node, "clean wait").await?;
    let agent = ours.start(&[])?;
    until(&api, &node, "available").await?;
    agent.stop(Duration::from_secs(5)).await;
    ensure!(!has_old(disk.path())?, "old data is left after cleaning");
    context.account.say("a real Ironic has cleaned");

    let fields = json!({
        "image_source": url, "image_disk_format": "qcow2", "image_type": "whole-disk",
        "image_os_hash_algo": "sha256", "image_os_hash_value": digest,
    });
    api.set(&node, &[("/instance_info", fields)]).await?;
    let extra = json!({"configdrive": Guest::random().configdrive()});
    api.provision(&node, "active", extra).await?;
    until(&api, &node, "wait call-back").await?;
    let agent = ours.start(&[])?;
    let active = until(&api, &node, "active").await?;
    ensure!(active["last_error"].is_null(), "{}", active["last_error"]);
    // It was told to switch the machine off: it has ended by itself.
    let ended = tokio::time::timeout(Duration::from_secs(30), agent.wait()).await;
    ensure!(ended.is_ok(), "the agent goes on after standby.power_off");
    is_written(&image, disk.path(), work.path()).await?;
    let entries = std::fs::read_dir(&ours.variables)?.count();
    ensure!(entries > 0, "no boot entry was made");
    context.account.say("a real Ironic has deployed");

    ensure!(
        has_old(other.path())?,
        "a disk that was not named by --only-disk was changed"
    );
    ironic.stop().await;
    Ok(())
}

/// Our agent, as it is started.
struct Ours {
    program: PathBuf,
    api: String,
    disk: PathBuf,
    variables: PathBuf,
    log: PathBuf,
}

impl Ours {
    /// A NIC of this host, as the agent sees it: by that Ironic finds the node
    /// that was inspected.
    async fn mac(&self) -> Result<String> {
        let mut command = child::command(&self.program);
        let output = command.args(["inventory", "--json"]).output().await?;
        let inventory: Value = serde_json::from_slice(&output.stdout)
            .context("`wrought-agent inventory --json` printed no JSON")?;
        match inventory.pointer("/interfaces/0/mac_address") {
            Some(Value::String(mac)) => Ok(mac.clone()),
            _ => Err(Unavailable("this host has no NIC to be known by".to_owned()).into()),
        }
    }

    /// Starts it; these parameters get the API's address for inspection data.
    fn start(&self, callbacks: &[&str]) -> Result<Daemon> {
        let mut command = child::command(&self.program);
        command.args(["run", "--api-url", &self.api]);
        command.args(["--listen", "127.0.0.1:0"]);
        command.arg("--only-disk").arg(&self.disk);
        let variables = self.variables.display();
        let mut params = vec![
            "ipa-advertise-host=127.0.0.1".to_owned(),
            format!("wrought-efivars={variables}"),
        ];
        for key in callbacks {
            params.push(format!("{key}={}/v1/continue_inspection", self.api));
        }
        for param in params {
            command.arg("--param").arg(param);
        }
        Daemon::start("our agent", command, &self.log)
    }
}

async fn enrol(api: &Api, mac: &str) -> Result<String> {
    let deadline = Instant::now() + PATIENCE;
    let node = json!({
        "name": "ours",
        "driver": "fake-hardware",
        // The `fake` management knows no disk to boot from. For this vendor's
        // UEFI machines Ironic sets none, but trusts the entry that the agent
        // makes.
        "properties": {"capabilities": "boot_mode:uefi", "vendor": "lenovo"},
    });
    // A conductor that has not registered yet has no drivers.
    let made = loop {
        match api.call(Method::POST, "/v1/nodes", Some(&node)).await {
            Ok(made) => break made,
            Err(error) if Instant::now() > deadline => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(500)).await,
        }
    };
    let uuid = made["uuid"].as_str().context("a node without a uuid")?;
    let port = json!({"node_uuid": uuid, "address": mac});
    api.call(Method::POST, "/v1/ports", Some(&port)).await?;
    Ok(uuid.to_owned())
}

/// What was found became the node's: its inventory has our disk and no other.
async fn inspected(api: &Api, node: &str, disk: &Path) -> Result<()> {
    let shown = api.node(node).await?;
    ensure!(
        shown["properties"]["cpu_arch"] == "x86_64",
        "properties are {}",
        shown["properties"]
    );
    let found = api.get(&format!("/v1/nodes/{node}/inventory")).await?;
    let disks: Vec<&str> = found["inventory"]["disks"]
        .as_array()
        .context("an inventory without disks")?
        .iter()
        .filter_map(|disk| disk["name"].as_str())
        .collect();
    ensure!(
        disks == [disk.to_str().unwrap_or_default()],
        "the inventory has the disks {disks:?}"
    );
    Ok(())
}

fn put_old(disk: &Path) -> Result<()> {
    let file = std::fs::File::options().write(true).open(disk)?;
    for place in PLACES {
        file.write_all_at(&OLD, place)?;
    }
    file.sync_all()?;
    Ok(())
}

/// Whether any of the old data is there.
fn has_old(disk: &Path) -> Result<bool> {
    let file = std::fs::File::open(disk)?;
    for place in PLACES {
        let mut found = [0; OLD.len()];
        file.read_exact_at(&mut found, place)?;
        if found == OLD {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the disk has the image between its ends.
async fn is_written(image: &Path, disk: &Path, work: &Path) -> Result<()> {
    let raw = work.join("image.raw");
    let converted = child::command("qemu-img")
        .args(["convert", "-O", "raw"])
        .arg(image)
        .arg(&raw)
        .output()
        .await?;
    let said = String::from_utf8_lossy(&converted.stderr);
    ensure!(converted.status.success(), "qemu-img: {}", said.trim());
    let wanted = std::fs::read(raw)?;
    let mut found = vec![0; wanted.len()];
    std::fs::File::open(disk)?.read_exact_at(&mut found, 0)?;
    let inside = END..wanted.len() - END;
    ensure!(
        wanted[inside.clone()] == found[inside],
        "the disk does not hold the image"
    );
    Ok(())
}

async fn until(api: &Api, node: &str, state: &str) -> Result<Value> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let shown = api.node(node).await?;
        let now = shown["provision_state"].as_str().unwrap_or_default();
        if now == state && shown["reservation"].is_null() {
            return Ok(shown);
        }
        if Instant::now() > deadline || now.ends_with("failed") || now == "error" {
            bail!("not {state}: it is {now}; {}", shown["last_error"]);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

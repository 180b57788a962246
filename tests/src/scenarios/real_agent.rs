//! Our conductor and a real ironic-python-agent.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use axum::Router;
use axum::routing::get;
use serde_json::Value;
use serde_json::json;
use sha2::Digest;
use sha2::Sha256;

use super::Context;
use crate::api::Api;
use crate::child;
use crate::fleet::tls;
use crate::kill::flows;
use crate::kill::site::Site;
use crate::paths::Paths;
use crate::real_agent;
use crate::real_agent::Loop;
use crate::real_agent::Prepared;
use crate::sim::Habits;
use crate::sim::Machine;
use crate::sim::Sim;

/// For the node to come from one point to the next: a real agent takes its
/// time.
const PATIENCE: Duration = Duration::from_secs(300);
/// Where real agents listen.
const PORT: u16 = 9999;
/// Bytes of disk and image.
const DISK: u64 = 64 << 20;
const IMAGE: u64 = 32 << 20;

/// Clean and deploy by a real agent with its own TLS; then an agent that shows
/// another certificate than the pinned one is refused.
pub(super) async fn clean_and_deploy(context: &mut Context) -> Result<()> {
    let paths = Paths::find()?;
    std::fs::create_dir_all(&paths.runs)?;
    let work = tempfile::Builder::new()
        .prefix("real-agent-")
        .tempdir_in(&paths.runs)?;
    let image = image(work.path()).await?;
    let (url, digest) = offer(image.clone()).await?;
    let disk = Loop::attach(&work.path().join("disk"), DISK).await?;

    let mut site = Site::serve(&paths.binary("wrought")?, work.path())?;
    site.start().await?;
    let api = site.api()?;
    let sim = Sim::start()?;
    sim.surround(&site.boots(), Some(site.ca()))?;
    let machine = sim.machine("real", Habits::default());
    let log = paths.runs.join("real-agent.log");
    let prepared = real_agent::prepare(
        &paths,
        work.path(),
        disk.path(),
        machine.mac(),
        site.ca(),
        &log,
    )?;
    let program = Arc::new(prepared.program.clone());
    machine.train(|habits| habits.program = Some(program));
    let node = flows::enrol(&api, "real", sim.driver_info(&machine), machine.mac()).await?;
    let story = || machine.log().lines.join("\n    ");
    let run = async {
        api.set(
            &node,
            &[
                ("/automated_clean", json!(true)),
                ("/properties/capabilities", json!("boot_mode:bios")),
                (
                    "/instance_info",
                    json!({
                        "image_source": url, "image_disk_format": "raw",
                        "image_os_hash_algo": "sha256", "image_os_hash_value": digest,
                    }),
                ),
            ],
        )
        .await?;
        api.provision(&node, "manage", json!({})).await?;
        until(&api, &node, "manageable").await?;
        api.provision(&node, "provide", json!({})).await?;
        until(&api, &node, "available").await?;
        context.account.say("a real agent has cleaned");
        api.provision(&node, "active", json!({})).await?;
        until(&api, &node, "active").await
    };
    let active = run.await.with_context(story)?;
    ensure!(active["last_error"].is_null(), "{}", active["last_error"]);
    context.account.say("a real agent has deployed");
    let steps = prepared.steps();
    let expected = [
        "erase_devices_metadata",
        "take_a_while begins",
        "take_a_while ends",
        "write_image",
    ];
    ensure!(steps == expected, "the agent ran {steps:?}");
    let written = std::fs::read(disk.path())?;
    ensure!(
        written.get(..image.len()) == Some(image.as_slice()),
        "the image is not on the disk"
    );
    impostor(context, &api, &node, &machine, &prepared)
        .await
        .with_context(story)?;
    site.stop().await;
    Ok(())
}

/// The agent dies in the middle of a step, and something else with a
/// certificate of its own takes its place: it is told nothing, the machine is
/// started anew, and the step runs again.
async fn impostor(
    context: &Context,
    api: &Api,
    node: &str,
    machine: &Machine,
    prepared: &Prepared,
) -> Result<()> {
    let before = prepared.steps().len();
    let mark = machine.mark();
    api.provision(node, "deleted", json!({})).await?;
    let ran = || prepared.steps().split_off(before);
    wait("the agent's long step", || {
        ran().iter().any(|step| step == "take_a_while begins")
    })
    .await?;
    machine.kill_agent();
    let bound = Instant::now();
    let listener = loop {
        match tokio::net::TcpListener::bind(("127.0.0.1", PORT)).await {
            Ok(listener) => break listener,
            Err(error) if bound.elapsed() > PATIENCE => return Err(error.into()),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    let heard = Arc::new(AtomicUsize::new(0));
    let (listener, _) = tls::Listener::new(listener)?;
    let counted = Arc::clone(&heard);
    let router = Router::new().fallback(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        std::future::ready("{\"commands\": []}")
    });
    let server = tokio::spawn(async move { axum::serve(listener, router).await });
    let off = wait("the end of the impostor's machine", || {
        let log = machine.log_since(mark);
        let mut offs = log.switches.iter().filter(|switch| !switch.on);
        // The first one ended the instance.
        offs.nth(1).is_some()
    })
    .await;
    server.abort();
    off?;
    until(api, node, "available").await?;
    let heard = heard.load(Ordering::SeqCst);
    ensure!(heard == 0, "the impostor was told {heard} things");
    let ran = ran();
    let expected = [
        "erase_devices_metadata",
        "take_a_while begins",
        "take_a_while begins",
        "take_a_while ends",
    ];
    ensure!(ran == expected, "the agents ran {ran:?}");
    context
        .account
        .say("another certificate was refused, and the step ran again");
    Ok(())
}

async fn wait(what: &str, mut come: impl FnMut() -> bool) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !come() {
        ensure!(Instant::now() < deadline, "{what} did not come");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// A disk image with a partition.
async fn image(folder: &std::path::Path) -> Result<Vec<u8>> {
    let path = folder.join("image.raw");
    std::fs::File::create(&path)?.set_len(IMAGE)?;
    let mut partition = child::command("sgdisk");
    let made = partition
        .args(["--new", "1:2048:0"])
        .arg(&path)
        .output()
        .await;
    let made = made.context("running sgdisk")?;
    let said = String::from_utf8_lossy(&made.stderr);
    ensure!(made.status.success(), "sgdisk: {}", said.trim());
    Ok(std::fs::read(path)?)
}

/// Serves the image; gives URL and digest.
pub(super) async fn offer(image: Vec<u8>) -> Result<(String, String)> {
    let digest = Sha256::digest(&image);
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/image.raw", listener.local_addr()?);
    let router = Router::new().route("/image.raw", get(move || std::future::ready(image.clone())));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok((url, digest))
}

async fn until(api: &Api, node: &str, state: &str) -> Result<Value> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let shown = api.node(node).await?;
        let now = shown["provision_state"].as_str().unwrap_or_default();
        if now == state && shown["reservation"].is_null() {
            return Ok(shown);
        }
        if Instant::now() > deadline || now.ends_with("failed") {
            bail!("not {state}: it is {now}; {}", shown["last_error"]);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

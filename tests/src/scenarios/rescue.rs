//! Somebody logs in to a rescued machine, and nobody does before.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::ensure;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::task::JoinHandle;

use super::Context;
use crate::Unavailable;
use crate::accel::which;
use crate::child;
use crate::deploy::Guest as Instance;
use crate::deploy::Node;
use crate::qemu::Firmware;
use crate::qemu::command_line::CONSOLE_SOCKET;
use crate::qemu::qmp::connect_short;
use crate::serial::SerialLog;
use crate::server::write_secret;
use crate::world;
use crate::world::MachineOptions;

/// What a login's answer takes.
const ANSWER: Duration = Duration::from_secs(120);
/// Long enough for a prompt, if there were one.
const SILENCE: Duration = Duration::from_secs(10);
/// The prompt of a ramdisk.
const PROMPT: &str = "wrought login:";
/// The account that gets the password.
const ACCOUNT: &str = "rescue";
/// Asks a shell who it is.
const WHO: &str = "echo who-$(id -u)-$(hostname)";
/// The answer, which is not in the question.
const IT: &str = "who-0-wrought";

/// A ramdisk with logins cleans a machine, and nobody can log in; then it rescues
/// the machine, and console and SSH take the password of the request.
pub(super) async fn login(context: &mut Context) -> Result<()> {
    let account = context.account.clone();
    if which("ssh").is_none() {
        let text = "ssh is missing; install the package openssh-client, or run `cargo xtask setup \
                    --all`";
        return Err(Unavailable(text.to_owned()).into());
    }
    let options = world::Options {
        ramdisk: "ramdisk-rescue",
        ..world::Options::default()
    };
    let world = context.start_with(options).await?;
    let options = MachineOptions::new(Firmware::Uefi);
    let bmc = world.add_machine("rescued", options).await?;
    let node = Node::enrol(world, &bmc, "ipxe", &account).await?;
    node.go("manage", json!({}), "manageable").await?;
    let held = json!({"clean_steps": [
        {"interface": "deploy", "step": "erase_devices_metadata"},
        {"interface": "power", "step": "hold"},
    ]});
    node.go("clean", held, "clean hold").await?;
    has_no_login(&node).await?;
    account.say("nobody can log in while the machine is cleaned");
    node.go("unhold", json!({}), "manageable").await?;
    node.go("provide", json!({}), "available").await?;

    let run = world.run().scratch_dir("login")?;
    node.api
        .set(&node.uuid, &[("/rescue_interface", json!("agent"))])
        .await?;
    node.set_image(&world.offer_image("tiny")?).await?;
    node.deploy(&Instance::random()).await?;
    let password = crate::random_hex(8);
    let console = node.serial.from_now();
    node.go("rescue", json!({"rescue_password": password}), "rescue")
        .await?;
    log_in(&node, &console, &password).await?;
    account.say("the console took the password");
    let address = address(&console)?;
    let refused = ssh(&run, address, &crate::random_hex(8)).await?;
    ensure!(
        refused.contains("Permission denied"),
        "SSH with another password: {refused}"
    );
    let said = ssh(&run, address, &password).await?;
    ensure!(
        said.lines().any(|line| line == IT),
        "SSH with the password: {said}"
    );
    account.say("SSH took the password, and no other");
    node.go("unrescue", json!({}), "active").await?;
    Ok(())
}

/// A keyboard that is connected until it is dropped: QEMU throws away what a
/// machine has not read yet when nobody is connected any more.
struct Keyboard {
    keys: OwnedWriteHalf,
    shown: JoinHandle<()>,
}

impl Keyboard {
    /// Sits down at a machine's console.
    async fn of(node: &Node) -> Result<Self> {
        let folder = &node.bmc.machine().spec().dir;
        let keyboard = connect_short(folder, CONSOLE_SOCKET)
            .await
            .with_context(|| format!("connecting to {CONSOLE_SOCKET} in {}", folder.display()))?;
        let (mut screen, keys) = keyboard.into_split();
        // The console's log has it all; QEMU waits for whoever does not read.
        let shown = tokio::spawn(async move {
            tokio::io::copy(&mut screen, &mut tokio::io::sink())
                .await
                .ok();
        });
        Ok(Self { keys, shown })
    }

    async fn line(&mut self, text: &str) -> Result<()> {
        Ok(self.keys.write_all(format!("{text}\n").as_bytes()).await?)
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        self.shown.abort();
    }
}

/// The console has no prompt, nothing that is typed is answered, and nobody
/// listens for SSH.
async fn has_no_login(node: &Node) -> Result<()> {
    let console = &node.serial;
    ensure!(
        console.text().contains("login: waiting for the password"),
        "the ramdisk has no login at all"
    );
    let mut keyboard = Keyboard::of(node).await?;
    for text in ["", ACCOUNT, "", "echo who-$((6*7))"] {
        keyboard.line(text).await?;
    }
    tokio::time::sleep(SILENCE).await;
    let text = console.text();
    for wrong in [PROMPT, "who-42", "Password:"] {
        ensure!(!text.contains(wrong), "the console shows {wrong:?}");
    }
    let address = address(console)?;
    let tried = TcpStream::connect((address, 22)).await;
    let refused = tried.err().map(|error| error.kind());
    ensure!(
        refused == Some(std::io::ErrorKind::ConnectionRefused),
        "port 22 of {address} is not closed: {refused:?}"
    );
    Ok(())
}

/// Logs in on the console.
async fn log_in(node: &Node, console: &SerialLog, password: &str) -> Result<()> {
    let wait = async |what: &str| {
        console
            .wait(&format!("{what:?}"), ANSWER, |text| {
                text.contains(what).then_some(())
            })
            .await
    };
    wait("login: rescue can log in").await?;
    wait(PROMPT).await?;
    let mut keyboard = Keyboard::of(node).await?;
    keyboard.line(ACCOUNT).await?;
    wait("Password:").await?;
    keyboard.line(password).await?;
    wait("~ # ").await?;
    keyboard.line(WHO).await?;
    wait(IT).await
}

/// The machine's address in the ramdisk's last banner.
fn address(console: &SerialLog) -> Result<Ipv4Addr> {
    let text = console.text();
    let line = text
        .lines()
        .rev()
        .find_map(|line| line.trim().strip_prefix("addresses"))
        .context("the console shows no banner with addresses")?;
    line.split([' ', ','])
        .find_map(|word| word.parse().ok())
        .with_context(|| format!("no IPv4 address in {line:?}"))
}

/// What `ssh` says when it logs in with `password` and asks who it is.
async fn ssh(run: &Path, address: Ipv4Addr, password: &str) -> Result<String> {
    let secret = run.join("password");
    write_secret(&secret, password)?;
    let asked = run.join("askpass");
    std::fs::write(&asked, format!("#!/bin/sh\ncat '{}'\n", secret.display()))?;
    let mut permissions = std::fs::metadata(&asked)?.permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o700);
    std::fs::set_permissions(&asked, permissions)?;
    let mut command = child::command("ssh");
    command
        .args(["-F", "none", "-l", ACCOUNT])
        .args(["-o", "StrictHostKeyChecking=no"])
        .args(["-o", "UserKnownHostsFile=/dev/null"])
        .args(["-o", "PreferredAuthentications=password"])
        .args(["-o", "NumberOfPasswordPrompts=1"])
        .args([&address.to_string(), WHO])
        .env("SSH_ASKPASS", &asked)
        .env("SSH_ASKPASS_REQUIRE", "force")
        .stdin(std::process::Stdio::null());
    let output = tokio::time::timeout(ANSWER, command.output())
        .await
        .with_context(|| format!("ssh to {address} has not ended"))??;
    let said = [output.stdout, output.stderr].concat();
    Ok(String::from_utf8_lossy(&said).into_owned())
}

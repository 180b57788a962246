//! Worlds beside each other, and worlds that end badly: nothing stays.

use std::collections::BTreeSet;
use std::path::Path;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::ensure;
use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use tokio::io::AsyncBufReadExt;
use tokio::io::BufReader;
use tokio::process::Child;

use super::Context;
use crate::child;
use crate::qemu::Firmware;
use crate::world;
use crate::world::MachineOptions;

/// Time for a world with a machine in it to come up.
const UP: Duration = Duration::from_secs(90);
/// The word that a held world prints before its run folder.
const HELD: &str = "held ";

/// Two worlds at once; both come up, and go at Ctrl-C.
pub(super) async fn side_by_side(context: &mut Context) -> Result<()> {
    let before = interfaces()?;
    let (mut one, mut two) = (Held::start()?, Held::start()?);
    let (first, second) = tokio::try_join!(one.folder(), two.folder())?;
    context.account.say(&format!(
        "two worlds: {} {}",
        first.display(),
        second.display()
    ));
    ensure!(
        processes_of(&first)? > 0 && processes_of(&second)? > 0,
        "no processes were seen"
    );
    ensure!(
        before == interfaces()?,
        "the host's interfaces have changed"
    );
    for (held, folder) in [(one, first), (two, second)] {
        let status = held.end(Signal::SIGINT).await?;
        ensure!(status.code() == Some(130), "after Ctrl-C: {status}");
        nothing_left(&folder).await?;
        ensure!(
            !folder.join("scratch").exists(),
            "files stayed in {}",
            folder.display()
        );
    }
    ensure!(
        before == interfaces()?,
        "the host's interfaces have changed"
    );
    Ok(())
}

/// A world whose harness is killed.
pub(super) async fn sigkill(context: &mut Context) -> Result<()> {
    let before = interfaces()?;
    let mut held = Held::start()?;
    let folder = held.folder().await?;
    context
        .account
        .say(&format!("killing the world in {}", folder.display()));
    held.end(Signal::SIGKILL).await?;
    nothing_left(&folder).await?;
    ensure!(
        before == interfaces()?,
        "the host's interfaces have changed"
    );
    // Files go with the next run that is started.
    let mut next = Held::start()?;
    next.folder().await?;
    ensure!(
        !folder.join("scratch").exists(),
        "files stayed in {}",
        folder.display()
    );
    next.end(Signal::SIGTERM).await.map(drop)
}

/// What the two above start: a world with a machine that is on, held until
/// the process is ended.
pub(super) async fn hold(context: &mut Context) -> Result<()> {
    let options = world::Options {
        script_only: Some("#!ipxe\nsleep 600\n".to_owned()),
        ..world::Options::default()
    };
    let world = context.start_with(options).await?;
    let bmc = world
        .add_machine("held", MachineOptions::new(Firmware::Bios))
        .await?;
    bmc.machine().power_on().await?;
    println!("{HELD}{}", world.run().root().display());
    std::future::pending().await
}

/// A held world in a process of its own.
struct Held(Child);

impl Held {
    fn start() -> Result<Self> {
        let mut command = child::command(std::env::current_exe()?);
        command.args(["scenario", "_hold"]).stdout(Stdio::piped());
        Ok(Self(command.spawn()?))
    }

    /// Its run folder, as soon as its machine is on.
    async fn folder(&mut self) -> Result<PathBuf> {
        let out = self
            .0
            .stdout
            .take()
            .context("the world's output is taken")?;
        let mut lines = BufReader::new(out).lines();
        let reading = async {
            while let Some(line) = lines.next_line().await? {
                if let Some(folder) = line.strip_prefix(HELD) {
                    return Ok(PathBuf::from(folder));
                }
            }
            anyhow::bail!("the world ended before it was up")
        };
        tokio::time::timeout(UP, reading)
            .await
            .context("the world did not come up")?
    }

    async fn end(mut self, signal: Signal) -> Result<std::process::ExitStatus> {
        let pid = self.0.id().context("the world has ended already")?;
        kill(Pid::from_raw(pid.cast_signed()), signal)?;
        Ok(self.0.wait().await?)
    }
}

/// Waits until no process has the folder in its command line.
async fn nothing_left(folder: &Path) -> Result<()> {
    let limit = tokio::time::Instant::now() + Duration::from_secs(10);
    loop {
        let left = processes_of(folder)?;
        if left == 0 {
            return Ok(());
        }
        ensure!(
            tokio::time::Instant::now() < limit,
            "{left} processes of {} are still there",
            folder.display()
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// How many processes have the folder in their command line.
fn processes_of(folder: &Path) -> Result<usize> {
    let needle = folder.display().to_string();
    let mut count = 0;
    for entry in std::fs::read_dir("/proc")?.flatten() {
        // A process may end while we look at it.
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        count += usize::from(String::from_utf8_lossy(&line).contains(&needle));
    }
    Ok(count)
}

/// Network interfaces that this process sees.
fn interfaces() -> Result<BTreeSet<String>> {
    let names = std::fs::read_dir("/sys/class/net")?;
    Ok(names
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect())
}

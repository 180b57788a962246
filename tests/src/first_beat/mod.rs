//! One boot of a ramdisk, from power-on to the agent's first heartbeat, with
//! nothing of Wrought's server: an API of one node, a machine on QEMU's own
//! network. What the ramdisk can do by itself, on any kind of machine.

pub mod guest;

pub use guest::Arch;
pub use guest::Boot;
pub use guest::Guest;

use std::path::Path;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;

use crate::accel::Accel;
use crate::child::Daemon;
use crate::lone::Api;
use crate::serial::SerialLog;
use crate::serial::tail;

/// The kernel's line when it starts the ramdisk's first program.
const INIT: &str = "Run /init as init process";
/// How long QEMU may take to end.
const STOP: Duration = Duration::from_secs(5);
/// Between two looks at the console: what is measured is no finer.
const LOOK: Duration = Duration::from_millis(20);

/// When what happened, in seconds.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// From power-on to the kernel's start of `/init`; firmware and boot loader
    /// are in it.
    pub to_init: f64,
    /// The same on the kernel's own clock, which begins with the kernel.
    pub kernel_to_init: f64,
    /// From power-on to the first heartbeat.
    pub to_heartbeat: f64,
}

/// Boots `guest` and waits for its first heartbeat at `api`, which had none
/// before; the machine is switched off afterwards.
pub async fn boot(
    guest: &Guest,
    api: &Api,
    accel: Accel,
    dir: &Path,
    limit: Duration,
) -> Result<Times> {
    let start = Instant::now();
    let running = guest.start(api, accel, dir)?;
    let times = until_beat(&running, api, dir, start, limit).await;
    running.stop(STOP).await;
    times
}

/// Boots `guest` and has its kernel crash once the agent is there: what it keeps
/// of that is in the machine's variables afterwards.
pub async fn crash(guest: &Guest, api: &Api, accel: Accel, dir: &Path) -> Result<()> {
    const LIMIT: Duration = Duration::from_secs(120);
    let guest = Guest {
        append: format!("{} unknown_nmi_panic panic=600", guest.append),
        ..guest.clone()
    };
    let running = guest.start(api, accel, dir)?;
    until_beat(&running, api, dir, Instant::now(), 2 * LIMIT).await?;
    let mut monitor = UnixStream::connect(dir.join(guest::MONITOR)).await?;
    monitor.write_all(b"nmi\n").await?;
    let written = tokio::time::timeout(LIMIT, records(&dir.join(guest::VARIABLES))).await;
    running.stop(STOP).await;
    let console = SerialLog::new(&dir.join("serial.log")).text();
    let panicked = console.contains("Kernel panic - not syncing: NMI");
    ensure!(panicked, "the kernel has not crashed");
    written.context("the crashed kernel has left no record in the firmware's variables")?
}

/// Waits until crash records are in the variables, and no more are added.
async fn records(variables: &Path) -> Result<()> {
    const QUIET: Duration = Duration::from_secs(10);
    let name: Vec<u8> = "dump-type0-"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let content = std::fs::read(variables)?;
        let age = std::fs::metadata(variables)?.modified()?.elapsed();
        if age.is_ok_and(|age| age > QUIET)
            && content.windows(name.len()).any(|window| window == name)
        {
            return Ok(());
        }
    }
}

async fn until_beat(
    running: &Daemon,
    api: &Api,
    dir: &Path,
    start: Instant,
    limit: Duration,
) -> Result<Times> {
    let console = SerialLog::new(&dir.join("serial.log"));
    let mut to_init = None;
    let beat = loop {
        if to_init.is_none() && console.text().contains(INIT) {
            to_init = Some(start.elapsed().as_secs_f64());
        }
        if let Some(beat) = api.first_beat() {
            break beat.at;
        }
        let text = || tail(&console.text(), 6).join(" | ");
        if let Some(status) = running.status() {
            let said = std::fs::read_to_string(dir.join("qemu.log")).unwrap_or_default();
            bail!(
                "QEMU ended ({status}) before a heartbeat: {}; console: {}",
                said.trim(),
                text()
            );
        }
        if start.elapsed() > limit {
            bail!(
                "no heartbeat within {} s; the console ends with: {}",
                limit.as_secs(),
                text()
            );
        }
        tokio::time::sleep(LOOK).await;
    };
    let text = console.text();
    let line = text
        .lines()
        .find(|line| line.contains(INIT))
        .with_context(|| format!("the console does not show {INIT:?}"))?;
    let to_heartbeat = beat.duration_since(start).as_secs_f64();
    Ok(Times {
        to_init: to_init.unwrap_or(to_heartbeat),
        kernel_to_init: kernel_time(line).with_context(|| format!("no time in {line:?}"))?,
        to_heartbeat,
    })
}

/// The kernel's clock in a line such as `[    2.345678] Run …`.
fn kernel_time(line: &str) -> Option<f64> {
    let (_, rest) = line.split_once('[')?;
    let (time, _) = rest.split_once(']')?;
    time.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::kernel_time;

    #[test]
    fn the_kernels_clock_is_read() {
        let line = "[    2.345678] Run /init as init process";
        assert_eq!(kernel_time(line), Some(2.345_678));
        assert_eq!(kernel_time("Run /init"), None);
    }
}

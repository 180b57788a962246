//! A machine with our ramdisk and nothing around it: QEMU boots kernel and
//! initramfs by itself, the harness plays the API, and commands go straight
//! to the agent with whatever node they need. One boot, many checks.

pub mod drives;

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;

use crate::accel::Accel;
use crate::child;
use crate::child::Daemon;
use crate::lone::Agent;
use crate::lone::Api;
use crate::paths::Paths;
use crate::qemu::process::QEMU;
use crate::rundir::RunDir;
use crate::serial::SerialLog;
use drives::Drive;

/// How long a boot may take under translation on a busy machine.
const BOOT_LIMIT: Duration = Duration::from_secs(240);
/// Kernel parameters that every machine gets.
const PARAMETERS: &str = "console=ttyS0,115200 ipa-heartbeat-interval=5 ipa-debug=1";

/// What a machine is made of.
#[derive(Debug, Default)]
pub struct Parts {
    /// Its disks.
    pub drives: Vec<Drive>,
    /// Memory in MiB; 0 for 512.
    pub memory_mib: u32,
    /// More kernel parameters.
    pub parameters: String,
    /// More arguments of QEMU.
    pub arguments: Vec<String>,
}

/// A machine whose agent is up.
#[derive(Debug)]
pub struct Machine {
    daemon: Daemon,
    agent: Agent,
    serial: SerialLog,
    _api: Api,
}

impl Machine {
    /// Boots a machine and waits for its agent's first heartbeat. Must run
    /// in a namespace: the agent's port is passed through on its loopback.
    pub async fn boot(
        run: &RunDir,
        name: &str,
        accel: Option<Accel>,
        parts: &Parts,
    ) -> Result<Self> {
        let paths = Paths::find()?;
        let kernel = paths.ramdisk_file("vmlinuz")?;
        let initramfs = paths.ramdisk_file("initramfs")?;
        let cache = paths.runs.join("accel");
        let accel = Accel::choose(accel, &cache, &kernel).await?;
        let api = Api::start().await?;
        // Free for a moment at least, and nobody else is in this namespace.
        let agent = std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?;
        let serial = run.log(&format!("{name}.serial.log"));
        let line = format!(
            "{PARAMETERS} ipa-api-url=http://10.0.2.2:{} {}",
            api.port(),
            parts.parameters
        );
        let mut command = child::command(QEMU);
        command
            .args(["-nodefaults", "-no-user-config", "-display", "none"])
            .args(["-no-reboot", "-machine", "q35", "-smp", "2", "-m"])
            .arg(match parts.memory_mib {
                0 => "512".to_owned(),
                mib => mib.to_string(),
            })
            .args(accel.arguments().iter().flat_map(|(a, b)| [*a, *b]))
            .arg("-kernel")
            .arg(kernel)
            .arg("-initrd")
            .arg(initramfs)
            .args(["-append", &line])
            .args(["-serial", &format!("file:{}", serial.display())])
            .args(["-device", "virtio-rng-pci"])
            .arg("-netdev")
            .arg(format!("user,id=net0,hostfwd=tcp:{agent}-:9999"))
            .args(["-device", "virtio-net-pci,netdev=net0"])
            .args(drives::arguments(&parts.drives))
            .args(&parts.arguments);
        let log = run.log(&format!("{name}.qemu.log"));
        let daemon = Daemon::start(&format!("QEMU of {name}"), command, &log)?;
        let serial = SerialLog::new(&serial);
        tokio::select! {
            beat = tokio::time::timeout(BOOT_LIMIT, api.beat()) => {
                beat.with_context(|| {
                    format!("no heartbeat of {name} within {} s; serial console: {}",
                        BOOT_LIMIT.as_secs(), serial.path().display())
                })??;
            }
            _ = daemon.wait() => {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                bail!("QEMU of {name} ended at once: {}", said.trim());
            }
        }
        let agent = Agent::new(&format!("https://{agent}"), api.token())?;
        Ok(Self {
            daemon,
            agent,
            serial,
            _api: api,
        })
    }

    /// The serial console.
    pub fn serial(&self) -> &SerialLog {
        &self.serial
    }

    /// Its agent.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Cuts the power.
    pub async fn stop(&self) {
        self.daemon.stop(Duration::from_secs(10)).await;
    }
}

/// Fills a file with a pattern that no erase leaves by chance.
pub fn fill(path: &Path, bytes: u64, pattern: &str) -> Result<()> {
    let length = usize::try_from(bytes)?;
    let content: Vec<u8> = pattern.bytes().cycle().take(length).collect();
    std::fs::write(path, content).with_context(|| format!("writing {}", path.display()))
}

/// Offset of the first place in a disk, read raw and whole, that holds the
/// needle.
pub fn find(path: &Path, needle: &str) -> Result<Option<usize>> {
    let content = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    Ok(content
        .windows(needle.len())
        .position(|window| window == needle.as_bytes()))
}

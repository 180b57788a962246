//! Whether this machine can really run guests with KVM.
//!
//! `/dev/kvm` may exist and open and still not run a guest, so the answer
//! comes from booting a kernel for a few seconds, and is kept for this boot
//! of the host.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use anyhow::bail;

use crate::Unavailable;
use crate::child;
use crate::child::Daemon;
use crate::qemu::process::QEMU;

/// How guests run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accel {
    /// Hardware.
    Kvm,
    /// Translation; works everywhere, several times slower.
    Tcg,
}

/// How long a guest on KVM may take to its first kernel messages' end.
const PROBE_LIMIT: Duration = Duration::from_secs(12);

impl Accel {
    /// QEMU's options.
    pub const fn arguments(self) -> [(&'static str, &'static str); 2] {
        match self {
            Self::Kvm => [("-accel", "kvm"), ("-cpu", "host")],
            Self::Tcg => [("-accel", "tcg,thread=multi"), ("-cpu", "max")],
        }
    }

    /// The short name, also that of the override.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }

    /// Reads an override's value.
    pub fn parse(text: &str) -> Result<Self> {
        match text {
            "kvm" => Ok(Self::Kvm),
            "tcg" => Ok(Self::Tcg),
            _ => bail!("WROUGHT_ACCEL is {text:?}, expected kvm or tcg"),
        }
    }

    /// Takes the override, else the cached answer, else probes with `kernel`.
    pub async fn choose(forced: Option<Self>, cache: &Path, kernel: &Path) -> Result<Self> {
        if which(QEMU).is_none() {
            bail!(Unavailable(format!(
                "{QEMU} is missing; install the package qemu-system-x86, or run `cargo xtask setup`"
            )));
        }
        if let Some(forced) = forced {
            return Ok(forced);
        }
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let stamp = |accel: Self| format!("{} {}\n", accel.as_str(), boot.trim());
        if let Ok(cached) = std::fs::read_to_string(cache)
            && let Some(known) = [Self::Kvm, Self::Tcg]
                .into_iter()
                .find(|a| stamp(*a) == cached)
        {
            return Ok(known);
        }
        let usable = std::fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/kvm")
            .is_ok();
        if !usable {
            return Ok(Self::Tcg);
        }
        if !kernel.exists() {
            // Nothing to boot yet: no answer worth keeping.
            return Ok(Self::Tcg);
        }
        let found = if probe(kernel).await? {
            Self::Kvm
        } else {
            Self::Tcg
        };
        if let Some(folder) = cache.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(cache, stamp(found))?;
        Ok(found)
    }
}

/// Boots `kernel` without an initramfs. A processor that works brings it to
/// the point where it misses its root file system.
async fn probe(kernel: &Path) -> Result<bool> {
    let dir = tempfile::tempdir()?;
    let serial = dir.path().join("serial");
    let mut command = child::command(QEMU);
    command
        .args([
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-machine",
            "q35",
        ])
        .args([
            "-accel",
            "kvm",
            "-cpu",
            "host",
            "-m",
            "256",
            "-smp",
            "2",
            "-no-reboot",
        ])
        .args(["-append", "console=ttyS0 panic=1"])
        .arg("-kernel")
        .arg(kernel)
        .arg("-serial")
        .arg(format!("file:{}", serial.display()));
    let daemon = Daemon::start("KVM probe", command, &dir.path().join("log"))?;
    tokio::time::timeout(PROBE_LIMIT, daemon.wait()).await.ok();
    daemon.stop(Duration::from_secs(1)).await;
    let said = std::fs::read(&serial).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    Ok(said.contains("Unable to mount root fs") || said.contains("No working init found"))
}

/// The first program of this name on the search path.
pub fn which(program: &str) -> Option<std::path::PathBuf> {
    ["/usr/local/bin", "/usr/bin", "/usr/local/sbin", "/usr/sbin"]
        .iter()
        .map(|folder| Path::new(folder).join(program))
        .find(|path| path.exists())
}

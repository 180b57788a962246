//! The machine: QEMU with its own network, which needs no privileges and leads
//! from 10.0.2.2 to this host's loopback.

use std::ffi::OsString;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;

use super::Api;
use crate::Unavailable;
use crate::accel::Accel;
use crate::accel::which;
use crate::child;
use crate::child::Daemon;
use crate::paths::system_file;
use crate::qemu::Firmware;

/// The machine's monitor, in its folder.
pub(super) const MONITOR: &str = "monitor.sock";
/// Its UEFI variables, in its folder.
pub const VARIABLES: &str = "vars.fd";
/// This host, as QEMU's network shows it.
const HOST: &str = "10.0.2.2";

/// The kind of machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arch {
    /// A PC (`q35`).
    X86_64,
    /// An ARM machine (`virt`).
    Aarch64,
}

/// What is booted.
#[derive(Debug, Clone)]
pub enum Boot {
    /// Kernel and initramfs, as a boot loader does it.
    Kernel {
        /// The kernel.
        kernel: PathBuf,
        /// The initramfs.
        initramfs: PathBuf,
    },
    /// A unified kernel image, started by UEFI firmware.
    Uki(PathBuf),
    /// A disc; its parameters must name the API's port.
    Disc(PathBuf, Firmware),
}

/// A machine.
#[derive(Debug, Clone)]
pub struct Guest {
    /// Its kind.
    pub arch: Arch,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// What it boots.
    pub boot: Boot,
    /// Further words for the kernel command line.
    pub append: String,
}

impl Arch {
    fn qemu(self) -> &'static str {
        match self {
            Self::X86_64 => "qemu-system-x86_64",
            Self::Aarch64 => "qemu-system-aarch64",
        }
    }

    fn package(self) -> &'static str {
        match self {
            Self::X86_64 => "qemu-system-x86",
            Self::Aarch64 => "qemu-system-arm",
        }
    }

    fn console(self) -> &'static str {
        match self {
            Self::X86_64 => "ttyS0",
            Self::Aarch64 => "ttyAMA0",
        }
    }

    /// UEFI firmware: code, and the template of its variables.
    fn firmware(self) -> Result<[PathBuf; 2]> {
        let (folder, code, vars, package) = match self {
            Self::X86_64 => ("OVMF", "OVMF_CODE_4M.fd", "OVMF_VARS_4M.fd", "ovmf"),
            Self::Aarch64 => (
                "AAVMF",
                "AAVMF_CODE.fd",
                "AAVMF_VARS.fd",
                "qemu-efi-aarch64",
            ),
        };
        let file = |name| system_file(&[&format!("/usr/share/{folder}/{name}")], package);
        Ok([file(code)?, file(vars)?])
    }
}

/// The API's address for a guest.
pub fn api_url(api: &Api) -> String {
    format!("http://{HOST}:{}", api.port())
}

impl Guest {
    /// Starts it in `dir`, which gets `serial.log` and `qemu.log`.
    pub(super) fn start(&self, api: &Api, accel: Accel, dir: &Path) -> Result<Daemon> {
        let program = self.arch.qemu();
        if which(program).is_none() {
            let package = self.arch.package();
            return Err(Unavailable(format!(
                "{program} is missing; install the package {package}, or run `cargo xtask setup \
                 --all`"
            ))
            .into());
        }
        let mut command = child::command(program);
        command
            .args(self.arguments(api, accel, dir)?)
            .current_dir(dir);
        Daemon::start("QEMU", command, &dir.join("qemu.log"))
    }

    fn arguments(&self, api: &Api, accel: Accel, dir: &Path) -> Result<Vec<OsString>> {
        let mut args: Vec<OsString> = ["-nodefaults", "-no-user-config", "-display", "none"]
            .map(Into::into)
            .to_vec();
        let mut arg = |name: &str, value: &str| {
            args.push(name.into());
            args.push(value.into());
        };
        match self.arch {
            Arch::X86_64 => {
                arg("-machine", "q35");
                for (name, value) in accel.arguments() {
                    arg(name, value);
                }
            }
            // Translation: this host is a PC.
            Arch::Aarch64 => {
                arg("-machine", "virt");
                arg("-accel", "tcg,thread=multi");
                arg("-cpu", "cortex-a72");
            }
        }
        arg("-smp", "2");
        arg("-m", &self.memory_mib.to_string());
        arg("-serial", "file:serial.log");
        arg("-monitor", &format!("unix:{MONITOR},server=on,wait=off"));
        arg("-device", "virtio-rng-pci");
        arg("-netdev", "user,id=net0");
        arg("-device", "virtio-net-pci,netdev=net0,romfile=");
        let uefi = match &self.boot {
            Boot::Kernel { .. } | Boot::Disc(_, Firmware::Bios) => false,
            Boot::Uki(_) | Boot::Disc(_, Firmware::Uefi) => true,
        };
        if uefi {
            let [code, vars] = self.arch.firmware()?;
            let own = dir.join(VARIABLES);
            std::fs::copy(&vars, &own).with_context(|| format!("copying {}", vars.display()))?;
            let code = code.display();
            arg(
                "-drive",
                &format!("if=pflash,unit=0,format=raw,readonly=on,file={code}"),
            );
            arg(
                "-drive",
                &format!("if=pflash,unit=1,format=raw,file={VARIABLES}"),
            );
        }
        let line = format!(
            "console={} ipa-api-url={} {}",
            self.arch.console(),
            api_url(api),
            self.append
        );
        match &self.boot {
            Boot::Kernel { kernel, initramfs } => {
                arg("-kernel", &kernel.display().to_string());
                arg("-initrd", &initramfs.display().to_string());
                arg("-append", &line);
            }
            Boot::Uki(uki) => {
                arg("-kernel", &uki.display().to_string());
                arg("-append", &line);
            }
            Boot::Disc(disc, _) => {
                let file = disc.display();
                arg(
                    "-drive",
                    &format!("if=none,id=cd0,media=cdrom,readonly=on,format=raw,file={file}"),
                );
                arg("-device", "virtio-scsi-pci");
                arg("-device", "scsi-cd,drive=cd0,bootindex=1");
            }
        }
        Ok(args)
    }
}

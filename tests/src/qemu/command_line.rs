//! QEMU's command line for a machine.

use std::ffi::OsString;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;

use super::BootIndexes;
use super::Firmware;
use super::Spec;
use crate::accel::Accel;
use crate::paths::system_file;

/// File names inside the machine's folder, which is QEMU's working folder:
/// a socket's path is limited to 107 bytes, a checkout's path is not.
pub const QMP_SOCKET: &str = "qmp.sock";
/// Interactive serial console.
pub const CONSOLE_SOCKET: &str = "console.sock";
const VARS: &str = "vars.fd";

/// The arguments that start `spec`.
pub fn arguments(
    spec: &Spec,
    accel: Accel,
    firmware: Firmware,
    boot: BootIndexes,
    media: Option<&Path>,
) -> Result<Vec<OsString>> {
    let mut args: Vec<OsString> = Vec::new();
    let mut arg = |name: &str, value: String| {
        args.push(name.into());
        if !value.is_empty() {
            args.push(value.into());
        }
    };
    arg("-nodefaults", String::new());
    arg("-no-user-config", String::new());
    arg("-display", "none".into());
    arg("-vga", "std".into());
    arg("-machine", "q35".into());
    for (name, value) in accel.arguments() {
        arg(name, value.into());
    }
    arg("-name", spec.name.clone());
    arg("-uuid", spec.uuid.to_string());
    arg("-smp", spec.cpus.to_string());
    arg("-m", spec.memory_mib.to_string());
    arg("-boot", "strict=on".into());
    arg("-device", "virtio-rng-pci".into());

    if firmware == Firmware::Uefi {
        let code = ovmf("OVMF_CODE_4M.fd")?;
        arg(
            "-drive",
            format!(
                "if=pflash,unit=0,format=raw,readonly=on,file={}",
                code.display()
            ),
        );
        arg("-drive", format!("if=pflash,unit=1,format=raw,file={VARS}"));
    }
    let serial = escape(&spec.serial_log);
    arg(
        "-chardev",
        format!(
            "socket,id=console,path={CONSOLE_SOCKET},server=on,wait=off,logfile={serial},logappend=on"
        ),
    );
    arg("-serial", "chardev:console".into());
    arg(
        "-chardev",
        format!("file,id=fw,path={},append=on", escape(&spec.firmware_log)),
    );
    arg("-device", "isa-debugcon,iobase=0x402,chardev=fw".into());
    arg("-qmp", format!("unix:{QMP_SOCKET},server=on,wait=off"));

    let netdev = match spec.wire {
        Some(wire) => format!(
            "dgram,id=net0,local.type=inet,local.host=127.0.0.1,local.port={},remote.type=inet,\
             remote.host=127.0.0.1,remote.port={}",
            wire.machine, wire.switch
        ),
        None => format!("tap,id=net0,ifname={},script=no,downscript=no", spec.tap),
    };
    arg("-netdev", netdev);
    // QEMU's option ROM is an iPXE of its own. UEFI does without: firmware PXE
    // fetches iPXE by TFTP there, as on most machines.
    let rom = match firmware {
        Firmware::Uefi => ",romfile=",
        Firmware::Bios => "",
    };
    arg(
        "-device",
        format!(
            "virtio-net-pci,id=nic0,netdev=net0,mac={}{}{rom}",
            spec.mac,
            index(boot.nic)
        ),
    );
    for (number, disk) in (0i32..).zip(&spec.disks) {
        arg(
            "-drive",
            format!(
                "if=none,id=drive{number},format=raw,cache=unsafe,discard=unmap,\
                 detect-zeroes=unmap,file={}",
                escape(&disk.path)
            ),
        );
        arg(
            "-device",
            format!(
                "virtio-blk-pci,id=disk{number},drive=drive{number},serial={}{}",
                disk.serial,
                index(boot.disk.map(|first| first + number))
            ),
        );
    }
    let file = media
        .map(|path| format!(",file={}", escape(path)))
        .unwrap_or_default();
    arg(
        "-drive",
        format!("if=none,id=media0,media=cdrom,readonly=on{file}"),
    );
    arg(
        "-device",
        format!("ide-cd,id=cd0,drive=media0{}", index(boot.cd)),
    );
    Ok(args)
}

/// Gives a UEFI machine its own empty variable store, if it has none yet.
pub fn prepare_variables(spec: &Spec) -> Result<()> {
    let vars = spec.dir.join(VARS);
    if !vars.exists() {
        let template = ovmf("OVMF_VARS_4M.fd")?;
        std::fs::copy(&template, &vars)
            .with_context(|| format!("copying {} to {}", template.display(), vars.display()))?;
    }
    Ok(())
}

fn ovmf(name: &str) -> Result<PathBuf> {
    system_file(&[&format!("/usr/share/OVMF/{name}")], "ovmf")
}

fn index(bootindex: Option<i32>) -> String {
    bootindex
        .map(|index| format!(",bootindex={index}"))
        .unwrap_or_default()
}

/// A path in QEMU's option syntax, where a comma is written twice.
fn escape(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use super::escape;
    use super::index;
    use crate::qemu::BootFrom;
    use std::path::Path;

    #[test]
    fn a_disk_override_leaves_no_other_device_to_try() {
        let indexes = BootFrom::Disk.indexes();
        assert_eq!((indexes.nic, indexes.cd), (None, None));
        assert_eq!(index(indexes.nic), "");
        assert_eq!(index(BootFrom::Network.indexes().nic), ",bootindex=1");
    }

    #[test]
    fn commas_in_paths_are_doubled() {
        assert_eq!(escape(Path::new("/a,b/c")), "/a,,b/c");
    }
}

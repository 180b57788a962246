//! A real ironic-python-agent (from PyPI) as the ramdisk of a simulated
//! machine: it writes to a loop device and nothing else, and where it would
//! switch the machine off, the machine is switched off.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;

use crate::child;
use crate::paths::Paths;
use crate::paths::existing;
use crate::sim::Program;

/// The hardware manager.
const MANAGER: &str = include_str!("wrought_hardware.py");
/// How the agent finds it.
const ENTRY_POINTS: &str =
    "[ironic_python_agent.hardware_managers]\nwrought = wrought_hardware:TestManager\n";
/// Programs of a ramdisk that must do nothing to this host, as shell scripts.
const STANDINS: [(&str, &str); 8] = [
    ("poweroff", "echo poweroff >>\"$WROUGHT_WISHES\""),
    ("reboot", "echo reboot >>\"$WROUGHT_WISHES\""),
    ("hwclock", ":"),
    ("udevadm", ":"),
    ("partprobe", ":"),
    ("ip", ":"),
    // Nobody has the disk open.
    ("fuser", "exit 1"),
    (
        "parted",
        "printf 'BYT;\\n%s:64MiB:loopback:512:512:gpt::;\\n1:1.00MiB:30.0MiB:29.0MiB:::;\\n' \
         \"$WROUGHT_DISK\"",
    ),
];

/// A loop device over a file; it is given back when this is dropped.
#[derive(Debug)]
pub struct Loop(PathBuf);

impl Loop {
    /// Attaches a new file of so many bytes.
    pub async fn attach(file: &Path, length: u64) -> Result<Self> {
        std::fs::File::create(file)?.set_len(length)?;
        let mut attach = child::command("losetup");
        attach.args(["--find", "--show"]).arg(file);
        let output = attach.output().await.context("running losetup")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "losetup: {}", said.trim());
        let device = String::from_utf8(output.stdout)?;
        Ok(Self(PathBuf::from(device.trim())))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let mut detach = std::process::Command::new("losetup");
        // What is still open is detached by the kernel when it is closed.
        detach.arg("-d").arg(&self.0).status().ok();
    }
}

/// Where a prepared agent keeps what it is asked to do.
#[derive(Debug)]
pub struct Prepared {
    /// The program for the machine's habits.
    pub program: Program,
    steps: PathBuf,
}

impl Prepared {
    /// The steps that it has run so far, and what they say.
    pub fn steps(&self) -> Vec<String> {
        let steps = std::fs::read_to_string(&self.steps).unwrap_or_default();
        steps.lines().map(str::to_owned).collect()
    }
}

/// Prepares the agent in `folder` for one disk and one NIC; `ca` is what it
/// knows the API by.
pub fn prepare(
    paths: &Paths,
    folder: &Path,
    disk: &Path,
    mac: &str,
    ca: &Path,
    log: &Path,
) -> Result<Prepared> {
    let agent = paths
        .root
        .join("target/tools/real-agent/bin/ironic-python-agent");
    let agent = existing(agent, "cargo xtask setup --all")?;
    let modules = folder.join("modules");
    let info = modules.join("wrought_hardware-1.0.dist-info");
    std::fs::create_dir_all(&info)?;
    std::fs::write(modules.join("wrought_hardware.py"), MANAGER)?;
    std::fs::write(info.join("entry_points.txt"), ENTRY_POINTS)?;
    std::fs::write(
        info.join("METADATA"),
        "Metadata-Version: 2.1\nName: wrought-hardware\nVersion: 1.0\n",
    )?;
    let standins = folder.join("bin");
    std::fs::create_dir_all(&standins)?;
    for (name, script) in STANDINS {
        let path = standins.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n"))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    }
    let config = folder.join("agent.conf");
    std::fs::write(
        &config,
        format!(
            "[DEFAULT]\ndebug = true\ncafile = {}\nlisten_host = 127.0.0.1\n\
             advertise_host = 127.0.0.1\ndisk_wait_attempts = 1\ndisk_wait_delay = 0\n",
            ca.display()
        ),
    )?;
    let (steps, wishes) = (folder.join("steps"), folder.join("wishes"));
    let path = std::env::join_paths(
        std::iter::once(standins)
            .chain(["/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(PathBuf::from)),
    )?;
    let text = |path: &Path| path.display().to_string();
    // Whatever the agent thinks of its host: the kernel's key stays out of its
    // reach.
    let script = "key=/proc/sysrq-trigger\n\
                  [ ! -e $key ] || mount --bind /dev/null $key || exit\n\
                  exec \"$@\"";
    let arguments = [
        "--mount",
        "sh",
        "-c",
        script,
        "sh",
        &text(&agent),
        "--config-file",
    ];
    let mut arguments: Vec<String> = arguments.map(str::to_owned).to_vec();
    arguments.extend([text(&config), "--api_url".to_owned(), "API".to_owned()]);
    let environment = [
        ("PATH", path.to_string_lossy().into_owned()),
        ("PYTHONPATH", text(&modules)),
        ("WROUGHT_DISK", text(disk)),
        ("WROUGHT_MAC", mac.to_owned()),
        ("WROUGHT_STEPS", text(&steps)),
        ("WROUGHT_WISHES", text(&wishes)),
    ];
    Ok(Prepared {
        program: Program {
            path: PathBuf::from("unshare"),
            arguments,
            environment: environment
                .map(|(key, value)| (key.to_owned(), value))
                .to_vec(),
            wishes,
            log: log.to_owned(),
        },
        steps,
    })
}

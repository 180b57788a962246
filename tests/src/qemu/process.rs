//! A running machine: QEMU, its QMP connection, its orderly end.

use std::time::Duration;

use anyhow::Result;
use anyhow::bail;
use serde_json::json;
use tokio::sync::mpsc;

use super::Body;
use super::BootFrom;
use super::Firmware;
use super::Spec;
use super::command_line;
use super::host_agent;
use super::qmp::Event;
use super::qmp::Qmp;
use crate::accel::Accel;
use crate::child;
use crate::child::Daemon;

/// The program.
pub const QEMU: &str = "qemu-system-x86_64";

/// A QEMU that runs.
#[derive(Debug)]
pub struct Running {
    daemon: Daemon,
    qmp: Option<Qmp>,
    disks: usize,
}

impl Running {
    /// Starts QEMU and waits until it answers.
    pub async fn start(
        spec: &Spec,
        accel: Accel,
        firmware: Firmware,
        boot: BootFrom,
        media: Option<&std::path::Path>,
    ) -> Result<(Self, mpsc::UnboundedReceiver<Event>)> {
        if let Body::HostAgent { program, scripts } = &spec.body {
            let daemon = host_agent::start(spec, program, scripts, boot).await?;
            // Nothing ever comes out of it: a process has no such events.
            let (_, events) = mpsc::unbounded_channel();
            return Ok((
                Self {
                    daemon,
                    qmp: None,
                    disks: 0,
                },
                events,
            ));
        }
        if firmware == Firmware::Uefi {
            command_line::prepare_variables(spec)?;
        }
        let arguments = command_line::arguments(spec, accel, firmware, boot.indexes(), media)?;
        let mut command = child::command(QEMU);
        command.args(&arguments).current_dir(&spec.dir);
        let log = spec.firmware_log.with_extension("qemu.log");
        let daemon = Daemon::start(&format!("QEMU of {}", spec.name), command, &log)?;
        let connected = tokio::select! {
            connected = Qmp::connect(&spec.dir, command_line::QMP_SOCKET) => connected,
            _ = daemon.wait() => {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                bail!("QEMU of {} ended at once: {}", spec.name, said.trim());
            }
        };
        let (qmp, events) = connected?;
        Ok((
            Self {
                daemon,
                qmp: Some(qmp),
                disks: spec.disks.len(),
            },
            events,
        ))
    }

    /// Whether the process is still there.
    pub fn alive(&self) -> bool {
        self.daemon.status().is_none()
    }

    /// Cuts the power. QEMU finishes what it has handed to the host.
    pub async fn stop(&self) {
        self.daemon.stop(Duration::from_secs(10)).await;
    }

    /// Presses the power button.
    pub async fn press_power_button(&self) -> Result<()> {
        self.execute("system_powerdown", json!({})).await
    }

    /// Sets what the firmware tries after the guest's next reset.
    pub async fn set_boot(&self, boot: BootFrom) -> Result<()> {
        let Some(qmp) = &self.qmp else { return Ok(()) };
        let indexes = boot.indexes();
        // All out first: an index must not be taken twice, even in passing.
        for device in self.boot_devices() {
            qmp.set_bootindex(&device, None).await?;
        }
        for (number, device) in (0i32..).zip(self.boot_devices()) {
            let index = match number {
                0 => indexes.nic,
                1 => indexes.cd,
                _ => indexes.disk.map(|first| first + number - 2),
            };
            qmp.set_bootindex(&device, index).await?;
        }
        Ok(())
    }

    /// QOM paths: the NIC, the CD, then the disks.
    fn boot_devices(&self) -> Vec<String> {
        let disks = (0..self.disks).map(|number| format!("disk{number}"));
        ["nic0".to_owned(), "cd0".to_owned()]
            .into_iter()
            .chain(disks)
            .map(|id| format!("/machine/peripheral/{id}"))
            .collect()
    }

    /// Puts a medium into the CD drive.
    pub async fn insert(&self, file: &std::path::Path) -> Result<()> {
        let arguments = json!({"id": "cd0", "filename": file, "format": "raw"});
        self.execute("blockdev-change-medium", arguments).await
    }

    /// Takes the medium out, whatever the guest thinks of it.
    pub async fn eject(&self) -> Result<()> {
        self.execute("eject", json!({"id": "cd0", "force": true}))
            .await
    }

    /// Runs a QMP command, if there is a QEMU.
    async fn execute(&self, command: &str, arguments: serde_json::Value) -> Result<()> {
        match &self.qmp {
            Some(qmp) => qmp.execute(command, arguments).await.map(drop),
            None => Ok(()),
        }
    }
}

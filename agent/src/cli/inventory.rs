//! `wrought-agent inventory`: what this machine is.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use crate::disk::Enumerator;
use crate::inventory;
use crate::net::lldp;

/// `EX_IOERR`.
const INPUT_OUTPUT: u8 = 74;

#[derive(Debug, Args)]
pub(super) struct Inventory {
    /// One JSON object on standard output, in the shape of Ironic's inventory.
    #[arg(long)]
    json: bool,
    /// Only these disks.
    #[arg(long, value_name = "PATH")]
    only_disk: Vec<PathBuf>,
    /// Listen for what the switches say (LLDP), for so many seconds at most.
    #[arg(long, value_name = "SECONDS")]
    lldp: Option<u64>,
}

impl Inventory {
    pub(super) fn main(self) -> ExitCode {
        let disks = Enumerator::new(&self.only_disk).disks();
        let heard = self
            .lldp
            .map(|seconds| lldp::listen(&inventory::nics(), Duration::from_secs(seconds)));
        let found = inventory::of(&disks, None, heard.as_ref());
        let text = match self.json {
            true => found.to_string(),
            false => table(&found, &disks),
        };
        let mut out = std::io::stdout().lock();
        match writeln!(out, "{text}").and_then(|()| out.flush()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => super::fail(&error, INPUT_OUTPUT),
        }
    }
}

/// The same for people.
fn table(found: &Value, disks: &[crate::disk::Disk]) -> String {
    let text = |pointer: &str| match found.pointer(pointer) {
        Some(Value::String(text)) if !text.is_empty() => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => "-".to_owned(),
    };
    let mut lines = vec![
        format!(
            "machine   {} {}, serial {}",
            text("/system_vendor/manufacturer"),
            text("/system_vendor/product_name"),
            text("/system_vendor/serial_number")
        ),
        format!(
            "firmware  {} {}, {}",
            text("/system_vendor/firmware/vendor"),
            text("/system_vendor/firmware/version"),
            text("/boot/current_boot_mode")
        ),
        format!(
            "cpu       {} × {} ({}), sockets {}",
            text("/cpu/count"),
            text("/cpu/model_name"),
            text("/cpu/architecture"),
            text("/cpu/socket_count")
        ),
        format!("memory    {} MiB", text("/memory/physical_mb")),
        format!(
            "bmc       {}, {}",
            text("/bmc_address"),
            text("/bmc_v6address")
        ),
    ];
    for nic in found["interfaces"].as_array().into_iter().flatten() {
        let part = |key: &str| nic[key].as_str().unwrap_or("-");
        let carrier = match nic["has_carrier"].as_bool() {
            Some(true) => "link",
            _ => "no link",
        };
        lines.push(format!(
            "nic       {} {}, {}, {}, {carrier}",
            part("name"),
            part("mac_address"),
            part("ipv4_address"),
            part("driver")
        ));
    }
    lines.extend(disks.iter().map(|disk| format!("disk      {disk}")));
    lines.join("\n")
}

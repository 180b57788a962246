//! `wrought-agent inspect IMAGE`.

use std::io;

use super::ServerArgs;
use super::failed;
use super::json;
use super::line;
use super::say;
use super::told;
use crate::error::Error;
use crate::inspect::ImageFacts;
use crate::inspect::inspect;
use crate::request::Retry;
use crate::size::size;

/// Arguments of `inspect`.
#[derive(Debug, Clone, Default)]
pub struct InspectArgs {
    /// URL or path.
    pub image: String,
    /// Print JSON.
    pub json: bool,
    /// How to talk to image servers.
    pub server: ServerArgs,
}

/// Says what an image is; the exit code is 65 when it would not be written.
#[must_use]
pub fn run_inspect(args: &InspectArgs) -> u8 {
    let retry = Retry {
        attempts: 1,
        ..Retry::default()
    };
    let found = args
        .server
        .options()
        .and_then(|options| inspect(&args.image, &options, retry));
    match found {
        Ok(facts) => {
            let printed = if args.json {
                line(&json::facts(&facts))
            } else {
                print(&facts)
            };
            let refusal = facts.refusal.as_ref();
            told(printed, refusal.map_or(0, |error| error.kind().exit_code()))
        }
        Err(error) => failed(&error, args.json),
    }
}

fn print(facts: &ImageFacts) -> io::Result<()> {
    line(&format_args!("image:        {}", facts.source))?;
    line(&format_args!(
        "format:       {}",
        facts.format.map_or("not clear", |f| f.name())
    ))?;
    if let Some(container) = facts.container {
        line(&format_args!("compressed:   as a whole, {container}"))?;
    }
    if let Some(bytes) = facts.bytes {
        line(&format_args!(
            "size:         {} ({bytes} bytes)",
            size(bytes)
        ))?;
    }
    if let Some(bytes) = facts.virtual_size {
        line(&format_args!(
            "disk size:    {} ({bytes} bytes)",
            size(bytes)
        ))?;
    }
    if let Some(qcow2) = &facts.qcow2 {
        line(&format_args!(
            "qcow2:        version {}, clusters of {}, {} compression, {} snapshots",
            qcow2.version,
            size(qcow2.cluster_size),
            qcow2.compression,
            qcow2.snapshots
        ))?;
    }
    if let Some(table) = &facts.table {
        line(&format_args!(
            "table:        {} {}",
            table.kind.name(),
            table.disk_id
        ))?;
        for partition in &table.partitions {
            let esp = if partition.is_esp {
                " (EFI system partition)"
            } else {
                ""
            };
            line(&format_args!(
                "  partition {}: {}, type {}{esp} {}",
                partition.number,
                size(partition.size),
                partition.type_id,
                partition.name
            ))?;
        }
    }
    match facts.refusal.as_ref().map(Error::chain) {
        None => line(&"verdict:      can be written to a disk"),
        Some(reason) => {
            line(&"verdict:      would not be written")?;
            say(&format!("reason: {reason}"));
            Ok(())
        }
    }
}

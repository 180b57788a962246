//! An image on the root disk, with its config drive.

use std::fmt::Write as _;

use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use uuid::Uuid;
use wrought_wire::image::ImageInfo;
use wrought_wire::secret::MASK;

use crate::command::Args;
use crate::command::CommandFailure;
use crate::command::Context;
use crate::deploy::configdrive;
use crate::deploy::configdrive::Payload;
use crate::deploy::configdrive::Placed;
use crate::deploy::failure;
use crate::deploy::fetch;
use crate::deploy::node::NodeData;
use crate::deploy::request;
use crate::deploy::root;
use crate::deploy::state::State;
use crate::deploy::state::Written;
use crate::disk::Access;
use crate::disk::BlockFile;
use crate::disk::Disk;
use crate::system;

/// Whether a config drive belongs to the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WithConfigDrive {
    /// If there is one.
    Yes,
    /// Never: the image alone.
    No,
}

/// What became of a write.
#[derive(Debug)]
pub(super) struct Done {
    id: String,
    written: Written,
    configdrive: Option<Placed>,
    skipped: bool,
}

impl Done {
    /// The sentence that Ironic's users know.
    pub(super) fn text(&self) -> String {
        let device = self.written.device.display();
        let mut text = format!("image ({}) ", self.id);
        let state = if self.skipped {
            "already present on device"
        } else {
            "written to device"
        };
        // Writing to a String does not fail.
        write!(text, "{state} {device} root_uuid={}", self.written.disk_id).ok();
        text
    }

    /// Keys beside the sentence.
    pub(super) fn to_map(&self) -> Map<String, Value> {
        let configdrive = self.configdrive.as_ref().map(|placed| {
            json!({
                "partition": placed.number,
                "offset": placed.start,
                "bytes": placed.length,
                "reused": placed.reused,
            })
        });
        let value = json!({
            "device": self.written.device,
            "digest": self.written.digest,
            "format": self.written.format,
            "source": self.written.source,
            "bytes": self.written.bytes_out,
            "bytes_in": self.written.bytes_in,
            "seconds": self.written.seconds,
            "skipped": self.skipped,
            "configdrive": configdrive,
            "peak_rss_bytes": system::peak_rss_bytes(),
        });
        match value {
            Value::Object(map) => map,
            _ => Map::new(),
        }
    }
}

/// Writes the image of `args.image_info` to the root disk of the node, then
/// the config drive of `args.configdrive`, `image_info.configdrive` or
/// `instance_info.configdrive`.
pub(super) fn write_image(
    context: &Context,
    state: &State,
    node: &NodeData,
    args: &Args,
    with: WithConfigDrive,
) -> Result<Done, CommandFailure> {
    let info = request::parse_image_info(args).map_err(CommandFailure::invalid_params)?;
    // What cannot be used is refused before anything is written.
    let payload = match with {
        WithConfigDrive::Yes => payload(context, node, args)?,
        WithConfigDrive::No => None,
    };
    let disk = root::choose(context, node)?;
    let expected = request::checksum(&info)
        .map(|(checksum, _)| checksum)
        // A registry's image is told by its reference.
        .or_else(|| info.urls.first().cloned());
    let before = state.same(&info.id, expected.as_deref(), &disk.path);
    let skipped = before.is_some();
    let written = match before {
        Some(written) => {
            tracing::info!(image = info.id, dev = %disk.path.display(), "the image is there already");
            written
        }
        None => stream(context, state, args, &info, &disk, expected)?,
    };
    let configdrive = match payload {
        Some(payload) => {
            context.progress.stage("configdrive");
            Some(place(&disk, &payload)?)
        }
        None => None,
    };
    Ok(Done {
        id: info.id,
        written,
        configdrive,
        skipped,
    })
}

fn stream(
    context: &Context,
    state: &State,
    args: &Args,
    info: &ImageInfo,
    disk: &Disk,
    expected: Option<String>,
) -> Result<Written, CommandFailure> {
    let request = request::build(context, info, args, &disk.path)?;
    state.clear();
    context.progress.stage("check");
    let report =
        wrought_image::write(&request).map_err(|error| failure::write(&info.id, &error))?;
    tracing::info!(
        image = info.id,
        dev = %disk.path.display(),
        bytes_in = report.bytes_in,
        bytes_out = report.bytes_out,
        digest = report.digest,
        "image written and verified",
    );
    let written = Written {
        id: info.id.clone(),
        expected,
        device: disk.path.clone(),
        digest: format!("{}:{}", report.algorithm, report.digest),
        format: report.format.to_string(),
        source: report.source,
        bytes_in: report.bytes_in,
        bytes_out: report.bytes_out,
        seconds: report.elapsed.as_secs_f64(),
        disk_id: report.table.disk_id,
    };
    state.set(written.clone());
    Ok(written)
}

/// A config drive in a form that can be placed.
enum Ready {
    Files(configdrive::Files),
    Image(configdrive::Image),
}

fn payload(
    context: &Context,
    node: &NodeData,
    args: &Args,
) -> Result<Option<Ready>, CommandFailure> {
    let masked = |value: &&Value| value.as_str() != Some(MASK) && !value.is_null();
    let candidates = [
        args.get("configdrive"),
        args.get("image_info")
            .and_then(|info| info.get("configdrive")),
        node.instance_info.get("configdrive"),
    ];
    let Some(value) = candidates.into_iter().flatten().find(masked) else {
        return Ok(None);
    };
    let payload =
        Payload::parse(value, &node.uuid).map_err(|error| failure::payload_failure(&error))?;
    let ready = match payload {
        None => return Ok(None),
        Some(Payload::Files(files)) => Ready::Files(files),
        Some(Payload::Image(image)) => Ready::Image(image),
        Some(Payload::Url(url)) => Ready::Image(fetch::config_drive(context, &url)?),
    };
    if let Ready::Image(image) = &ready {
        image
            .measure()
            .map_err(|error| failure::payload_failure(&error))?;
    }
    Ok(Some(ready))
}

fn place(disk: &Disk, payload: &Ready) -> Result<Placed, CommandFailure> {
    let file =
        BlockFile::open(&disk.path, Access::Exclusive).map_err(|error| failure::disk(&error))?;
    let content = match payload {
        Ready::Files(files) => configdrive::Content::Files(files),
        Ready::Image(image) => configdrive::Content::Image(image),
    };
    configdrive::place(&file, content, Uuid::new_v4()).map_err(|error| failure::configdrive(&error))
}

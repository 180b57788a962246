//! `install_bootloader`: the disk becomes the one that the firmware starts.

use std::io;
use std::path::Path;
use std::sync::Arc;

use nix::mount::MsFlags;
use serde_json::Value;
use uuid::Uuid;

use crate::boot;
use crate::boot::BootError;
use crate::boot::Installed;
use crate::boot::efivars::EfiVars;
use crate::boot::entries::Position;
use crate::command::Args;
use crate::command::CommandFailure;
use crate::command::Context;
use crate::command::Mode;
use crate::command::Registry;
use crate::deploy::failure;
use crate::deploy::node::NodeData;
use crate::deploy::raid;
use crate::deploy::root;
use crate::deploy::state::State;
use crate::disk::Access;
use crate::disk::BlockFile;

/// Where the kernel shows the firmware's variables.
const EFIVARS: &str = "/sys/firmware/efi/efivars";
/// Parameter with another folder in its place.
const EFIVARS_PARAM: &str = "wrought-efivars";
/// Parameter that puts new entries behind the others with the value `last`.
const ORDER_PARAM: &str = "wrought-boot-order";

/// Adds the command under both of its names.
pub(super) fn register(registry: &mut Registry, state: &Arc<State>) {
    for name in ["image.install_bootloader", "deploy.install_bootloader"] {
        let state = Arc::clone(state);
        registry.blocking(name, Mode::Async, move |context, args| {
            let ignore = ignore_failure(context, &args)?;
            match install(context, &state, &args) {
                Ok(installed) => Ok(Value::String(installed.to_string())),
                Err(failure) if ignore => {
                    tracing::warn!(%failure, "the failure is ignored, as was asked for");
                    Ok(Value::String(format!("ignored: {failure}")))
                }
                Err(failure) => Err(failure),
            }
        });
    }
}

fn ignore_failure(context: &Context, args: &Args) -> Result<bool, CommandFailure> {
    if let Some(ignore) = args
        .get("ignore_bootloader_failure")
        .and_then(Value::as_bool)
    {
        return Ok(ignore);
    }
    let flag = context.agent.params.flag("ipa-ignore-bootloader-failure");
    Ok(flag
        .map_err(|error| CommandFailure::invalid_params(error.to_string()))?
        .unwrap_or(false))
}

fn install(context: &Context, state: &State, args: &Args) -> Result<Installed, CommandFailure> {
    let node = NodeData::refresh(context, args)?;
    let text = |key: &str| args.get(key).and_then(Value::as_str);
    let mode = text("target_boot_mode").unwrap_or("bios");
    let path = match state.last() {
        Some(written) => written.device,
        None => root::choose(context, &node)?.path,
    };
    if raid::is_array(&path) {
        return match mode {
            "uefi" => {
                let vars = variables(context)?;
                raid::install_uefi(context, &node, &path, vars.as_ref(), position(context)?)
            }
            other => Err(CommandFailure::invalid_params(format!(
                "target_boot_mode is {other:?}: software RAID is started in boot mode uefi only"
            ))),
        };
    }
    let disk = BlockFile::open(&path, Access::Read).map_err(|error| failure::disk(&error))?;
    // The image was written past the page cache.
    disk.drop_cache().map_err(|error| failure::disk(&error))?;
    let installed = match mode {
        "uefi" => {
            let vars = variables(context)?;
            let wanted = text("efi_system_part_uuid").and_then(|text| Uuid::parse_str(text).ok());
            boot::install_uefi(&disk, vars.as_ref(), wanted, position(context)?)
        }
        "bios" => boot::check_bios(&disk),
        other => {
            return Err(CommandFailure::invalid_params(format!(
                "target_boot_mode is {other:?}, expected uefi or bios"
            )));
        }
    };
    installed.map_err(|error| failure::boot(&error))
}

fn position(context: &Context) -> Result<Position, CommandFailure> {
    match context.agent.params.get(ORDER_PARAM) {
        None | Some("first") => Ok(Position::First),
        Some("last") => Ok(Position::Last),
        Some(other) => Err(CommandFailure::invalid_params(format!(
            "{ORDER_PARAM} is {other:?}, expected first or last"
        ))),
    }
}

/// The variables to change: none when the machine is not ours.
pub(super) fn variables(context: &Context) -> Result<Option<EfiVars>, CommandFailure> {
    if let Some(folder) = context.agent.params.get(EFIVARS_PARAM) {
        return Ok(Some(EfiVars::new(Path::new(folder))));
    }
    if !context.agent.is_init {
        return Ok(None);
    }
    let root = Path::new(EFIVARS);
    let vars = EfiVars::new(root);
    if !vars.available()
        && root.is_dir()
        && let Err(error) = mount(root)
    {
        tracing::warn!(%error, "efivarfs cannot be mounted");
    }
    if !vars.available() {
        return Err(failure::boot(&BootError::NoVariables(root.to_owned())));
    }
    Ok(Some(vars))
}

fn mount(root: &Path) -> io::Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    nix::mount::mount(
        Some("efivarfs"),
        root,
        Some("efivarfs"),
        flags,
        None::<&str>,
    )?;
    Ok(())
}

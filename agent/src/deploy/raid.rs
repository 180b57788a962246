//! Software RAID as steps and as commands of its own:
//!
//! | command | does |
//! |---|---|
//! | `raid.create_configuration` | makes what the node's `target_raid_config` says |
//! | `raid.delete_configuration` | deletes all arrays |
//! | `raid.get_logical_disks` | tells of the arrays that there are |

use std::path::Path;
use std::sync::Arc;

use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use crate::boot;
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
use crate::deploy::state::State;
use crate::disk::Access;
use crate::disk::BlockFile;
use crate::disk::Disk;
use crate::disk::Enumerator;
use crate::disk::GIB;
use crate::disk::erase::EraseOptions;
use crate::raid;
use crate::raid::Label;
use crate::raid::Site;
use crate::storage::Real;
use crate::tools::System;

/// Adds the commands.
pub(super) fn register(registry: &mut Registry, state: &Arc<State>) {
    let shared = Arc::clone(state);
    registry.blocking(
        "raid.create_configuration",
        Mode::Async,
        move |context, args| {
            let node = NodeData::refresh(context, &args)?;
            create(context, &shared, &node, &args)
        },
    );
    let shared = Arc::clone(state);
    registry.blocking(
        "raid.delete_configuration",
        Mode::Async,
        move |context, args| {
            let node = NodeData::refresh(context, &args)?;
            delete(context, &shared, &node)
        },
    );
    registry.blocking("raid.get_logical_disks", Mode::Sync, |context, args| {
        let node = NodeData::refresh(context, &args)?;
        logical_disks(context, &node)
    });
}

/// Runs work on RAID with all that it needs.
fn with_site<T>(
    context: &Context,
    node: &NodeData,
    work: impl FnOnce(&Site<'_>) -> Result<T, CommandFailure>,
) -> Result<T, CommandFailure> {
    let tools = System {
        cancel: context.cancel.clone(),
    };
    let options = EraseOptions::of_node(&node.driver_internal_info, context.cancel.flag());
    let rules = node.disk_rules()?;
    let site = Site {
        enumerator: Enumerator::new(&context.agent.only_disk),
        tools: &tools,
        kernel: &Real,
        rules: &rules,
        keep: raid::kept_volumes(&node.properties),
        guard: options.guard,
        cancel: context.cancel.flag(),
    };
    work(&site)
}

/// What is to be: an argument, or the node's own.
fn target(node: &NodeData, args: &Args) -> Map<String, Value> {
    let given = ["raid_config", "target_raid_config"]
        .into_iter()
        .find_map(|key| args.get(key).and_then(Value::as_object));
    let known = || {
        node.raw
            .get("target_raid_config")
            .and_then(Value::as_object)
    };
    given.or_else(known).cloned().unwrap_or_default()
}

fn flag(args: &Args, key: &str, default: bool) -> Result<bool, CommandFailure> {
    match args.get(key) {
        None | Some(Value::Null) => Ok(default),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(other) => Err(CommandFailure::invalid_params(format!(
            "{key}: expected true or false, found {other}"
        ))),
    }
}

/// `create_configuration`: gives what the node then has, empty when it is to
/// have nothing.
pub(super) fn create(
    context: &Context,
    state: &State,
    node: &NodeData,
    args: &Args,
) -> Result<Value, CommandFailure> {
    let existing = flag(args, "delete_existing", false)?;
    make(context, state, node, &target(node, args), existing)
}

/// `apply_configuration`: what its argument says, in place of what there is.
pub(super) fn apply(
    context: &Context,
    state: &State,
    node: &NodeData,
    args: &Args,
) -> Result<Value, CommandFailure> {
    if !args.get("raid_config").is_some_and(Value::is_object) {
        return Err(CommandFailure::invalid_params(
            "raid_config: expected an object with logical_disks",
        ));
    }
    let existing = flag(args, "delete_existing", true)?;
    make(context, state, node, &target(node, args), existing)
}

fn make(
    context: &Context,
    state: &State,
    node: &NodeData,
    config: &Map<String, Value>,
    delete_existing: bool,
) -> Result<Value, CommandFailure> {
    let disks = config.get("logical_disks").and_then(Value::as_array);
    if disks.is_none_or(Vec::is_empty) {
        tracing::info!("no logical disks are asked for, none are made");
        return Ok(json!({}));
    }
    state.clear();
    let label = Label::of_node(
        &node.properties,
        &node.instance_info,
        &node.driver_internal_info,
        Path::new("/sys"),
    );
    with_site(context, node, |site| {
        let made = raid::create(site, config, label, delete_existing, &context.progress);
        made.map_err(|error| failure::raid(&error))
    })
}

/// `delete_configuration`.
pub(super) fn delete(
    context: &Context,
    state: &State,
    node: &NodeData,
) -> Result<Value, CommandFailure> {
    state.clear();
    context.progress.stage("raid.delete_configuration");
    with_site(context, node, |site| {
        raid::delete(site).map_err(|error| failure::raid(&error))
    })?;
    Ok(json!("software RAID deleted"))
}

/// Starts arrays of an earlier life of the ramdisk, as far as they can be.
pub(super) fn assemble(context: &Context, node: &NodeData) -> Result<(), CommandFailure> {
    with_site(context, node, |site| {
        if let Err(error) = raid::assemble(site) {
            tracing::warn!("arrays are not started: {}", CommandFailure::chain(&error));
        }
        Ok(())
    })
}

/// The array that an image goes to, where the node has one.
pub(super) fn root_volume(
    context: &Context,
    node: &NodeData,
    disks: &[Disk],
) -> Result<Option<Disk>, CommandFailure> {
    let Some(config) = node.software_raid() else {
        return Ok(None);
    };
    with_site(context, node, |site| {
        let found = raid::root_volume(site, config, disks);
        found.map_err(|error| CommandFailure::device_not_found(error.to_string()))
    })
}

fn logical_disks(context: &Context, node: &NodeData) -> Result<Value, CommandFailure> {
    assemble(context, node)?;
    with_site(context, node, |site| {
        let tree = site.tree();
        let disks = tree.arrays().into_iter().map(|array| {
            let size = tree.size(&array.device);
            json!({
                "controller": "software",
                "volume_name": array.name(),
                "raid_level": array.level.as_deref().map(level),
                "size_gb": size / GIB,
                "device": array.path,
                "physical_disks": array.members,
            })
        });
        Ok(json!({ "logical_disks": disks.collect::<Vec<_>>() }))
    })
}

/// `raid1` as Ironic has it.
fn level(kernel: &str) -> &str {
    match kernel {
        "raid10" => "1+0",
        other => other.strip_prefix("raid").unwrap_or(other),
    }
}

/// Makes every disk of an array one that the firmware can start: an EFI system
/// partition with the image's loaders on each, and an entry for each.
pub(super) fn install_uefi(
    context: &Context,
    node: &NodeData,
    array: &Path,
    vars: Option<&EfiVars>,
    position: Position,
) -> Result<Installed, CommandFailure> {
    let bootable = with_site(context, node, |site| {
        let disks = site.disks();
        let disk = disks.iter().find(|disk| disk.path == array);
        let disk = disk.ok_or_else(|| {
            CommandFailure::device_not_found(format!("array {} is not there", array.display()))
        })?;
        let done = raid::install_esps(site, disk);
        done.map_err(|error| failure::raid(&error))
    })?;
    let mut order: Vec<(usize, &raid::Bootable)> = bootable.iter().enumerate().collect();
    if position == Position::First {
        // The one that is put in last is the first.
        order.reverse();
    }
    let mut done: Vec<Installed> = Vec::new();
    for (index, one) in order {
        let file = BlockFile::open(&one.disk.path, Access::Read);
        let file = file.map_err(|error| failure::disk(&error))?;
        file.drop_cache().map_err(|error| failure::disk(&error))?;
        let suffix = format!(" (RAID, part{})", index + 1);
        let guid = one.partition.guid;
        let installed = boot::install_uefi_as(&file, vars, guid, position, &suffix);
        done.push(installed.map_err(|error| failure::boot(&error))?);
    }
    Ok(Installed::together(done))
}

/// Names of the arrays that are the node's own: they stay when disks are
/// emptied, what lies on them does not.
pub(super) fn own_volumes(node: &NodeData) -> Vec<String> {
    let mut names = raid::kept_volumes(&node.properties);
    if let Some(config) = node.software_raid() {
        names.extend(raid::volume_names(config));
    }
    names
}

/// Whether an image lies on an array.
pub(super) fn is_array(path: &Path) -> bool {
    raid::is_array(path)
}

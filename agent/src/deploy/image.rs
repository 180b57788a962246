//! Direct commands: an image onto the disk, and what is on it now.

use std::sync::Arc;

use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use crate::command::Args;
use crate::command::Context;
use crate::command::Mode;
use crate::command::Outcome;
use crate::command::Registry;
use crate::deploy::node::NodeData;
use crate::deploy::request;
use crate::deploy::state::State;
use crate::deploy::write;
use crate::deploy::write::WithConfigDrive;

/// Adds the commands.
pub(super) fn register(registry: &mut Registry, state: &Arc<State>) {
    let commands = [
        ("standby.cache_image", WithConfigDrive::No),
        ("standby.prepare_image", WithConfigDrive::Yes),
        ("deploy.prepare_image", WithConfigDrive::Yes),
        ("deploy.write_image", WithConfigDrive::Yes),
    ];
    for (name, with) in commands {
        let state = Arc::clone(state);
        registry.blocking(name, Mode::Async, move |context, args| {
            prepare(name, context, &state, &args, with)
        });
        registry.check(name, |args| request::parse_image_info(args).map(drop));
    }
    let state = Arc::clone(state);
    registry.blocking("standby.get_partition_uuids", Mode::Sync, move |_, _| {
        Ok(partition_uuids(&state))
    });
}

fn prepare(
    name: &str,
    context: &Context,
    state: &State,
    args: &Args,
    with: WithConfigDrive,
) -> Outcome {
    let node = NodeData::refresh(context, args)?;
    let done = write::write_image(context, state, &node, args, with)?;
    let mut result = done.to_map();
    let bare = name.split_once('.').map_or(name, |(_, bare)| bare);
    result.insert(
        "result".to_owned(),
        Value::String(format!("{bare}: {}", done.text())),
    );
    Ok(Value::Object(result))
}

/// Empty before the first image, as the real agent answers.
fn partition_uuids(state: &State) -> Value {
    match state.last() {
        Some(written) => json!({"root uuid": written.disk_id}),
        None => Value::Object(Map::new()),
    }
}

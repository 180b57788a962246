//! Keys of `driver_internal_info`: Ironic's, which clients and agents know, and
//! our own.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use wrought_store::node::Node;

/// Base URL of the running agent.
pub(crate) const AGENT_URL: &str = "agent_url";
/// Version of the running agent.
pub(crate) const AGENT_VERSION: &str = "agent_version";
/// When the agent last called.
pub(crate) const AGENT_LAST_HEARTBEAT: &str = "agent_last_heartbeat";
/// Certificate of the running agent, PEM.
pub(crate) const AGENT_VERIFY_CA: &str = "agent_verify_ca";
/// Token of the running agent.
pub(crate) const AGENT_TOKEN: &str = "agent_secret_token";
/// Whether the token travels in the boot image.
pub(crate) const AGENT_TOKEN_PREGENERATED: &str = "agent_secret_token_pregenerated";
/// Versions of the agent's hardware managers.
pub(crate) const HARDWARE_MANAGER_VERSION: &str = "hardware_manager_version";
/// When our last power action on the machine ended.
pub(crate) const LAST_POWER_STATE_CHANGE: &str = "last_power_state_change";
/// Whether the image has its own partition table.
pub(crate) const IS_WHOLE_DISK_IMAGE: &str = "is_whole_disk_image";
/// Root of the written image, as the agent told it.
pub(crate) const ROOT_UUID: &str = "root_uuid_or_disk_id";
/// Largest memory of the agent's process while it wrote an image.
pub(crate) const AGENT_PEAK_RSS: &str = "agent_peak_rss_bytes";
/// Epoch of the lease under which the agent was last given work.
pub(crate) const LOCK_EPOCH: &str = "lock_epoch";
/// Progress of the running step.
pub(crate) const PROGRESS: &str = "wrought_progress";
/// When the running list of steps was begun.
pub(crate) const BEGAN: &str = "wrought_began";
/// What a wait state waits for: [`crate::steps::Wait`].
pub(crate) const WAIT: &str = "wrought_wait";
/// How often the running step was begun.
pub(crate) const ATTEMPT: &str = "wrought_attempt";
/// How often the machine was started anew within the running step.
pub(crate) const RECOVERIES: &str = "wrought_recoveries";
/// When the running try of a step was begun.
pub(crate) const STEP_BEGAN: &str = "wrought_step_began";
/// What a polled step told of itself, for its next poll.
pub(crate) const STEP_STATE: &str = "wrought_step_state";
/// How often the agent's hardware managers changed under the list.
pub(crate) const MISMATCHES: &str = "wrought_mismatches";
/// Last command of the agent before the running step was given to it.
pub(crate) const MARKER: &str = "wrought_marker";
/// Boot artefacts that are on offer to the machine: [`crate::boot::Offer`].
pub(crate) const BOOT: &str = "wrought_boot";
/// Whether a ramdisk that ran already is used (fast track).
pub(crate) const FAST_TRACK: &str = "wrought_fast_track";
/// Copy of the instance's data, from tear-down to the end of cleaning.
pub(crate) const INSTANCE: &str = "wrought_instance";

/// Whether a service has booted the ramdisk, so that the instance must be brought
/// back in the end.
pub(crate) const SERVICE_RAMDISK: &str = "wrought_service_ramdisk";

/// Whether the rescue ramdisk has its password.
pub(crate) const RESCUED: &str = "wrought_rescued";

/// Since when the node waits for a place among the operations of its kind.
pub(crate) const QUEUED_AT: &str = "queued_at";
/// Its place in that queue, from 1; the API shows the present one.
pub(crate) const QUEUE_POSITION: &str = "queue_position";
/// Whether what the ramdisk found is stored and waits to be worked on.
pub(crate) const INSPECTED: &str = "wrought_inspected";
/// Whether the node was made for a machine that nobody knew.
pub(crate) const DISCOVERED: &str = "auto_discovered";
/// MAC addresses of the machine that the node was made for.
pub(crate) const DISCOVERED_MACS: &str = "wrought_discovered_macs";
/// Serial numbers of the disks at the last inspection that came to its end.
pub(crate) const KNOWN_DISKS: &str = "wrought_known_disks";
/// Addresses of the BMC, by which the ramdisk of an inspection is known.
pub(crate) const BMC_ADDRESSES: &str = "lookup_bmc_addresses";

/// Whether an agent was given its token and has not called since.
pub(crate) fn awaits_first_call(node: &Node) -> bool {
    text(node, AGENT_URL).is_none()
        && text(node, AGENT_TOKEN).is_some()
        && read(node, AGENT_TOKEN_PREGENERATED) != Some(true)
}

/// Whether the node was made for a machine that nobody knew.
pub(crate) fn is_discovered(node: &Node) -> bool {
    read(node, DISCOVERED) == Some(true)
}

/// Reads a string.
pub(crate) fn text<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.driver_internal_info.get(key)?.as_str()
}

/// Reads anything; none when it is absent or of another shape.
pub(crate) fn read<T: DeserializeOwned>(node: &Node, key: &str) -> Option<T> {
    let value = node.driver_internal_info.get(key)?;
    serde_json::from_value(value.clone()).ok()
}

/// Reads a count, 0 when absent.
pub(crate) fn count(node: &Node, key: &str) -> u64 {
    node.driver_internal_info
        .get(key)
        .and_then(Value::as_u64)
        .unwrap_or(0)
}

/// Stores anything.
pub(crate) fn set(node: &mut Node, key: &str, value: impl Serialize) {
    // Our own plain types always have a JSON form.
    let value = serde_json::to_value(value).unwrap_or(Value::Null);
    node.driver_internal_info.insert(key.to_owned(), value);
}

/// Removes keys.
pub(crate) fn clear(node: &mut Node, keys: &[&str]) {
    for key in keys {
        node.driver_internal_info.remove(*key);
    }
}

/// Forgets the running agent: after a power action of ours, or before a flow
/// that boots a fresh one. Its token is worth nothing from now on.
pub(crate) fn forget_agent(node: &mut Node) {
    clear(
        node,
        &[
            AGENT_URL,
            AGENT_VERIFY_CA,
            AGENT_TOKEN,
            AGENT_TOKEN_PREGENERATED,
            "agent_cached_clean_steps",
            "agent_cached_deploy_steps",
            "agent_cached_service_steps",
            "agent_cached_clean_steps_refreshed",
            "agent_cached_deploy_steps_refreshed",
            "agent_cached_service_steps_refreshed",
        ],
    );
}

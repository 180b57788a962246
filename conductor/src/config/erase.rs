//! How disks are erased; the agent is told with each command.

use serde::Deserialize;
use serde_json::Value;

/// `[conductor.erase]`; the names are Ironic's, where it has one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Erase {
    /// Disks of a machine that are erased at the same time.
    pub disk_erasure_concurrency: u32,
    /// Passes of random data over a disk that cannot erase itself.
    pub shred_random_overwrite_iterations: u32,
    /// Whether a last pass of zeroes follows.
    pub shred_final_overwrite_with_zeros: bool,
    /// Whether a disk is overwritten when its own erase failed; otherwise the
    /// step fails.
    pub continue_if_disk_secure_erase_fails: bool,
    /// Whether ATA drives erase themselves.
    pub enable_ata_secure_erase: bool,
    /// Whether NVMe drives erase themselves.
    pub enable_nvme_secure_erase: bool,
    /// Whether SCSI drives erase themselves; a setting of ours.
    pub enable_scsi_secure_erase: bool,
    /// Whether read-only disks are left alone; otherwise they fail the step.
    pub erase_skip_read_only: bool,
    /// Whether disks with file systems that other machines may use are refused;
    /// a setting of ours.
    pub guard_special_filesystems: bool,
}

impl Default for Erase {
    fn default() -> Self {
        Self {
            disk_erasure_concurrency: 4,
            shred_random_overwrite_iterations: 1,
            shred_final_overwrite_with_zeros: true,
            continue_if_disk_secure_erase_fails: false,
            enable_ata_secure_erase: true,
            enable_nvme_secure_erase: true,
            enable_scsi_secure_erase: true,
            erase_skip_read_only: false,
            guard_special_filesystems: true,
        }
    }
}

impl Erase {
    /// Adds the settings to a node as the agent is shown it, under the keys of
    /// `driver_internal_info` that it knows. What the node has goes before.
    pub(crate) fn show(&self, node: &mut Value) {
        let Some(info) = node
            .get_mut("driver_internal_info")
            .and_then(Value::as_object_mut)
        else {
            return;
        };
        let settings: [(&str, Value); 9] = [
            (
                "disk_erasure_concurrency",
                self.disk_erasure_concurrency.into(),
            ),
            (
                "agent_erase_devices_iterations",
                self.shred_random_overwrite_iterations.into(),
            ),
            (
                "agent_erase_devices_zeroize",
                self.shred_final_overwrite_with_zeros.into(),
            ),
            (
                "agent_continue_if_secure_erase_failed",
                self.continue_if_disk_secure_erase_fails.into(),
            ),
            (
                "agent_enable_ata_secure_erase",
                self.enable_ata_secure_erase.into(),
            ),
            (
                "agent_enable_nvme_secure_erase",
                self.enable_nvme_secure_erase.into(),
            ),
            (
                "agent_enable_scsi_secure_erase",
                self.enable_scsi_secure_erase.into(),
            ),
            (
                "agent_erase_skip_read_only",
                self.erase_skip_read_only.into(),
            ),
            (
                "wipe_special_filesystems",
                self.guard_special_filesystems.into(),
            ),
        ];
        for (key, value) in settings {
            info.entry(key).or_insert(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Erase;
    use serde_json::json;

    /// Each setting of `[conductor.erase]` is on the page.
    #[test]
    fn settings_are_documented() {
        let page = include_str!("../../../docs/configuration.md");
        let source = include_str!("erase.rs");
        let from = source.find("pub struct Erase {").unwrap();
        let fields = source[from..].split("\n}").next().unwrap();
        let mut count = 0;
        for line in fields.lines() {
            let field = line.trim().strip_prefix("pub ");
            let Some((name, _)) = field.and_then(|field| field.split_once(": ")) else {
                continue;
            };
            assert!(page.contains(&format!("`{name}`")), "{name} is not in docs");
            count += 1;
        }
        assert_eq!(count, 9);
    }

    #[test]
    fn settings_reach_the_agent_and_a_nodes_own_go_before() {
        let mut node = json!({"driver_internal_info": {"agent_erase_skip_read_only": true}});
        Erase {
            shred_random_overwrite_iterations: 3,
            ..Erase::default()
        }
        .show(&mut node);
        let info = &node["driver_internal_info"];
        assert_eq!(info["agent_erase_devices_iterations"], 3);
        assert_eq!(info["disk_erasure_concurrency"], 4);
        assert_eq!(info["agent_erase_devices_zeroize"], true);
        assert_eq!(info["agent_continue_if_secure_erase_failed"], false);
        assert_eq!(info["agent_erase_skip_read_only"], true);
        assert_eq!(info["wipe_special_filesystems"], true);
        assert_eq!(info.as_object().map(serde_json::Map::len), Some(9));
    }
}

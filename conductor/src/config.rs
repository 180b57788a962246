//! Settings of a conductor: the parts `[boot]`, `[conductor]` and `[agent]` of
//! the server's configuration file, and where this conductor is.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;

mod erase;
mod inspection;
mod pace;
mod priorities;

pub use erase::Erase;
pub use inspection::Accelerator;
pub use inspection::AddPorts;
pub use inspection::Hook;
pub use inspection::Inspection;
pub use inspection::KeepPorts;
pub use inspection::Network;
pub use inspection::PciAlias;
pub use pace::Pace;
pub use priorities::Priorities;

/// All that a conductor is told at its start.
#[derive(Debug, Clone)]
pub struct Config {
    /// Name of this conductor, as `reservation` and `conductor` show it.
    pub host: String,
    /// Folder for files of its own (composed boot images).
    pub state_dir: PathBuf,
    /// Base URL of the API as agents reach it, such as `https://192.0.2.1:6385`.
    pub public_endpoint: Option<String>,
    /// Hardware types and interfaces on offer.
    pub drivers: Drivers,
    /// Network boot and virtual media.
    pub boot: Boot,
    /// Time-outs and habits.
    pub conductor: Conductor,
    /// What agents are told.
    pub agent: Agent,
    /// Whether no other conductor uses the database, so that every node is
    /// this one's; not in the file.
    pub alone: bool,
    /// Program that keeps step plug-ins from outliving this process. It is
    /// started as `PROGRAM step-guard`, as leader of a plug-in's process group,
    /// and kills that group when its standard input ends. None: plug-ins of a
    /// conductor that is killed go on.
    pub step_guard: Option<PathBuf>,
    /// Base URL where other processes call this conductor; none: nowhere.
    pub rpc_url: Option<String>,
    /// Times of waiting and polling that tests shorten; not in the file.
    pub pace: Pace,
}

impl Config {
    /// The defaults for a host and its folder.
    pub fn new(host: impl Into<String>, state_dir: impl Into<PathBuf>) -> Self {
        Self {
            host: host.into(),
            state_dir: state_dir.into(),
            public_endpoint: None,
            drivers: Drivers::default(),
            boot: Boot::default(),
            conductor: Conductor::default(),
            agent: Agent::default(),
            alone: true,
            step_guard: None,
            rpc_url: None,
            pace: Pace::default(),
        }
    }

    /// Base URL of the boot listener, as machines and BMCs reach it.
    pub fn boot_url(&self) -> Option<String> {
        if let Some(url) = &self.boot.url {
            return Some(url.trim_end_matches('/').to_owned());
        }
        let listen = self.boot.listen?;
        (!listen.ip().is_unspecified()).then(|| format!("http://{listen}"))
    }
}

/// `[drivers]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Drivers {
    /// Hardware types on offer; none named: all.
    pub hardware_types: Option<Vec<String>>,
    /// Interfaces on offer by kind, such as `boot`; of a kind that is not
    /// named, all.
    pub interfaces: BTreeMap<String, Vec<String>>,
    /// The default by kind, for hardware types that have it.
    pub defaults: BTreeMap<String, String>,
}

/// `[boot]`
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Boot {
    /// Address of the plain HTTP listener for boot artefacts; none: off.
    pub listen: Option<SocketAddr>,
    /// Its base URL, when machines reach it by another address than `listen`.
    pub url: Option<String>,
    /// Folder with `vmlinuz`, `initramfs` and `esp.img`.
    pub ramdisk_dir: PathBuf,
    /// The same for rescue: a ramdisk with a login; none: `ramdisk_dir`.
    pub rescue_ramdisk_dir: Option<PathBuf>,
    /// Appended to the kernel command line.
    pub extra_kernel_params: String,
}

impl Default for Boot {
    fn default() -> Self {
        Self {
            listen: None,
            url: None,
            ramdisk_dir: PathBuf::from("/usr/share/wrought/ramdisk"),
            rescue_ramdisk_dir: None,
            extra_kernel_params: String::new(),
        }
    }
}

/// `[conductor]`
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Conductor {
    /// Group of nodes that this conductor is for, among several conductors; a
    /// server on its own is for all groups. Compared in lower case.
    pub group: String,
    /// Seconds between two signs of life.
    pub keepalive_interval: u64,
    /// Seconds without one after which a conductor counts as dead and others
    /// take over its nodes.
    pub dead_after: u64,
    /// Seconds between two looks for nodes to be taken over, beside those when
    /// conductors come or go; 0: only then.
    pub sync_local_state_interval: u64,
    /// Seconds that running work may take to come to a point from which it can
    /// be gone on with, when the conductor is told to end.
    pub graceful_shutdown_timeout: u64,
    /// Seconds of an agent's silence after which a deploy fails; 0: never.
    pub deploy_callback_timeout: u64,
    /// The same for cleaning.
    pub clean_callback_timeout: u64,
    /// The same for servicing.
    pub service_callback_timeout: u64,
    /// Seconds that a rescue ramdisk may take to call; 0: any time.
    pub rescue_callback_timeout: u64,
    /// Seconds between two looks for such time-outs, and for nodes that
    /// nobody works on although their state says so; 0: never.
    pub check_interval: u64,
    /// Seconds between two looks for time-outs of rescues; 0: never.
    pub check_rescue_state_interval: u64,
    /// Seconds between two looks for allocations that nobody looks after; 0:
    /// never.
    pub check_allocations_interval: u64,
    /// Seconds between two comparisons of power states; 0: never.
    pub power_sync_interval: u64,
    /// BMCs that are asked for their power at the same time, at most
    /// `periodic_max_workers`.
    pub sync_power_state_workers: usize,
    /// Failures in a row, to read or to keep the power state, that are put up
    /// with before a node goes into maintenance.
    pub power_state_sync_max_retries: u32,
    /// Seconds between two notes, for all nodes at once, of when their power
    /// was compared; 0: never.
    pub power_sync_mark_interval: u64,
    /// Seconds between two looks whether BMCs of nodes with the fault `power
    /// failure` answer again; 0: never.
    pub power_failure_recovery_interval: u64,
    /// Nodes that one periodic task works on at the same time.
    pub periodic_max_workers: usize,
    /// Seconds between two trimmings of node histories; 0: never.
    pub node_history_cleanup_interval: u64,
    /// Entries of a node's history that stay.
    pub node_history_max_entries: u32,
    /// Days for which entries stay however many they are; 0: none do.
    pub node_history_minimum_days: u32,
    /// Entries that are deleted in one transaction.
    pub node_history_cleanup_batch_count: u32,
    /// Seconds between two looks for conductors that were not heard of for
    /// long; 0: never.
    pub conductor_cleanup_interval: u64,
    /// Seconds of silence after which a conductor is forgotten.
    pub conductor_cleanup_timeout: u64,
    /// Conductors that are forgotten in one transaction.
    pub conductor_cleanup_batch_size: u32,
    /// Seconds after its start in which a machine that boots from the network
    /// must have called, or it is started again; 0: it is not.
    pub boot_retry_timeout: u64,
    /// Seconds between two looks for such machines.
    pub boot_retry_check_interval: u64,
    /// Seconds after which an agent that has not called counts as lost; told
    /// to the agents, which call at 0.3 to 0.6 of it.
    pub heartbeat_timeout: u64,
    /// Seconds that a power change may take.
    pub power_change_timeout: u64,
    /// Seconds that a soft power off may take.
    pub soft_power_off_timeout: u64,
    /// Whether a machine that is found in another power state than recorded is
    /// put back; otherwise the record follows the machine.
    pub force_power_state_during_sync: bool,
    /// Whether nodes are cleaned before they become available.
    pub automated_clean: bool,
    /// Operations that may run at the same time.
    pub workers: usize,
    /// How many of them are kept for what agents tell: no request gets them.
    pub heartbeat_workers: usize,
    /// Nodes that may be deployed at the same time; 0: any number. Others
    /// wait in a queue.
    pub max_concurrent_deploy: usize,
    /// The same for cleaning.
    pub max_concurrent_clean: usize,
    /// The same for inspection.
    pub max_concurrent_inspect: usize,
    /// Nodes that may wait in each of the three queues; a request beyond that
    /// is refused with 503.
    pub provision_queue_size: u64,
    /// Seconds between two looks at the queues, beside those when an
    /// operation has ended; 0: never.
    pub queue_check_interval: u64,
    /// Whether nodes in maintenance are cleaned, deployed, rescued and
    /// serviced to the end; otherwise that fails as soon as it is noticed.
    pub allow_provisioning_in_maintenance: bool,
    /// Whether a ramdisk stays up after inspection and cleaning, and is used
    /// without a restart by what comes next. `driver_info.fast_track` of a
    /// node goes before.
    pub fast_track: bool,
    /// Seconds since the last heartbeat for which such a ramdisk counts as
    /// running.
    pub fast_track_timeout: u64,
    /// Overrides the priority of `deploy.erase_devices` in automated cleaning;
    /// 0: off.
    pub erase_devices_priority: Option<i64>,
    /// The same for `deploy.erase_devices_metadata`.
    pub erase_devices_metadata_priority: Option<i64>,
    /// Whether a machine is switched off when its deploy failed.
    pub power_off_after_deploy_failure: bool,
    /// The same for cleaning.
    pub power_off_after_clean_failure: bool,
    /// The same for servicing.
    pub power_off_after_service_failure: bool,
    /// How passwords of rescue users are hashed for the ramdisk.
    pub rescue_password_hash_algorithm: PasswordHash,
    /// Whether a ramdisk that takes no hash is refused. Otherwise the password
    /// itself is kept until the ramdisk has it.
    pub require_rescue_password_hashed: bool,
    /// How often a machine whose agent was lost is started anew within one
    /// step.
    pub step_recoveries: u32,
    /// Boot mode of machines that nothing else is known of: `uefi` or `bios`.
    pub default_boot_mode: String,
    /// Whether an agent's certificate and `https` are required.
    pub require_agent_tls: bool,
    /// Whether agents accept an MD5 as the checksum of an image, as those of
    /// Ironic do by default.
    pub allow_md5_checksum: bool,
    /// Overrides priorities of steps in automated cleaning.
    pub clean_step_priority_override: Priorities,
    /// The same in deploying; the steps of a request go before it.
    pub deploy_step_priority_override: Priorities,
    /// The same of the steps that check a node on its way to `manageable`.
    pub verify_step_priority_override: Priorities,
    /// Seconds that one try of a step may take which says nothing else itself;
    /// 0: any time.
    pub step_timeout: u64,
    /// The same for single steps by `interface.step`; goes before what the step
    /// says itself.
    pub step_timeouts: BTreeMap<String, u64>,
    /// The most seconds that a reserved step `wait` waits.
    pub max_conductor_wait_step_seconds: u64,
    /// Whether a step on child nodes may go on in the child after the parent's
    /// list has moved on.
    pub permit_child_node_step_async_result: bool,
    /// Folder of the executables that are step plug-ins.
    pub step_plugins_dir: PathBuf,
    /// Whether the node's history tells of each step that has ended.
    pub record_step_flows_in_history: bool,
    /// Inspection.
    pub inspection: Inspection,
    /// How disks are erased.
    pub erase: Erase,
}

impl Default for Conductor {
    fn default() -> Self {
        Self {
            group: String::new(),
            keepalive_interval: 10,
            dead_after: 60,
            sync_local_state_interval: 180,
            graceful_shutdown_timeout: 60,
            deploy_callback_timeout: 1800,
            clean_callback_timeout: 1800,
            service_callback_timeout: 1800,
            rescue_callback_timeout: 1800,
            check_interval: 60,
            check_rescue_state_interval: 60,
            check_allocations_interval: 60,
            power_sync_interval: 60,
            sync_power_state_workers: 8,
            power_state_sync_max_retries: 3,
            power_sync_mark_interval: 60,
            power_failure_recovery_interval: 300,
            periodic_max_workers: 8,
            node_history_cleanup_interval: 86400,
            node_history_max_entries: 300,
            node_history_minimum_days: 0,
            node_history_cleanup_batch_count: 1000,
            conductor_cleanup_interval: 86400,
            conductor_cleanup_timeout: 14 * 86400,
            conductor_cleanup_batch_size: 50,
            boot_retry_timeout: 0,
            boot_retry_check_interval: 90,
            heartbeat_timeout: 300,
            power_change_timeout: 60,
            soft_power_off_timeout: 600,
            force_power_state_during_sync: true,
            automated_clean: true,
            workers: 64,
            heartbeat_workers: 8,
            max_concurrent_deploy: 250,
            max_concurrent_clean: 50,
            max_concurrent_inspect: 250,
            provision_queue_size: 10_000,
            queue_check_interval: 10,
            allow_provisioning_in_maintenance: true,
            fast_track: false,
            fast_track_timeout: 300,
            erase_devices_priority: None,
            erase_devices_metadata_priority: None,
            power_off_after_deploy_failure: true,
            power_off_after_clean_failure: false,
            power_off_after_service_failure: false,
            rescue_password_hash_algorithm: PasswordHash::default(),
            require_rescue_password_hashed: true,
            step_recoveries: 2,
            default_boot_mode: "uefi".to_owned(),
            require_agent_tls: true,
            allow_md5_checksum: true,
            clean_step_priority_override: Priorities::default(),
            deploy_step_priority_override: Priorities::default(),
            verify_step_priority_override: Priorities::default(),
            step_timeout: 0,
            step_timeouts: BTreeMap::new(),
            max_conductor_wait_step_seconds: 3600,
            permit_child_node_step_async_result: false,
            step_plugins_dir: PathBuf::from("/etc/wrought/steps.d"),
            record_step_flows_in_history: true,
            inspection: Inspection::default(),
            erase: Erase::default(),
        }
    }
}

/// The crypt(5) methods for passwords; the names are Ironic's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PasswordHash {
    /// `$5$`
    #[default]
    Sha256,
    /// `$6$`
    Sha512,
}

/// `[agent]`
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Agent {
    /// Seconds between heartbeats, passed to the ramdisk when above 0.
    pub heartbeat_interval: u64,
    /// When the logs of a ramdisk are fetched and kept.
    pub deploy_logs_collect: CollectLogs,
    /// Folder for them; none: `logs` in the state directory.
    pub deploy_logs_local_path: Option<PathBuf>,
    /// Bytes that one archive of logs may have; larger ones are not kept.
    pub deploy_logs_max_bytes: u64,
    /// Archives that are kept of one node, the newest.
    pub deploy_logs_per_node: usize,
    /// Bytes that all archives together may have; the oldest go first.
    pub deploy_logs_total_bytes: u64,
}

impl Default for Agent {
    fn default() -> Self {
        Self {
            heartbeat_interval: 0,
            deploy_logs_collect: CollectLogs::default(),
            deploy_logs_local_path: None,
            deploy_logs_max_bytes: 8 << 20,
            deploy_logs_per_node: 5,
            deploy_logs_total_bytes: 1 << 30,
        }
    }
}

/// When the logs of a ramdisk are fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CollectLogs {
    /// When an operation has failed.
    #[default]
    OnFailure,
    /// At the end of every operation.
    Always,
    /// Not at all.
    Never,
}

#[cfg(test)]
mod tests {
    /// Each setting of `[conductor]` is on the page.
    #[test]
    fn settings_are_documented() {
        let page = include_str!("../../docs/configuration.md");
        let source = include_str!("config.rs");
        let from = source.find("pub struct Conductor {").unwrap();
        let fields = source[from..].split("\n}").next().unwrap();
        let names = fields
            .lines()
            .filter_map(|line| line.trim().strip_prefix("pub ")?.split_once(':'))
            .map(|(name, _)| name);
        let mut count = 0;
        // Tables of their own.
        for name in names.filter(|name| !["inspection", "erase"].contains(name)) {
            assert!(page.contains(&format!("`{name}`")), "{name} is not in docs");
            count += 1;
        }
        assert!(count > 40, "{count}");
    }
}

//! What every command can see of the agent.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::PoisonError;
use std::sync::RwLock;

use wrought_wire::lookup::LookupConfig;
use wrought_wire::lookup::LookupNode;

use crate::command::CancelToken;
use crate::command::ProgressSink;
use crate::params::Params;
use crate::shutdown::Shutdown;

/// The name under which our steps are listed.
pub const HARDWARE_MANAGER: &str = "wrought";
/// Version of [`HARDWARE_MANAGER`]; changes whenever a step's meaning does.
pub const HARDWARE_MANAGER_VERSION: &str = "0.1";

/// What the last lookup said of the node; commands that carry a `node`
/// refresh it.
#[derive(Debug, Default)]
pub struct NodeCache {
    node: RwLock<Option<LookupNode>>,
    config: RwLock<Option<LookupConfig>>,
    source: OnceLock<Source>,
}

/// Asks the API for the node as it is now; blocks, and gives nothing when
/// there is no answer.
struct Source(Box<dyn Fn() -> Option<LookupNode> + Send + Sync>);

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Source")
    }
}

impl NodeCache {
    /// The node, if a lookup has succeeded.
    pub fn node(&self) -> Option<LookupNode> {
        self.node
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Where the node is asked for anew; the first one stays.
    pub fn set_source(&self, ask: impl Fn() -> Option<LookupNode> + Send + Sync + 'static) {
        self.source.get_or_init(|| Source(Box::new(ask)));
    }

    /// The node as the API has it now, where it can be asked and still means
    /// the same node; else what is known. Blocks.
    pub fn ask(&self) -> Option<LookupNode> {
        let known = self.node();
        let fresh = self.source.get().and_then(|source| (source.0)());
        match (fresh, known) {
            (Some(fresh), Some(known)) if fresh.uuid == known.uuid => {
                self.set_node(fresh.clone());
                Some(fresh)
            }
            (_, known) => known,
        }
    }

    /// Replaces the node.
    pub fn set_node(&self, node: LookupNode) {
        *self.node.write().unwrap_or_else(PoisonError::into_inner) = Some(node);
    }

    /// The settings of the lookup answer; the token is left out of it.
    pub fn config(&self) -> Option<LookupConfig> {
        self.config
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Replaces the settings, without the token.
    pub fn set_config(&self, config: LookupConfig) {
        let config = LookupConfig {
            agent_token: None,
            ..config
        };
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Some(config);
    }
}

/// The agent as its commands see it: one per process, shared.
#[derive(Debug)]
pub struct Agent {
    /// Kernel command line, virtual media and command line, merged.
    pub params: Params,
    /// When not empty: the only disks that may be touched or even listed.
    pub only_disk: Vec<PathBuf>,
    /// Bytes that a data path may use for buffers and decoder state together.
    pub memory_budget: u64,
    /// Who this machine is.
    pub node: NodeCache,
    /// Whether this process is PID 1 and owns the machine. Only then may it
    /// be switched off, restarted, or its EFI variables be changed.
    pub is_init: bool,
    /// How a command asks for the end of this agent or of the machine's run.
    pub shutdown: Shutdown,
}

impl Agent {
    /// An agent for tests: no parameters, nothing of the host to touch.
    #[doc(hidden)]
    pub fn for_tests() -> Self {
        Self {
            params: Params::default(),
            only_disk: vec![PathBuf::from("/nonexistent")],
            memory_budget: 48 << 20,
            node: NodeCache::default(),
            is_init: false,
            shutdown: Shutdown::default(),
        }
    }
}

/// Passed to each run of a command.
#[derive(Debug, Clone)]
pub struct Context {
    /// The agent.
    pub agent: Arc<Agent>,
    /// Where this command reports how far it is.
    pub progress: ProgressSink,
    /// Whether this command should stop.
    pub cancel: CancelToken,
}

impl Context {
    /// A context outside of any command, for command lines and tests.
    pub fn new(agent: Arc<Agent>) -> Self {
        Self {
            agent,
            progress: ProgressSink::default(),
            cancel: CancelToken::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wrought_wire::lookup::LookupNode;

    use super::NodeCache;

    fn node(uuid: &str, serial: &str) -> LookupNode {
        serde_json::from_value(json!({
            "uuid": uuid, "properties": {"root_device": {"serial": serial}},
            "instance_info": {}, "driver_internal_info": {}, "links": [],
        }))
        .unwrap()
    }

    #[test]
    fn hints_that_came_after_the_start_are_asked_for() {
        const OURS: &str = "aaaaaaaa-0000-4000-8000-000000000001";
        const OTHER: &str = "aaaaaaaa-0000-4000-8000-000000000002";
        let cache = NodeCache::default();
        assert!(cache.ask().is_none());
        cache.set_node(node(OURS, "old"));
        assert_eq!(
            cache.ask().unwrap().properties["root_device"]["serial"],
            "old"
        );

        let cache = NodeCache::default();
        cache.set_node(node(OURS, "old"));
        cache.set_source(|| Some(node(OURS, "new")));
        assert_eq!(
            cache.ask().unwrap().properties["root_device"]["serial"],
            "new"
        );
        assert_eq!(
            cache.node().unwrap().properties["root_device"]["serial"],
            "new"
        );

        // An API that does not answer, or means another node, changes nothing.
        for answer in [None, Some(node(OTHER, "new"))] {
            let cache = NodeCache::default();
            cache.set_node(node(OURS, "old"));
            cache.set_source(move || answer.clone());
            assert_eq!(
                cache.ask().unwrap().properties["root_device"]["serial"],
                "old"
            );
        }
    }
}

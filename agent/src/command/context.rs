//! What every command can see of the agent.

use std::path::PathBuf;
use std::sync::Arc;
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
}

impl NodeCache {
    /// The node, if a lookup has succeeded.
    pub fn node(&self) -> Option<LookupNode> {
        self.node
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
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

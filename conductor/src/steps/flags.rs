//! Ironic's flags in `driver_internal_info` that tell what a list of steps is
//! waiting for; clients and operators read them.

use wrought_store::node::Node;

use crate::internal;
use crate::steps::Kind;

impl Kind {
    fn flag(self, what: &str) -> String {
        let word = match self.as_str() {
            "deploy" => "deployment",
            "clean" => "cleaning",
            _ => "servicing",
        };
        format!("{word}_{what}")
    }

    /// `cleaning_reboot` and its like: the machine restarts for a step.
    pub(crate) fn reboot_flag(self) -> String {
        self.flag("reboot")
    }

    /// `cleaning_polling` and its like: the conductor asks, not the agent
    /// tells.
    pub(crate) fn polling_flag(self) -> String {
        self.flag("polling")
    }
}

/// Whether a flag is up.
pub(crate) fn is_up(node: &Node, flag: &str) -> bool {
    internal::read(node, flag) == Some(true)
}

//! Steps: the pieces that deploying, cleaning and servicing are made of.
//!
//! `driver_internal_info.<kind>_steps` holds the list and `<kind>_step_index`
//! the place in it, as Ironic has them; the journal tells which step was begun
//! and how it ended. [`engine`] runs the list.

use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Map;
use serde_json::Value;
use uuid::Uuid;
use wrought_store::node::Node;
use wrought_wire::state::ProvisionState;
use wrought_wire::step::Step;

use crate::internal;

mod children;
mod flags;
mod place;
mod reserved;

pub(crate) mod args;
pub(crate) mod engine;
pub(crate) mod given;
pub(crate) mod inband;
pub(crate) mod limits;
pub(crate) mod list;
mod raid;
pub(crate) mod ramdisk;
pub(crate) mod recover;
pub(crate) mod resume;
pub(crate) mod templates;
pub(crate) mod verify;

pub(crate) use place::Place;
pub(crate) use place::known;
pub(crate) use reserved::Reserved;

/// What a list of steps is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Deploying.
    Deploy,
    /// Cleaning, automated or manual.
    Clean,
    /// Servicing: given steps on a node that has an instance, or is manageable.
    Service,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Deploy, Self::Clean, Self::Service];

    /// Its name in keys, commands and the journal.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deploy => "deploy",
            Self::Clean => "clean",
            Self::Service => "service",
        }
    }

    /// The kind at work in a state.
    pub const fn of(state: ProvisionState) -> Option<Self> {
        use ProvisionState as S;
        match state {
            S::Deploying | S::DeployWait | S::DeployHold => Some(Self::Deploy),
            S::Cleaning | S::CleanWait | S::CleanHold => Some(Self::Clean),
            S::Servicing | S::ServiceWait | S::ServiceHold => Some(Self::Service),
            _ => None,
        }
    }

    /// The state in which the conductor works.
    pub const fn working(self) -> ProvisionState {
        match self {
            Self::Deploy => ProvisionState::Deploying,
            Self::Clean => ProvisionState::Cleaning,
            Self::Service => ProvisionState::Servicing,
        }
    }

    /// The state in which the ramdisk works.
    pub const fn waiting(self) -> ProvisionState {
        match self {
            Self::Deploy => ProvisionState::DeployWait,
            Self::Clean => ProvisionState::CleanWait,
            Self::Service => ProvisionState::ServiceWait,
        }
    }

    /// Event type in the history, Ironic's words.
    pub const fn event_type(self) -> &'static str {
        match self {
            Self::Deploy => "deploying",
            Self::Clean => "cleaning",
            Self::Service => "servicing",
        }
    }

    pub(crate) fn list_key(self) -> String {
        format!("{}_steps", self.as_str())
    }

    pub(crate) fn index_key(self) -> String {
        format!("{}_step_index", self.as_str())
    }

    pub(crate) fn cache_key(self) -> String {
        format!("agent_cached_{}_steps", self.as_str())
    }

    /// Key of `driver_internal_info` that forbids the ramdisk, Ironic's. A
    /// deploy is never asked for in this way.
    pub(crate) const fn no_ramdisk_key(self) -> &'static str {
        match self {
            Self::Deploy => "deploy_disable_ramdisk",
            Self::Clean => "cleaning_disable_ramdisk",
            Self::Service => "service_disable_ramdisk",
        }
    }

    /// Whether a list of this kind was asked for without the ramdisk.
    pub(crate) fn is_without_ramdisk(self, node: &Node) -> bool {
        internal::read(node, self.no_ramdisk_key()) == Some(true)
    }

    /// The agent's command that runs one step.
    pub(crate) fn execute(self) -> String {
        format!("{0}.execute_{0}_step", self.as_str())
    }

    /// The running step of the node.
    pub(crate) fn current(self, node: &Node) -> &Map<String, Value> {
        match self {
            Self::Deploy => &node.deploy_step,
            Self::Clean => &node.clean_step,
            Self::Service => &node.service_step,
        }
    }

    pub(crate) fn current_mut(self, node: &mut Node) -> &mut Map<String, Value> {
        match self {
            Self::Deploy => &mut node.deploy_step,
            Self::Clean => &mut node.clean_step,
            Self::Service => &mut node.service_step,
        }
    }
}

/// How far a step came.
#[derive(Debug)]
pub enum Outcome {
    /// It is done.
    Done,
    /// It is done, and the machine must restart before the next one.
    Restart,
    /// Something must happen first.
    Wait(Wait),
    /// The list stops until somebody asks for it to go on.
    Hold,
}

/// What a wait state waits for; stored as `wrought_wait`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// The event.
    #[serde(flatten)]
    pub what: Awaited,
    /// What is to be done after it.
    pub then: Then,
}

/// Events that are waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "for", rename_all = "snake_case")]
pub enum Awaited {
    /// The first heartbeat of a freshly booted agent.
    Agent,
    /// The end of a command.
    Command {
        /// Which.
        id: Uuid,
    },
    /// The end of whatever else the agent is busy with.
    Idle,
    /// A moment.
    Time {
        /// Which.
        until: Timestamp,
    },
    /// Any heartbeat of the agent.
    Heartbeat {
        /// After this moment.
        since: Timestamp,
    },
    /// The end of something that has to be asked for.
    Poll {
        /// When next.
        at: Timestamp,
    },
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Then {
    /// The list of steps is made, then its first one runs.
    Begin,
    /// The next step.
    Next,
    /// The same step again.
    Repeat,
}

impl Wait {
    /// For a freshly booted agent.
    pub const fn for_agent(then: Then) -> Self {
        Self {
            what: Awaited::Agent,
            then,
        }
    }

    /// For the end of a command.
    pub const fn for_command(id: Uuid) -> Self {
        Self {
            what: Awaited::Command { id },
            then: Then::Next,
        }
    }

    pub(crate) fn of(node: &Node) -> Option<Self> {
        internal::read(node, internal::WAIT)
    }
}

/// `interface.step`, as messages and the journal name it.
pub(crate) fn name(step: &Step) -> String {
    format!("{}.{}", step.interface, step.step)
}

/// The list of the node, none while it is not known yet.
pub(crate) fn steps(node: &Node, kind: Kind) -> Option<Vec<Step>> {
    internal::read(node, &kind.list_key())
}

/// The place in the list, none before its begin.
pub(crate) fn index(node: &Node, kind: Kind) -> Option<usize> {
    internal::read(node, &kind.index_key())
}

/// A step as the map that nodes show.
pub(crate) fn as_map(step: &Step) -> Map<String, Value> {
    match serde_json::to_value(step) {
        Ok(Value::Object(map)) => map,
        // A step is a struct and always becomes an object.
        _ => Map::new(),
    }
}

/// Forgets everything of a finished or stopped list.
pub(crate) fn forget(node: &mut Node, kind: Kind) {
    kind.current_mut(node).clear();
    let (list, index, cache) = (kind.list_key(), kind.index_key(), kind.cache_key());
    let (reboot, polling) = (kind.reboot_flag(), kind.polling_flag());
    internal::clear(
        node,
        &[
            &list,
            &index,
            &cache,
            &reboot,
            &polling,
            internal::STEP_BEGAN,
            internal::STEP_STATE,
            internal::MISMATCHES,
            "steps_validated",
            kind.no_ramdisk_key(),
            internal::BEGAN,
            internal::WAIT,
            internal::ATTEMPT,
            internal::RECOVERIES,
            internal::MARKER,
            internal::PROGRESS,
        ],
    );
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::Then;
    use super::Wait;

    #[test]
    fn waits_are_stored_plainly() {
        let wait = Wait::for_command(Uuid::nil());
        let stored = serde_json::to_value(&wait).unwrap();
        assert_eq!(
            stored,
            json!({"for": "command", "id": Uuid::nil(), "then": "next"})
        );
        assert_eq!(serde_json::from_value::<Wait>(stored).unwrap(), wait);
        let stored = json!({"for": "time", "until": "2026-12-01T05:00:00Z", "then": "next"});
        let wait: Wait = serde_json::from_value(stored.clone()).unwrap();
        assert_eq!(serde_json::to_value(&wait).unwrap(), stored);
        let stored = json!({"for": "agent", "then": "begin"});
        assert_eq!(
            serde_json::from_value::<Wait>(stored).unwrap(),
            Wait::for_agent(Then::Begin)
        );
    }
}

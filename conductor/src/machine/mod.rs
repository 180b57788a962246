//! The provision state machine: pure data and one function, [`next`].
//!
//! The table holds every edge of Ironic's machine (`ironic.common.states`) and
//! the few that Wrought adds; `docs/state-machine.md` is generated from it.

use std::fmt;

use wrought_wire::state::ProvisionState;
use wrought_wire::state::Verb;

mod diagram;
mod table;

pub use diagram::markdown;
pub use table::EDGES;

/// Defines the events with their names.
macro_rules! events {
    ($($(#[$meta:meta])* $variant:ident = $text:literal,)+) => {
        /// What moves a node from state to state.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Event { $($(#[$meta])* $variant,)+ }
        impl Event {
            /// Every event.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];
            /// Its name in the diagram, in logs and errors.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }
    };
}

events! {
    /// Request: take under management.
    Manage = "manage",
    /// Request: make available.
    Provide = "provide",
    /// Request, or the end of a tear-down: clean.
    Clean = "clean",
    /// Request: inspect.
    Inspect = "inspect",
    /// Request: adopt.
    Adopt = "adopt",
    /// Request: deploy.
    Deploy = "deploy",
    /// Request: deploy the same instance anew.
    Rebuild = "rebuild",
    /// Request: tear down.
    Delete = "delete",
    /// Request: rescue.
    Rescue = "rescue",
    /// Request: leave rescue.
    Unrescue = "unrescue",
    /// Request: run service steps.
    Service = "service",
    /// Request: stop what is going on.
    Abort = "abort",
    /// Request: go on after a hold step.
    Unhold = "unhold",
    /// A flow ended well.
    Done = "done",
    /// A flow ended with an error.
    Fail = "fail",
    /// The flow waits for the ramdisk.
    Wait = "wait",
    /// The ramdisk called.
    Resume = "resume",
    /// A hold step was reached.
    Hold = "hold",
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<Verb> for Event {
    fn from(verb: Verb) -> Self {
        match verb {
            Verb::Active | Verb::Deploy => Self::Deploy,
            Verb::Rebuild => Self::Rebuild,
            Verb::Deleted | Verb::Undeploy => Self::Delete,
            Verb::Manage => Self::Manage,
            Verb::Provide => Self::Provide,
            Verb::Inspect => Self::Inspect,
            Verb::Abort => Self::Abort,
            Verb::Clean => Self::Clean,
            Verb::Adopt => Self::Adopt,
            Verb::Rescue => Self::Rescue,
            Verb::Unrescue => Self::Unrescue,
            Verb::Unhold => Self::Unhold,
            Verb::Service => Self::Service,
        }
    }
}

/// The work that begins when an edge is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Check the BMC.
    Verify,
    /// Clean.
    Clean,
    /// Deploy.
    Deploy,
    /// Tear the instance down, then clean.
    TearDown,
    /// Inspect.
    Inspect,
    /// Take over a running instance.
    Adopt,
    /// Boot the rescue ramdisk.
    Rescue,
    /// Bring the instance back.
    Unrescue,
    /// Run service steps.
    Service,
    /// Put away what a stopped operation left behind.
    CleanUp,
}

/// Who has an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Ironic has it.
    Ironic,
    /// Only Wrought has it.
    Wrought,
}

/// One edge of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// Where it starts.
    pub from: ProvisionState,
    /// What takes it.
    pub event: Event,
    /// Where it ends.
    pub to: ProvisionState,
    /// What begins.
    pub effect: Option<Effect>,
    /// Who has it.
    pub origin: Origin,
}

/// What an event does to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transition {
    /// The state before.
    pub from: ProvisionState,
    /// The state after.
    pub to: ProvisionState,
    /// `target_provision_state` after it.
    pub target: Option<ProvisionState>,
    /// What begins.
    pub effect: Option<Effect>,
}

impl Transition {
    /// The same transition on the way to another target; a stable state has no
    /// target whatever is asked.
    #[must_use]
    pub fn towards(mut self, target: Option<ProvisionState>) -> Self {
        if !self.to.is_stable() && target.is_some() {
            self.target = target;
        }
        self
    }
}

/// An event that the state does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("event {event} is not possible in state {state}")]
pub struct Rejected {
    /// The state.
    pub state: ProvisionState,
    /// The event.
    pub event: Event,
}

/// The whole machine: where `event` takes a node that is in `state`.
pub fn next(state: ProvisionState, event: Event) -> Result<Transition, Rejected> {
    let edge = EDGES
        .iter()
        .find(|edge| edge.from == state && edge.event == event)
        .ok_or(Rejected { state, event })?;
    let target = if edge.to.is_stable() {
        None
    } else {
        target_of(edge.to)
    };
    Ok(Transition {
        from: state,
        to: edge.to,
        target,
        effect: edge.effect,
    })
}

/// The same for what a caller asks for. Where the conductor works only the flow
/// itself moves a node, though some of its events have a verb's name.
pub fn asked(state: ProvisionState, verb: Verb) -> Result<Transition, Rejected> {
    let event = verb.into();
    if is_working(state) {
        return Err(Rejected { state, event });
    }
    next(state, event)
}

/// Where a node that is in `state` is going when its operation says nothing
/// else.
pub const fn target_of(state: ProvisionState) -> Option<ProvisionState> {
    use ProvisionState as S;
    match state {
        S::Enroll | S::Manageable | S::Available | S::Active | S::Error | S::Rescue => None,
        S::Verifying | S::Inspecting | S::InspectWait | S::InspectFail => Some(S::Manageable),
        S::Cleaning | S::CleanWait | S::CleanFail | S::CleanHold | S::Deleting => {
            Some(S::Available)
        }
        S::Rescuing | S::RescueWait | S::RescueFail => Some(S::Rescue),
        S::Deploying
        | S::DeployWait
        | S::DeployFail
        | S::DeployHold
        | S::Adopting
        | S::AdoptFail
        | S::Unrescuing
        | S::UnrescueFail
        | S::Servicing
        | S::ServiceWait
        | S::ServiceFail
        | S::ServiceHold => Some(S::Active),
    }
}

/// Whether the conductor itself works on a node in this state; after a restart
/// it goes on from the journal.
pub const fn is_working(state: ProvisionState) -> bool {
    use ProvisionState as S;
    matches!(
        state,
        S::Verifying
            | S::Deploying
            | S::Deleting
            | S::Cleaning
            | S::Inspecting
            | S::Adopting
            | S::Rescuing
            | S::Unrescuing
            | S::Servicing
    )
}

/// Whether the conductor waits for the ramdisk in this state. Each such state
/// fails after a time of silence.
pub const fn is_waiting(state: ProvisionState) -> bool {
    use ProvisionState as S;
    matches!(
        state,
        S::DeployWait | S::CleanWait | S::InspectWait | S::RescueWait | S::ServiceWait
    )
}

#[cfg(test)]
mod tests;

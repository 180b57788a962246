//! The edges.

use wrought_wire::state::ProvisionState as S;

use super::Edge;
use super::Effect as F;
use super::Event as E;
use super::Origin;

const fn ironic(from: S, event: E, to: S) -> Edge {
    Edge {
        from,
        event,
        to,
        effect: None,
        origin: Origin::Ironic,
    }
}

const fn starts(from: S, event: E, to: S, effect: F) -> Edge {
    Edge {
        from,
        event,
        to,
        effect: Some(effect),
        origin: Origin::Ironic,
    }
}

const fn ours(from: S, event: E, to: S, effect: Option<F>) -> Edge {
    Edge {
        from,
        event,
        to,
        effect,
        origin: Origin::Wrought,
    }
}

/// Every edge, grouped by the state that it leaves.
pub const EDGES: &[Edge] = &[
    starts(S::Enroll, E::Manage, S::Verifying, F::Verify),
    ironic(S::Verifying, E::Done, S::Manageable),
    ironic(S::Verifying, E::Fail, S::Enroll),
    starts(S::Manageable, E::Provide, S::Cleaning, F::Clean),
    starts(S::Manageable, E::Clean, S::Cleaning, F::Clean),
    starts(S::Manageable, E::Inspect, S::Inspecting, F::Inspect),
    starts(S::Manageable, E::Adopt, S::Adopting, F::Adopt),
    ours(S::Manageable, E::Service, S::Servicing, Some(F::Service)),
    starts(S::Available, E::Deploy, S::Deploying, F::Deploy),
    ironic(S::Available, E::Manage, S::Manageable),
    ironic(S::Deploying, E::Wait, S::DeployWait),
    ironic(S::Deploying, E::Hold, S::DeployHold),
    ironic(S::Deploying, E::Done, S::Active),
    ironic(S::Deploying, E::Fail, S::DeployFail),
    ironic(S::DeployWait, E::Resume, S::Deploying),
    ironic(S::DeployWait, E::Hold, S::DeployHold),
    ironic(S::DeployWait, E::Fail, S::DeployFail),
    starts(S::DeployWait, E::Abort, S::DeployFail, F::CleanUp),
    starts(S::DeployWait, E::Delete, S::Deleting, F::TearDown),
    ironic(S::DeployHold, E::Unhold, S::DeployWait),
    starts(S::DeployHold, E::Abort, S::DeployFail, F::CleanUp),
    starts(S::DeployFail, E::Deploy, S::Deploying, F::Deploy),
    starts(S::DeployFail, E::Rebuild, S::Deploying, F::Deploy),
    starts(S::DeployFail, E::Delete, S::Deleting, F::TearDown),
    ours(S::DeployFail, E::Manage, S::Manageable, None),
    starts(S::Active, E::Rebuild, S::Deploying, F::Deploy),
    starts(S::Active, E::Delete, S::Deleting, F::TearDown),
    starts(S::Active, E::Rescue, S::Rescuing, F::Rescue),
    starts(S::Active, E::Service, S::Servicing, F::Service),
    starts(S::Error, E::Rebuild, S::Deploying, F::Deploy),
    starts(S::Error, E::Delete, S::Deleting, F::TearDown),
    starts(S::Deleting, E::Clean, S::Cleaning, F::Clean),
    ironic(S::Deleting, E::Fail, S::Error),
    ironic(S::Cleaning, E::Done, S::Available),
    ironic(S::Cleaning, E::Manage, S::Manageable),
    ironic(S::Cleaning, E::Fail, S::CleanFail),
    ironic(S::Cleaning, E::Wait, S::CleanWait),
    ironic(S::Cleaning, E::Hold, S::CleanHold),
    ironic(S::CleanWait, E::Resume, S::Cleaning),
    ironic(S::CleanWait, E::Fail, S::CleanFail),
    starts(S::CleanWait, E::Abort, S::CleanFail, F::CleanUp),
    ironic(S::CleanWait, E::Hold, S::CleanHold),
    ironic(S::CleanHold, E::Unhold, S::CleanWait),
    starts(S::CleanHold, E::Abort, S::CleanFail, F::CleanUp),
    ironic(S::CleanFail, E::Manage, S::Manageable),
    ironic(S::Inspecting, E::Done, S::Manageable),
    ironic(S::Inspecting, E::Fail, S::InspectFail),
    ironic(S::Inspecting, E::Wait, S::InspectWait),
    ironic(S::InspectWait, E::Done, S::Manageable),
    ironic(S::InspectWait, E::Resume, S::Inspecting),
    ironic(S::InspectWait, E::Fail, S::InspectFail),
    starts(S::InspectWait, E::Abort, S::InspectFail, F::CleanUp),
    ironic(S::InspectFail, E::Manage, S::Manageable),
    starts(S::InspectFail, E::Inspect, S::Inspecting, F::Inspect),
    ironic(S::Adopting, E::Done, S::Active),
    ironic(S::Adopting, E::Fail, S::AdoptFail),
    starts(S::AdoptFail, E::Adopt, S::Adopting, F::Adopt),
    ironic(S::AdoptFail, E::Manage, S::Manageable),
    ironic(S::Rescuing, E::Done, S::Rescue),
    ironic(S::Rescuing, E::Wait, S::RescueWait),
    ironic(S::Rescuing, E::Fail, S::RescueFail),
    ironic(S::RescueWait, E::Resume, S::Rescuing),
    ironic(S::RescueWait, E::Fail, S::RescueFail),
    starts(S::RescueWait, E::Abort, S::RescueFail, F::CleanUp),
    starts(S::RescueWait, E::Delete, S::Deleting, F::TearDown),
    starts(S::Rescue, E::Rescue, S::Rescuing, F::Rescue),
    starts(S::Rescue, E::Unrescue, S::Unrescuing, F::Unrescue),
    starts(S::Rescue, E::Delete, S::Deleting, F::TearDown),
    starts(S::RescueFail, E::Rescue, S::Rescuing, F::Rescue),
    starts(S::RescueFail, E::Unrescue, S::Unrescuing, F::Unrescue),
    starts(S::RescueFail, E::Delete, S::Deleting, F::TearDown),
    ours(S::RescueFail, E::Manage, S::Manageable, None),
    ironic(S::Unrescuing, E::Done, S::Active),
    ironic(S::Unrescuing, E::Fail, S::UnrescueFail),
    starts(S::UnrescueFail, E::Rescue, S::Rescuing, F::Rescue),
    starts(S::UnrescueFail, E::Unrescue, S::Unrescuing, F::Unrescue),
    starts(S::UnrescueFail, E::Delete, S::Deleting, F::TearDown),
    ironic(S::Servicing, E::Done, S::Active),
    // The way back of a service that was asked for in `manageable`.
    ours(S::Servicing, E::Manage, S::Manageable, None),
    ironic(S::Servicing, E::Wait, S::ServiceWait),
    ironic(S::Servicing, E::Hold, S::ServiceHold),
    ironic(S::Servicing, E::Fail, S::ServiceFail),
    ironic(S::ServiceWait, E::Resume, S::Servicing),
    ironic(S::ServiceWait, E::Hold, S::ServiceHold),
    ironic(S::ServiceWait, E::Fail, S::ServiceFail),
    starts(S::ServiceWait, E::Abort, S::ServiceFail, F::CleanUp),
    starts(S::ServiceWait, E::Delete, S::Deleting, F::TearDown),
    starts(S::ServiceHold, E::Service, S::Servicing, F::Service),
    ironic(S::ServiceHold, E::Unhold, S::ServiceWait),
    ironic(S::ServiceHold, E::Fail, S::ServiceFail),
    starts(S::ServiceHold, E::Abort, S::ServiceFail, F::CleanUp),
    starts(S::ServiceFail, E::Service, S::Servicing, F::Service),
    starts(S::ServiceFail, E::Rescue, S::Rescuing, F::Rescue),
    ironic(S::ServiceFail, E::Wait, S::ServiceWait),
    ironic(S::ServiceFail, E::Hold, S::ServiceHold),
    starts(S::ServiceFail, E::Delete, S::Deleting, F::TearDown),
    starts(S::ServiceFail, E::Abort, S::Active, F::CleanUp),
    ours(S::ServiceFail, E::Manage, S::Manageable, None),
];

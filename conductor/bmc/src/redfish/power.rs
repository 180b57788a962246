//! Power, as absolute targets: read, act only when needed, wait until reached.

use std::time::Duration;

use serde_json::Value;
use serde_json::json;
use tokio::time::Instant;
use wrought_wire::state::PowerState;

use super::Client;
use super::Error;
use super::Result;
use super::json;

/// What is to be done to the power of a system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerAction {
    /// Switch on, unless it is on.
    On,
    /// Cut the power, unless it is off.
    Off,
    /// Ask the operating system to shut down, unless it is off.
    SoftOff,
    /// Restart a running system without regard to what runs; switch on one
    /// that is off.
    ForceRestart,
}

/// `PowerState` of a system with its transitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Power {
    On,
    Off,
    TurningOn,
    TurningOff,
    Unknown,
}

impl Power {
    fn of(system: &Value) -> Self {
        match json::text(system, "/PowerState") {
            Some("On" | "Paused") => Self::On,
            Some("Off") => Self::Off,
            Some("PoweringOn") => Self::TurningOn,
            Some("PoweringOff") => Self::TurningOff,
            _ => Self::Unknown,
        }
    }

    /// A system that is still turning off runs.
    const fn state(self) -> PowerState {
        match self {
            Self::On | Self::TurningOn | Self::TurningOff => PowerState::On,
            Self::Off => PowerState::Off,
            Self::Unknown => PowerState::Error,
        }
    }
}

impl PowerAction {
    /// `ResetType` values that bring it about, best first.
    const fn reset_types(self) -> &'static [&'static str] {
        match self {
            Self::On => &["On", "ForceOn"],
            Self::Off => &["ForceOff"],
            Self::SoftOff => &["GracefulShutdown"],
            Self::ForceRestart => &["ForceRestart", "PowerCycle"],
        }
    }

    const fn target(self) -> Power {
        match self {
            Self::On | Self::ForceRestart => Power::On,
            Self::Off | Self::SoftOff => Power::Off,
        }
    }
}

impl Client {
    /// Reads the power state; [`PowerState::Error`] when the service does not
    /// tell one.
    pub async fn power_state(&self) -> Result<PowerState> {
        let (_, system) = self.read_system().await?;
        Ok(Power::of(&system.body).state())
    }

    /// Brings a power state about within the usual time and waits for it.
    pub async fn set_power(&self, action: PowerAction) -> Result<PowerState> {
        let tuning = &self.inner.tuning;
        let within = match action {
            PowerAction::SoftOff => tuning.soft_power_timeout,
            _ => tuning.power_timeout,
        };
        self.set_power_within(action, within).await
    }

    /// Brings a power state about and waits for it no longer than `within`.
    pub async fn set_power_within(
        &self,
        action: PowerAction,
        within: Duration,
    ) -> Result<PowerState> {
        let (path, system) = self.read_system().await?;
        let now = Power::of(&system.body);
        let action = match (action, now) {
            (PowerAction::ForceRestart, Power::Off) => PowerAction::On,
            (action, _) => action,
        };
        let target = action.target();
        if now == target && action != PowerAction::ForceRestart {
            return Ok(target.state());
        }
        let started = Instant::now();
        let sent = self.reset(&path, &system.body, action.reset_types()).await;
        let mut again = action != PowerAction::ForceRestart && action != PowerAction::SoftOff;
        let mut refused = match sent {
            Ok(()) => None,
            // It may have got there by itself in between.
            Err(error) if error.is_refusal() => Some(error),
            Err(error) => return Err(error),
        };
        loop {
            let (_, system) = self.read_system().await?;
            let found = Power::of(&system.body);
            if found == target {
                return Ok(target.state());
            }
            if let Some(error) = refused.take() {
                return Err(error);
            }
            if started.elapsed() >= within {
                return Err(Error::NotReached {
                    path,
                    what: "PowerState",
                    expected: format!("{target:?}"),
                    found: format!("{found:?}"),
                    seconds: within.as_secs(),
                });
            }
            // Some services drop a request that meets a running transition.
            if again && started.elapsed() >= within / 2 {
                again = false;
                self.reset(&path, &system.body, action.reset_types())
                    .await?;
            }
            tokio::time::sleep(self.inner.tuning.poll).await;
        }
    }

    /// Sends a non-maskable interrupt.
    pub async fn inject_nmi(&self) -> Result<()> {
        let (path, system) = self.read_system().await?;
        self.reset(&path, &system.body, &["Nmi"]).await
    }

    /// Sends `ComputerSystem.Reset` with the first fitting type on offer.
    async fn reset(&self, path: &str, system: &Value, wanted: &[&str]) -> Result<()> {
        let pointer = "/Actions/#ComputerSystem.Reset";
        let target = json::text(system, &format!("{pointer}/target")).map_or_else(
            || format!("{path}/Actions/ComputerSystem.Reset"),
            str::to_owned,
        );
        let offered = match json::texts(
            system,
            &format!("{pointer}/ResetType@Redfish.AllowableValues"),
        ) {
            Some(offered) => Some(offered),
            None => match json::text(system, &format!("{pointer}/@Redfish.ActionInfo")) {
                Some(info) => reset_types(&self.get(info).await?.body),
                None => None,
            },
        };
        let reset_type = match &offered {
            None => wanted.first(),
            Some(offered) => wanted
                .iter()
                .find(|kind| offered.iter().any(|offer| offer == *kind)),
        };
        let Some(reset_type) = reset_type else {
            return Err(Error::Unsupported {
                path: target,
                wanted: format!("ResetType {}", wanted.join(" or ")),
                offered: offered.unwrap_or_default().join(", "),
            });
        };
        tracing::info!(address = self.address(), path, reset_type, "power");
        self.post(&target, &json!({"ResetType": reset_type}))
            .await
            .map(drop)
    }
}

/// Allowable values of `ResetType` in an `ActionInfo` resource.
fn reset_types(info: &Value) -> Option<Vec<String>> {
    let parameters = info.pointer("/Parameters")?.as_array()?;
    let parameter = parameters
        .iter()
        .find(|item| json::text(item, "/Name") == Some("ResetType"))?;
    json::texts(parameter, "/AllowableValues")
}

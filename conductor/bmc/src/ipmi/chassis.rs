//! Power, as absolute targets (§28), and commands to the BMC itself.

use std::time::Duration;

use tokio::time::Instant;
use wrought_wire::state::PowerState;

use super::Client;
use super::Error;
use super::Result;
use super::packet::Command;
use super::session::Session;
use crate::redfish::PowerAction;

const STATUS: Command = Command {
    name: "Get Chassis Status",
    netfn: 0x00,
    code: 0x01,
};
const CONTROL: Command = Command {
    name: "Chassis Control",
    netfn: 0x00,
    code: 0x02,
};
const COLD_RESET: Command = Command {
    name: "Cold Reset",
    netfn: 0x06,
    code: 0x02,
};
const WARM_RESET: Command = Command {
    name: "Warm Reset",
    netfn: 0x06,
    code: 0x03,
};

/// Chassis Control (§28.3).
#[derive(Clone, Copy)]
enum Control {
    Down = 0,
    Up = 1,
    Reset = 3,
    DiagnosticInterrupt = 4,
    SoftShutdown = 5,
}

/// The state that an action ends in.
const fn target(action: PowerAction) -> PowerState {
    match action {
        PowerAction::On | PowerAction::ForceRestart => PowerState::On,
        PowerAction::Off | PowerAction::SoftOff => PowerState::Off,
    }
}

/// What brings it about.
const fn control(action: PowerAction, now: PowerState) -> Option<Control> {
    match (action, now) {
        (PowerAction::On, PowerState::On)
        | (PowerAction::Off | PowerAction::SoftOff, PowerState::Off) => None,
        (PowerAction::On, _) | (PowerAction::ForceRestart, PowerState::Off) => Some(Control::Up),
        (PowerAction::ForceRestart, _) => Some(Control::Reset),
        (PowerAction::Off, _) => Some(Control::Down),
        (PowerAction::SoftOff, _) => Some(Control::SoftShutdown),
    }
}

async fn state(session: &mut Session) -> Result<PowerState> {
    // Byte 1, bit 0: system power is on (§28.2).
    let data = session.command(STATUS, &[], 1).await?;
    Ok(match data[0] & 1 {
        0 => PowerState::Off,
        _ => PowerState::On,
    })
}

async fn send(session: &mut Session, control: Control) -> Result<()> {
    session
        .command(CONTROL, &[control as u8], 0)
        .await
        .map(drop)
}

impl Client {
    /// Reads the power state.
    ///
    /// # Errors
    /// When the BMC is not reached, does not let us in, or refuses.
    pub async fn power_state(&self) -> Result<PowerState> {
        self.session(async |session: &mut Session| state(session).await)
            .await
    }

    /// Brings a power state about and waits for it no longer than `within`.
    /// Nothing is sent where it is there already.
    ///
    /// # Errors
    /// As [`Client::power_state`], and [`Error::NotReached`].
    pub async fn set_power(&self, action: PowerAction, within: Duration) -> Result<PowerState> {
        let started = Instant::now();
        let sent = self.session(async |session: &mut Session| {
            let now = state(session).await?;
            let Some(control) = control(action, now) else {
                return Ok(None);
            };
            tracing::info!(address = session.address(), ?action, "power");
            send(session, control).await?;
            Ok(Some(session.poll()))
        });
        let Some(poll) = sent.await? else {
            return Ok(target(action));
        };
        let mut again = action == PowerAction::On || action == PowerAction::Off;
        loop {
            // Some BMCs do not answer while they switch.
            let found = match self.power_state().await {
                Ok(found) if found == target(action) => return Ok(found),
                Ok(found) => found.as_str().to_owned(),
                Err(error) if error.is_transient() => error.to_string(),
                Err(error) => return Err(error),
            };
            if started.elapsed() >= within {
                return Err(Error::NotReached {
                    what: "power",
                    address: self.inner.endpoint.shown(),
                    expected: target(action).as_str().to_owned(),
                    found,
                    seconds: within.as_secs(),
                });
            }
            // And some drop a command that meets a transition.
            if again && started.elapsed() >= within / 2 {
                again = false;
                self.session(async |session: &mut Session| {
                    let now = state(session).await?;
                    match control(action, now) {
                        Some(control) => send(session, control).await,
                        None => Ok(()),
                    }
                })
                .await?;
            }
            tokio::time::sleep(poll).await;
        }
    }

    /// Sends a diagnostic interrupt, which the machine sees as an NMI.
    ///
    /// # Errors
    /// As [`Client::power_state`].
    pub async fn inject_nmi(&self) -> Result<()> {
        self.session(async |session: &mut Session| {
            send(session, Control::DiagnosticInterrupt).await
        })
        .await
    }

    /// Restarts the BMC itself (§20.2, §20.3); it answers before or not at all.
    ///
    /// # Errors
    /// As [`Client::power_state`].
    pub async fn reset(&self, warm: bool) -> Result<()> {
        let command = if warm { WARM_RESET } else { COLD_RESET };
        self.session(async |session: &mut Session| session.command(command, &[], 0).await.map(drop))
            .await
    }

    /// Sends any command: network function, command, data. Gives the data of
    /// the answer.
    ///
    /// # Errors
    /// As [`Client::power_state`]; [`Error::Endpoint`] for what is no command.
    pub async fn raw(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let (netfn, code, data) = match bytes {
            [netfn, code, data @ ..] if netfn % 2 == 0 && *netfn < 0x40 && data.len() <= 200 => {
                (*netfn, *code, data)
            }
            _ => {
                return Err(Error::Endpoint {
                    property: "raw_bytes",
                    problem: "expected an even network function below 0x40, a command and at most \
                              200 bytes of data"
                        .to_owned(),
                });
            }
        };
        let command = Command {
            name: "raw command",
            netfn,
            code,
        };
        self.session(async |session: &mut Session| session.command(command, data, 0).await)
            .await
    }
}

#[cfg(test)]
mod tests {
    use wrought_wire::state::PowerState;

    use super::Control;
    use super::control;
    use crate::redfish::PowerAction;

    #[test]
    fn nothing_is_sent_for_what_is_so_already() {
        let code = |action, now| control(action, now).map(|control: Control| control as u8);
        let (on, off) = (PowerState::On, PowerState::Off);
        for (action, now, expected) in [
            (PowerAction::On, on, None),
            (PowerAction::On, off, Some(1)),
            (PowerAction::Off, off, None),
            (PowerAction::Off, on, Some(0)),
            (PowerAction::SoftOff, on, Some(5)),
            (PowerAction::SoftOff, off, None),
            (PowerAction::ForceRestart, on, Some(3)),
            (PowerAction::ForceRestart, off, Some(1)),
        ] {
            assert_eq!(code(action, now), expected, "{action:?} {now:?}");
        }
    }
}

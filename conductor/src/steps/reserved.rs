//! Step names that the engine itself knows, whatever interface they are given
//! for: power actions, waiting, and holding.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use wrought_wire::state::PowerState;
use wrought_wire::state::PowerTarget;
use wrought_wire::step::Step;

use crate::drivers;
use crate::error::Error;
use crate::internal;
use crate::power;
use crate::steps::Awaited;
use crate::steps::Kind;
use crate::steps::Outcome;
use crate::steps::Then;
use crate::steps::Wait;
use crate::steps::name;
use crate::steps::ramdisk;
use crate::task::Task;

/// The argument of `wait`.
const SECONDS: &str = "seconds";

/// A reserved step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reserved {
    /// `power_on`
    PowerOn,
    /// `power_off`
    PowerOff,
    /// `reboot`
    Reboot,
    /// `hold`: until somebody asks for `unhold`.
    Hold,
    /// `wait`: some seconds, or until the agent calls.
    Wait,
}

impl Reserved {
    /// The reserved step of that name.
    pub(crate) fn named(step: &str) -> Option<Self> {
        Some(match step {
            "power_on" => Self::PowerOn,
            "power_off" => Self::PowerOff,
            "reboot" => Self::Reboot,
            "hold" => Self::Hold,
            "wait" => Self::Wait,
            _ => return None,
        })
    }

    /// Whether a step is one: only its name counts.
    pub(crate) fn of(step: &Step) -> Option<Self> {
        Self::named(&step.step)
    }

    /// The step with what is known of every reserved one, its arguments
    /// checked.
    pub(crate) fn checked(self, kind: Kind, step: &Step) -> Result<Step, Error> {
        let takes: &[&str] = match self {
            Self::Wait => &[SECONDS],
            _ => &[],
        };
        if let Some(odd) = step.args.keys().find(|key| !takes.contains(&key.as_str())) {
            let known = match self {
                Self::Wait => "only \"seconds\"",
                _ => "none",
            };
            return Err(Error::Invalid(format!(
                "{} step {}: unknown argument {odd:?}, the step takes {known}",
                kind.as_str(),
                name(step)
            )));
        }
        seconds(kind, step)?;
        Ok(Step {
            abortable: true,
            repeatable: true,
            reboot_requested: false,
            requires_ramdisk: false,
            argsinfo: None,
            timeout: None,
            ..step.clone()
        })
    }

    /// Does it, or tells what has to be waited for.
    pub(crate) async fn run(
        self,
        task: &mut Task,
        kind: Kind,
        step: &Step,
    ) -> Result<Outcome, Error> {
        match self {
            Self::Hold => return Ok(Outcome::Hold),
            Self::Wait => return wait(task, kind, step),
            Self::PowerOff => power::set(task, PowerTarget::Off, None).await?,
            Self::PowerOn => {
                let off = state(task).await? == PowerState::Off;
                if off && ramdisk::is_on_offer(&task.node) {
                    // The ramdisk that the list runs in comes back.
                    task.confirm().await?;
                    internal::forget_agent(&mut task.node);
                    drivers::boot(&task.node)?.prepare_ramdisk(task).await?;
                    task.save().await?;
                }
                power::set(task, PowerTarget::On, None).await?;
            }
            Self::Reboot if ramdisk::is_on_offer(&task.node) => ramdisk::boot(task).await?,
            Self::Reboot => power::set(task, PowerTarget::Reboot, None).await?,
        }
        Ok(Outcome::Done)
    }
}

async fn state(task: &Task) -> Result<PowerState, Error> {
    let power = drivers::power(&task.node)?;
    power.state(&task.svc, &task.node).await
}

/// `args.seconds`; none when it is not given.
fn seconds(kind: Kind, step: &Step) -> Result<Option<Duration>, Error> {
    let given = match step.args.get(SECONDS) {
        None | Some(Value::Null) => return Ok(None),
        Some(given) => given,
    };
    let number = match given {
        Value::String(text) => text.trim().parse().ok(),
        given => given.as_f64(),
    };
    let time = number.and_then(|seconds: f64| Duration::try_from_secs_f64(seconds).ok());
    match time {
        Some(time) => Ok(Some(time)),
        None => Err(Error::Invalid(format!(
            "{} step {}: argument \"seconds\": expected a number of seconds, found {given}",
            kind.as_str(),
            name(step)
        ))),
    }
}

fn wait(task: &mut Task, kind: Kind, step: &Step) -> Result<Outcome, Error> {
    let now = Timestamp::now();
    let what = match seconds(kind, step)? {
        None => Awaited::Heartbeat { since: now },
        Some(asked) => {
            let most = task.svc.config.conductor.max_conductor_wait_step_seconds;
            let most = Duration::from_secs(most);
            if asked > most {
                let text = format!(
                    "Step {} asks for {} s, which is shortened to {} s \
                     (max_conductor_wait_step_seconds)",
                    name(step),
                    asked.as_secs_f64(),
                    most.as_secs()
                );
                task.history("WARNING", kind.event_type(), &text);
            }
            let until = now.checked_add(asked.min(most)).unwrap_or(now);
            Awaited::Time { until }
        }
    };
    Ok(Outcome::Wait(Wait {
        what,
        then: Then::Next,
    }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use wrought_wire::step::Step;

    use super::Reserved;
    use super::seconds;
    use crate::steps::Kind;
    use crate::steps::list::lenient;

    fn step(name: &str, args: serde_json::Value) -> Step {
        lenient(&json!({"interface": "deploy", "step": name, "args": args})).unwrap()
    }

    #[test]
    fn reserved_by_name_whatever_the_interface() {
        for interface in ["deploy", "raid", "vendor"] {
            let step = lenient(&json!({"interface": interface, "step": "reboot"})).unwrap();
            assert_eq!(Reserved::of(&step), Some(Reserved::Reboot));
        }
        let other = step("reboot_twice", json!({}));
        assert_eq!(Reserved::of(&other), None);
    }

    #[test]
    fn reserved_steps_know_their_arguments() {
        let check = |name: &str, args| {
            let step = step(name, args);
            Reserved::of(&step).unwrap().checked(Kind::Clean, &step)
        };
        assert!(check("wait", json!({"seconds": 2})).unwrap().abortable);
        assert!(check("wait", json!({"seconds": "2.5"})).is_ok());
        assert!(check("hold", json!({})).is_ok());
        for (name, args, says) in [
            (
                "hold",
                json!({"seconds": 2}),
                "deploy.hold: unknown argument \"seconds\"",
            ),
            ("wait", json!({"minutes": 2}), "takes only \"seconds\""),
            (
                "wait",
                json!({"seconds": -1}),
                "expected a number of seconds, found -1",
            ),
            ("wait", json!({"seconds": "soon"}), "found \"soon\""),
        ] {
            let refused = check(name, args).unwrap_err().to_string();
            assert!(refused.contains(says), "{refused}");
        }
        let waiting = step("wait", json!({"seconds": "2.5"}));
        let time = seconds(Kind::Clean, &waiting).unwrap();
        assert_eq!(time, Some(Duration::from_millis(2500)));
    }
}

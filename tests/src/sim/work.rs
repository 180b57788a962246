//! What the commands of an agent come to.

use std::io::Write;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use serde_json::json;

use super::Habits;

/// From the answer to a command that ends the agent to that end.
pub(super) const LAST_WORDS: Duration = Duration::from_millis(50);

/// What follows the end of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// Nothing.
    Nothing,
    /// A heartbeat.
    Beat,
    /// The machine is switched off.
    PowerOff,
    /// The agent ends and leaves the machine running.
    Leave,
}

/// A command with its end.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) takes: Duration,
    pub(super) progress: Value,
    pub(super) result: Value,
    pub(super) error: Option<Value>,
    pub(super) then: Then,
}

impl Job {
    fn at_once(result: Value) -> Self {
        Self {
            takes: Duration::ZERO,
            progress: Value::Null,
            result,
            error: None,
            then: Then::Nothing,
        }
    }

    fn then(self, then: Then) -> Self {
        Self { then, ..self }
    }
}

/// The work behind a command; none when there is no such command.
pub(super) fn job(name: &str, params: &Value, habits: &Habits) -> Option<Job> {
    let (extension, command) = name.split_once('.')?;
    Some(match (extension, command) {
        (kind @ ("clean" | "deploy" | "service"), command) => match command {
            _ if command == format!("get_{kind}_steps") => Job::at_once(json!({
                (format!("{kind}_steps")): {"simulated": steps(kind)},
                "hardware_manager_version": {"simulated": "1.0"},
            })),
            _ if command == format!("execute_{kind}_step") => step(kind, &params["step"], habits),
            _ => return None,
        },
        ("standby", "get_partition_uuids") => Job::at_once(json!({"root uuid": "0x1234"})),
        ("standby", "sync") => Job::at_once(json!({"result": "sync: ok"})),
        ("standby", "power_off") => {
            Job::at_once(json!({"result": "power_off: ok"})).then(Then::PowerOff)
        }
        ("image", "install_bootloader") => Job {
            takes: Duration::from_millis(100),
            ..Job::at_once(json!({"result": "install_bootloader: ok"}))
        },
        ("rescue", "finalize_rescue") => {
            Job::at_once(json!({"result": "finalize_rescue: ok"})).then(Then::Leave)
        }
        ("log", "collect_system_logs") => {
            Job::at_once(json!({"system_logs": STANDARD.encode(logs())}))
        }
        ("system_passthrough" | "network", _) => Job::at_once(Value::Null),
        _ => return None,
    })
}

fn step(kind: &str, step: &Value, habits: &Habits) -> Job {
    let text = |key: &str| step[key].as_str().unwrap_or_default();
    let name = format!("{}.{}", text("interface"), text("step"));
    let error = habits.failing.contains(&name).then(|| {
        json!({
            "type": "SimulatedError", "code": 500, "message": "The step failed",
            "details": format!("{name} was told to fail"),
        })
    });
    Job {
        takes: habits.takes.get(&name).copied().unwrap_or(habits.step),
        progress: json!({"progress": {
            "stage": "write", "bytes_in": 50, "bytes_out": 50, "rate": 1, "percent": 50,
        }}),
        result: json!({(format!("{kind}_result")): null, (format!("{kind}_step")): step}),
        error,
        then: Then::Beat,
    }
}

/// Steps that are on offer. The last one of each kind restarts the machine, or
/// must not run twice.
fn steps(kind: &str) -> Value {
    let step = |interface: &str, step: &str, priority: i64, repeatable: bool, reboot: bool| {
        json!({
            "interface": interface, "step": step, "priority": priority,
            "repeatable": repeatable, "reboot_requested": reboot, "abortable": true,
            "argsinfo": null,
        })
    };
    match kind {
        "clean" => json!([
            step("deploy", "erase_devices_metadata", 99, true, false),
            step("deploy", "erase_devices", 10, true, false),
            step("raid", "delete_configuration", 0, false, false),
            step("management", "update_firmware", 0, true, true),
        ]),
        "deploy" => json!([
            step("deploy", "write_image", 0, true, false),
            step("deploy", "inject_files", 0, true, false),
        ]),
        _ => json!([
            step("deploy", "check_disks", 0, true, false),
            step("management", "update_firmware", 0, true, true),
            step("raid", "apply_configuration", 0, false, false),
        ]),
    }
}

/// An empty archive.
fn logs() -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    // Both write into memory.
    gzip.write_all(&[0; 1024]).ok();
    gzip.finish().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Then;
    use super::job;
    use crate::sim::Habits;

    #[test]
    fn commands_that_there_are() {
        let habits = Habits::default();
        let steps = job("clean.get_clean_steps", &json!({}), &habits).unwrap();
        let offered = &steps.result["clean_steps"]["simulated"];
        assert_eq!(offered[0]["step"], "erase_devices_metadata");
        let params = json!({"step": {"interface": "deploy", "step": "write_image"}});
        let written = job("deploy.execute_deploy_step", &params, &habits).unwrap();
        assert_eq!(written.takes, habits.step);
        assert_eq!(written.result["deploy_step"], params["step"]);
        let off = job("standby.power_off", &json!({}), &habits).unwrap();
        assert_eq!(off.then, Then::PowerOff);
        for none in ["standby.fly", "power_off", "clean.get_deploy_steps"] {
            assert!(job(none, &json!({}), &habits).is_none(), "{none}");
        }
    }

    #[test]
    fn steps_that_fail_and_steps_that_take_long() {
        let mut habits = Habits::default();
        let long = std::time::Duration::from_secs(60);
        habits.failing.insert("deploy.erase_devices".to_owned());
        habits.takes.insert("deploy.erase_devices".to_owned(), long);
        let params = json!({"step": {"interface": "deploy", "step": "erase_devices"}});
        let step = job("clean.execute_clean_step", &params, &habits).unwrap();
        assert!(step.error.is_some() && step.takes == long);
    }
}

//! Power, maintenance, and the provision verbs that take no arguments.

use std::time::Duration;
use std::time::Instant;

use clap::Args;
use clap::ValueEnum;
use reqwest::Method;
use serde_json::Value;
use serde_json::json;

use super::watch;
use crate::client::Client;
use crate::exit::Failure;
use crate::exit::Kind;
use crate::exit::Outcome;

/// Waiting for the end of what was begun
#[derive(Debug, Clone, Args)]
pub(crate) struct Wait {
    /// Wait for the end, showing each step
    #[arg(long)]
    pub(crate) wait: bool,
    /// Seconds after which waiting ends
    #[arg(long, value_name = "SECONDS", default_value_t = 7200)]
    pub(crate) timeout: u64,
}

impl Wait {
    /// Waits if that was asked for.
    pub(crate) async fn follow(&self, client: &Client, node: &str, json: bool) -> Outcome {
        if !self.wait {
            return Ok(());
        }
        watch::follow(client, node, Duration::from_secs(self.timeout), json).await
    }
}

/// A verb on a node
#[derive(Debug, Args)]
pub(crate) struct Plain {
    /// UUID or name
    node: String,
    #[command(flatten)]
    wait: Wait,
}

impl Plain {
    pub(crate) async fn run(self, client: &Client, verb: &str, json: bool) -> Outcome {
        provision(client, &self.node, &json!({"target": verb})).await?;
        self.wait.follow(client, &self.node, json).await
    }
}

/// Starts a provisioning operation.
pub(crate) async fn provision(client: &Client, node: &str, body: &Value) -> Outcome {
    let path = ["nodes", node, "states", "provision"];
    client.change(Method::PUT, &path, Some(body)).await?;
    Ok(())
}

/// What the power is to become.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Target {
    On,
    Off,
    Reboot,
    SoftOff,
    SoftReboot,
}

impl Target {
    /// The target on the wire, and the state that it leads to.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::On => ("power on", "power on"),
            Self::Off => ("power off", "power off"),
            Self::Reboot => ("rebooting", "power on"),
            Self::SoftOff => ("soft power off", "power off"),
            Self::SoftReboot => ("soft rebooting", "power on"),
        }
    }
}

/// `wrought node power`
#[derive(Debug, Args)]
pub(crate) struct Power {
    /// UUID or name
    node: String,
    /// What the power is to become
    target: Target,
    /// Wait until it is so
    #[arg(long)]
    wait: bool,
    /// Seconds that the machine, and waiting, may take
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u32,
}

/// Rest between two looks at the power.
const REST: Duration = Duration::from_millis(500);

impl Power {
    pub(crate) async fn run(self, client: &Client) -> Outcome {
        let (target, end) = self.target.words();
        let mut body = json!({ "target": target });
        if matches!(self.target, Target::SoftOff | Target::SoftReboot) {
            body["timeout"] = json!(self.timeout.max(1));
        }
        let path = ["nodes", self.node.as_str(), "states", "power"];
        client.change(Method::PUT, &path, Some(&body)).await?;
        if !self.wait {
            return Ok(());
        }
        let deadline = Instant::now() + Duration::from_secs(self.timeout.into());
        loop {
            let states = client.get(&["nodes", &self.node, "states"], &[]).await?;
            if states["target_power_state"].is_null() {
                if states["power_state"] == end {
                    return Ok(());
                }
                let reason = states["last_error"]
                    .as_str()
                    .unwrap_or("no error is recorded");
                let found = &states["power_state"];
                let text = format!("node {} is {found}, not {end:?}: {reason}", self.node);
                return Err(Failure::new(Kind::Failed, text));
            }
            if Instant::now() >= deadline {
                let text = format!("node {} is not {end:?} after {} s", self.node, self.timeout);
                return Err(Failure::new(Kind::TimedOut, text));
            }
            tokio::time::sleep(REST).await;
        }
    }
}

/// On or off.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Switch {
    On,
    Off,
}

/// `wrought node maintenance`
#[derive(Debug, Args)]
pub(crate) struct Maintenance {
    /// UUID or name
    node: String,
    /// On or off
    switch: Switch,
    /// Why
    #[arg(long)]
    reason: Option<String>,
}

impl Maintenance {
    pub(crate) async fn run(self, client: &Client) -> Outcome {
        let path = ["nodes", self.node.as_str(), "maintenance"];
        match self.switch {
            Switch::On => {
                let body = match &self.reason {
                    Some(reason) => json!({ "reason": reason }),
                    None => json!({}),
                };
                client.change(Method::PUT, &path, Some(&body)).await?;
            }
            Switch::Off => {
                client.change(Method::DELETE, &path, None).await?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::json;

    use super::Maintenance;
    use super::Power;
    use super::Switch;
    use super::Target;
    use crate::client::tests::Double;
    use crate::exit::Kind;

    #[tokio::test]
    async fn power_waits_for_its_end() {
        let state = |now: &str, target: Value| {
            (
                200,
                json!({"power_state": now, "target_power_state": target, "last_error": "bmc"}),
            )
        };
        let answers = [
            (202, Value::Null),
            state("power off", json!("power on")),
            state("power on", Value::Null),
        ];
        let (double, client) = Double::start(&answers).await;
        let power = |target| Power {
            node: "n".to_owned(),
            target,
            wait: true,
            timeout: 5,
        };
        power(Target::On).run(&client).await.unwrap();
        assert_eq!(double.asked()[0].2, json!({"target": "power on"}));

        let answers = [(202, Value::Null), state("power on", Value::Null)];
        let (double, client) = Double::start(&answers).await;
        let failure = power(Target::SoftOff).run(&client).await.unwrap_err();
        assert_eq!(failure.kind, Kind::Failed);
        assert!(failure.to_string().ends_with("bmc"), "{failure}");
        assert_eq!(
            double.asked()[0].2,
            json!({"target": "soft power off", "timeout": 5})
        );
    }

    #[tokio::test]
    async fn maintenance_is_put_and_deleted() {
        let (double, client) = Double::start(&[(202, Value::Null), (202, Value::Null)]).await;
        let command = |switch, reason: Option<&str>| Maintenance {
            node: "n".to_owned(),
            switch,
            reason: reason.map(str::to_owned),
        };
        command(Switch::On, Some("fan")).run(&client).await.unwrap();
        command(Switch::Off, None).run(&client).await.unwrap();
        let asked = double.asked();
        assert_eq!(
            (asked[0].0.as_str(), &asked[0].2),
            ("PUT", &json!({"reason": "fan"}))
        );
        assert_eq!(asked[1].0, "DELETE");
    }
}

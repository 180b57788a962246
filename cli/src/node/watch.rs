//! `wrought node watch`: one line per change of state, step and progress,
//! until nothing goes on any more.

use std::fmt;
use std::time::Duration;
use std::time::Instant;

use clap::Args;
use serde_json::Value;
use serde_json::json;
use wrought_wire::progress::Progress;
use wrought_wire::state::ProvisionState;

use crate::client::Client;
use crate::exit::Failure;
use crate::exit::Kind;
use crate::exit::Outcome;

/// `wrought node watch`
#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// UUID or name
    node: String,
    /// Seconds after which watching ends
    #[arg(long, value_name = "SECONDS", default_value_t = 7200)]
    timeout: u64,
}

/// Rest between two looks.
const REST: Duration = Duration::from_millis(500);
/// How long the API may be away, as when its server starts anew.
const AWAY: Duration = Duration::from_secs(60);

const FIELDS: &str = "uuid,name,provision_state,target_provision_state,power_state,\
                      last_error,deploy_step,clean_step,service_step,driver_internal_info";

impl Watch {
    pub(crate) async fn run(self, client: &Client, json: bool) -> Outcome {
        follow(client, &self.node, Duration::from_secs(self.timeout), json).await
    }
}

/// What is shown of a node at one moment.
#[derive(Debug, Clone, PartialEq, Default)]
struct View {
    state: String,
    target: Option<String>,
    power: Option<String>,
    step: Option<String>,
    progress: Option<Progress>,
    /// Place in the queue that it waits in.
    queued: Option<u64>,
    last_error: Option<String>,
}

impl View {
    fn of(node: &Value) -> Self {
        let text = |field: &str| node[field].as_str().map(str::to_owned);
        let step = ["deploy_step", "clean_step", "service_step"]
            .iter()
            .find_map(|field| {
                let step = &node[*field];
                Some(format!(
                    "{}.{}",
                    step["interface"].as_str()?,
                    step["step"].as_str()?
                ))
            });
        let progress = node["driver_internal_info"].get("wrought_progress");
        Self {
            state: text("provision_state").unwrap_or_default(),
            target: text("target_provision_state"),
            power: text("power_state"),
            step,
            progress: progress.and_then(|progress| serde_json::from_value(progress.clone()).ok()),
            queued: node["driver_internal_info"]["queue_position"].as_u64(),
            last_error: text("last_error"),
        }
    }

    /// Whether nothing happens from here on without a request.
    fn at_rest(&self) -> bool {
        let hold = matches!(
            self.state.parse(),
            Ok(ProvisionState::DeployHold
                | ProvisionState::CleanHold
                | ProvisionState::ServiceHold)
        );
        let known = self.state.parse::<ProvisionState>();
        hold || known.is_ok_and(|state| state.is_stable() || state.is_failure())
    }

    fn failed(&self) -> bool {
        self.state
            .parse::<ProvisionState>()
            .is_ok_and(ProvisionState::is_failure)
    }

    /// Whether `other` is worth a line after this: progress by whole percents.
    fn differs(&self, other: &Self) -> bool {
        fn stage(progress: &Progress) -> (&str, Option<u8>) {
            (&progress.stage, progress.percent)
        }
        (&self.state, &self.target, &self.step, self.queued)
            != (&other.state, &other.target, &other.step, other.queued)
            || self.progress.as_ref().map(stage) != other.progress.as_ref().map(stage)
    }

    fn to_json(&self, node: &str) -> Value {
        json!({
            "node": node,
            "provision_state": self.state,
            "target_provision_state": self.target,
            "power_state": self.power,
            "step": self.step,
            "progress": self.progress,
            "queue_position": self.queued,
            "last_error": self.last_error,
        })
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.state)?;
        if let Some(target) = &self.target {
            write!(f, " -> {target}")?;
        }
        if let Some(place) = self.queued {
            write!(f, "  place {place} in the queue")?;
        }
        if let Some(step) = &self.step {
            write!(f, "  {step}")?;
        }
        let Some(progress) = &self.progress else {
            return Ok(());
        };
        write!(f, "  {}", progress.stage)?;
        if let Some(percent) = progress.percent {
            write!(f, " {percent} %")?;
        }
        if progress.rate > 0 {
            write!(f, " {} MB/s", tenths(progress.rate, 1_000_000))?;
        }
        Ok(())
    }
}

/// `value / unit` with one decimal.
fn tenths(value: u64, unit: u64) -> String {
    let tenths = value / (unit / 10);
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// Shows each change until the node is at rest. Fails when that is a failed
/// state, or not the target that it was on its way to.
pub(crate) async fn follow(client: &Client, node: &str, timeout: Duration, json: bool) -> Outcome {
    let deadline = Instant::now() + timeout;
    let mut shown: Option<View> = None;
    let mut target = None;
    let mut lost: Option<Instant> = None;
    loop {
        let view = match client.get(&["nodes", node], &[("fields", FIELDS)]).await {
            Ok(found) => {
                lost = None;
                View::of(&found)
            }
            Err(failure) if failure.kind == Kind::Unavailable => {
                let since = *lost.get_or_insert_with(Instant::now);
                if since.elapsed() >= AWAY || Instant::now() >= deadline {
                    return Err(failure);
                }
                tokio::time::sleep(REST).await;
                continue;
            }
            Err(failure) => return Err(failure),
        };
        let news = shown.as_ref().is_none_or(|shown| shown.differs(&view));
        if news && json {
            println!("{}", view.to_json(node));
        } else if news {
            println!("{node}: {view}");
        }
        target = view.target.clone().or(target);
        if view.at_rest() {
            return end(node, &view, target.as_deref(), json);
        }
        if Instant::now() >= deadline {
            let text = format!("node {node} is still {view} after {} s", timeout.as_secs());
            return Err(Failure::new(Kind::TimedOut, text));
        }
        shown = Some(view);
        tokio::time::sleep(REST).await;
    }
}

fn end(node: &str, view: &View, target: Option<&str>, json: bool) -> Outcome {
    // A node without a target got where it is by an operator's word.
    let missed = target.is_some_and(|target| target != view.state) && view.target.is_none();
    let failed = view.failed() || missed;
    if json {
        let mut last = view.to_json(node);
        last["result"] = json!(if failed { "failed" } else { "ok" });
        println!("{last}");
    }
    if !failed {
        return Ok(());
    }
    let reason = view.last_error.as_deref().unwrap_or("no error is recorded");
    let mut text = format!("node {node} ended in {:?}", view.state);
    if let Some(target) = target.filter(|target| *target != view.state) {
        text.push_str(&format!(" on its way to {target:?}"));
    }
    Err(Failure::new(Kind::Failed, format!("{text}: {reason}")))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::Value;
    use serde_json::json;

    use super::View;
    use super::follow;
    use crate::client::tests::Double;
    use crate::exit::Kind;

    const LONG: Duration = Duration::from_secs(60);

    fn node(state: &str, target: Option<&str>, more: Value) -> (u16, Value) {
        let mut node = json!({"provision_state": state, "target_provision_state": target,
            "power_state": "power on", "last_error": null, "deploy_step": {}, "clean_step": {},
            "service_step": {}, "driver_internal_info": {}});
        for (key, value) in more.as_object().unwrap() {
            node[key] = value.clone();
        }
        (200, node)
    }

    #[test]
    fn one_line_tells_state_step_and_progress() {
        let (_, working) = node(
            "wait call-back",
            Some("active"),
            json!({"deploy_step": {"interface": "deploy", "step": "write_image"},
                "driver_internal_info": {"wrought_progress": {"stage": "write", "bytes_in": 1,
                    "bytes_total": 2, "bytes_out": 1, "rate": 312_340_000, "percent": 50}}}),
        );
        let view = View::of(&working);
        let line = "wait call-back -> active  deploy.write_image  write 50 % 312.3 MB/s";
        assert_eq!(view.to_string(), line);
        let (_, waiting) = node(
            "cleaning",
            Some("available"),
            json!({"driver_internal_info": {"queue_position": 7}}),
        );
        let line = "cleaning -> available  place 7 in the queue";
        assert_eq!(View::of(&waiting).to_string(), line);
    }

    #[tokio::test]
    async fn follows_to_the_end() {
        let answers = [
            node("deploying", Some("active"), json!({})),
            (503, json!("The server starts.")),
            node("active", None, json!({})),
        ];
        let (double, client) = Double::start(&answers).await;
        follow(&client, "n", LONG, false).await.unwrap();
        assert_eq!(double.asked().len(), 3);
    }

    #[tokio::test]
    async fn failed_states_and_missed_targets_fail() {
        let error = json!({"last_error": "no disk"});
        let answers = [node("deploy failed", Some("active"), error.clone())];
        let (_double, client) = Double::start(&answers).await;
        let failure = follow(&client, "n", LONG, true).await.unwrap_err();
        assert_eq!(failure.kind, Kind::Failed);
        let expected = "node n ended in \"deploy failed\" on its way to \"active\": no disk";
        assert_eq!(failure.to_string(), expected);

        let answers = [
            node("verifying", Some("manageable"), json!({})),
            node("enroll", None, error),
        ];
        let (_double, client) = Double::start(&answers).await;
        let failure = follow(&client, "n", LONG, false).await.unwrap_err();
        assert!(
            failure
                .to_string()
                .ends_with("on its way to \"manageable\": no disk"),
            "{failure}"
        );
    }

    #[tokio::test]
    async fn waiting_has_an_end() {
        let (_double, client) = Double::start(&[node("cleaning", None, json!({}))]).await;
        let failure = follow(&client, "n", Duration::ZERO, false)
            .await
            .unwrap_err();
        assert_eq!(failure.kind, Kind::TimedOut);
    }
}

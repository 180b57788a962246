//! Following a node through an operation.

use std::time::Duration;
use std::time::Instant;

use anyhow::Result;
use anyhow::bail;
use serde_json::Value;
use serde_json::json;

use crate::account::Account;
use crate::api::Api;
use crate::serial::SerialLog;
use crate::serial::tail;

/// A quiet spell after which the console's last line is shown.
const QUIET: Duration = Duration::from_secs(10);

/// One look at a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// `provision_state`.
    pub state: String,
    /// Running step as `interface.step`, or empty.
    pub step: String,
    /// Percent of the step, when known.
    pub percent: Option<u64>,
    /// Bytes per second.
    pub rate: u64,
}

impl Look {
    /// What a node's JSON says.
    pub fn of(node: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let step = ["deploy_step", "clean_step"].iter().find_map(|kind| {
            let step = &node[*kind];
            let name = step["step"].as_str()?;
            Some(format!(
                "{}.{name}",
                step["interface"].as_str().unwrap_or("?")
            ))
        });
        let progress = &node["driver_internal_info"]["wrought_progress"];
        Self {
            state: text(&node["provision_state"]),
            step: step.unwrap_or_default(),
            percent: progress["percent"].as_u64(),
            rate: progress["rate"].as_u64().unwrap_or_default(),
        }
    }

    /// Whether an operation ended badly here.
    pub fn failed(&self) -> bool {
        self.state.ends_with("failed") || self.state == "error"
    }

    fn line(&self) -> String {
        let mut line = self.state.clone();
        if !self.step.is_empty() {
            line = format!("{line:<15} {}", self.step);
        }
        if let Some(percent) = self.percent {
            line = format!("{line}  {percent}%");
        }
        if self.rate > 0 {
            #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
            let rate = self.rate as f64 / 1e6;
            line = format!("{line}  {rate:.1} MB/s");
        }
        line
    }

    fn object(&self) -> Value {
        json!({
            "event": "node", "state": self.state, "step": self.step,
            "percent": self.percent, "rate": self.rate,
        })
    }
}

/// When what was seen first.
#[derive(Debug, Default)]
pub struct Story(Vec<(Instant, Look)>);

impl Story {
    /// When a look that `matches` was first taken.
    pub fn first(&self, mut matches: impl FnMut(&Look) -> bool) -> Option<Instant> {
        self.0
            .iter()
            .find(|(_, look)| matches(look))
            .map(|(at, _)| *at)
    }

    /// When the last look was taken.
    pub fn end(&self) -> Option<Instant> {
        self.0.last().map(|(at, _)| *at)
    }

    /// The states in their order.
    pub fn states(&self) -> Vec<&str> {
        let mut states: Vec<&str> = self.0.iter().map(|(_, look)| look.state.as_str()).collect();
        states.dedup();
        states
    }
}

/// A node that is followed.
#[derive(Debug)]
pub struct Watch<'a> {
    /// The API.
    pub api: &'a Api,
    /// The node.
    pub node: &'a str,
    /// Who is told.
    pub account: &'a Account,
    /// Its console, quoted when nothing else happens.
    pub console: Option<SerialLog>,
}

impl Watch<'_> {
    /// Follows the node until it is in `goal`. A failed state on the way is
    /// an error with the node's `last_error`.
    pub async fn until(&self, goal: &str, limit: Duration) -> Result<Story> {
        let story = self
            .follow(limit, |look| look.state == goal || look.failed())
            .await?;
        match story.0.last() {
            Some((_, look)) if look.state == goal => Ok(story),
            _ => {
                let node = self.api.node(self.node).await?;
                bail!(
                    "the node is {:?} instead of {goal:?}: {}",
                    node["provision_state"].as_str().unwrap_or_default(),
                    node["last_error"].as_str().unwrap_or("no last_error")
                )
            }
        }
    }

    /// Follows the node until `done` says so.
    pub async fn follow(&self, limit: Duration, done: impl Fn(&Look) -> bool) -> Result<Story> {
        let deadline = Instant::now() + limit;
        let mut story = Story::default();
        let mut told: Option<(Instant, Look)> = None;
        let mut quoted = String::new();
        loop {
            let now = Instant::now();
            let look = Look::of(&self.api.node(self.node).await?);
            match &told {
                Some((at, last)) if !worth_telling(last, &look, now - *at) => {
                    if now - *at > QUIET {
                        self.quote(&mut quoted);
                        told = Some((now, look.clone()));
                    }
                }
                _ => {
                    self.account.tell(&look.line(), look.object());
                    told = Some((now, look.clone()));
                }
            }
            let finished = done(&look);
            story.0.push((now, look));
            if finished {
                return Ok(story);
            }
            if now > deadline {
                bail!(
                    "the node is still {:?} after {} s",
                    story.states().last().copied().unwrap_or_default(),
                    limit.as_secs()
                );
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Shows what the console said last, if it is new.
    fn quote(&self, last: &mut String) {
        let Some(console) = &self.console else { return };
        let text = console.text();
        let Some(line) = tail(&text, 1).first().map(|line| line.trim().to_owned()) else {
            return;
        };
        if line != *last {
            let short: String = line.chars().take(100).collect();
            self.account.tell(
                &format!("                console: {short}"),
                json!({"event": "console", "line": short}),
            );
            *last = line;
        }
    }
}

/// A new state or step at once; progress when it is a tenth further or some
/// seconds have passed.
fn worth_telling(last: &Look, now: &Look, since: Duration) -> bool {
    if (&last.state, &last.step) != (&now.state, &now.step) {
        return true;
    }
    match (last.percent, now.percent) {
        (last, Some(now)) => {
            let last = last.unwrap_or_default();
            now >= last + 10 || (now > last && since > Duration::from_secs(3))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::Look;
    use serde_json::json;

    #[test]
    fn a_look_tells_state_step_percent_and_rate() {
        let node = json!({
            "provision_state": "wait call-back",
            "deploy_step": {"interface": "deploy", "step": "write_image", "priority": 80},
            "clean_step": {},
            "driver_internal_info": {"wrought_progress": {"percent": 42, "rate": 120_400_000}},
        });
        let look = Look::of(&node);
        assert_eq!(
            look.line(),
            "wait call-back  deploy.write_image  42%  120.4 MB/s"
        );
        assert!(!look.failed());
        assert!(Look::of(&json!({"provision_state": "deploy failed"})).failed());
    }
}

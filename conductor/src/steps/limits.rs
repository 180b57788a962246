//! How long one try of a step may take.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;
use wrought_store::node::Node;
use wrought_wire::step::Step;

use crate::config;
use crate::error::Error;
use crate::internal;
use crate::steps::Kind;
use crate::steps::Reserved;
use crate::steps::name;

/// A limit, and who set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit {
    time: Duration,
    set_by: &'static str,
}

impl Limit {
    /// That of a step: the operator's for this step, the step's own, or the
    /// operator's for all of them.
    pub(crate) fn of(config: &config::Conductor, step: &Step) -> Option<Self> {
        let own = config.step_timeouts.get(&name(step)).copied();
        let (seconds, set_by) = match (own, Reserved::of(step), step.timeout) {
            (Some(own), ..) => (own, "setting step_timeouts"),
            // These wait for people and machines on purpose.
            (None, Some(Reserved::Hold | Reserved::Wait), _) => return None,
            (None, _, Some(declared)) => (declared, "the step's own timeout"),
            (None, _, None) => (config.step_timeout, "setting step_timeout"),
        };
        (seconds > 0).then(|| Self {
            time: Duration::from_secs(seconds),
            set_by,
        })
    }

    /// Runs a try no longer than this.
    pub(crate) async fn hold<T>(
        limit: Option<Self>,
        (node, kind, step): (Uuid, &str, &Step),
        run: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let Some(limit) = limit else {
            return run.await;
        };
        match tokio::time::timeout(limit.time, run).await {
            Ok(outcome) => outcome,
            Err(_) => Err(limit.exceeded(node, kind, step)),
        }
    }

    fn exceeded(&self, node: Uuid, kind: &str, step: &Step) -> Error {
        Error::Step(format!(
            "{kind} step {} on node {node} did not end within {} s ({})",
            name(step),
            self.time.as_secs(),
            self.set_by
        ))
    }
}

/// Fails when the step that a wait state waits for has used up its time.
pub(crate) fn check(config: &config::Conductor, node: &Node, kind: Kind) -> Result<(), Error> {
    let began: Option<Timestamp> = internal::read(node, internal::STEP_BEGAN);
    let step = Value::Object(kind.current(node).clone());
    let (Some(began), Ok(step)) = (began, serde_json::from_value::<Step>(step)) else {
        return Ok(());
    };
    let Some(limit) = Limit::of(config, &step) else {
        return Ok(());
    };
    let spent = Duration::try_from(Timestamp::now().duration_since(began)).unwrap_or_default();
    if spent > limit.time {
        return Err(limit.exceeded(node.uuid, kind.as_str(), &step));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::Limit;
    use crate::config::Conductor;
    use crate::steps::list::lenient;

    #[test]
    fn who_limits_a_step() {
        let mut config = Conductor::default();
        let plain = lenient(&json!({"interface": "raid", "step": "build"})).unwrap();
        let own = lenient(&json!({"interface": "raid", "step": "grow", "timeout": 5})).unwrap();
        let hold = lenient(&json!({"interface": "raid", "step": "hold"})).unwrap();
        let seconds = |config: &Conductor, step| {
            Limit::of(config, step).map(|limit| (limit.time.as_secs(), limit.set_by))
        };
        assert_eq!(seconds(&config, &plain), None, "none by default");
        assert_eq!(seconds(&config, &own), Some((5, "the step's own timeout")));
        config.step_timeout = 60;
        assert_eq!(seconds(&config, &plain), Some((60, "setting step_timeout")));
        assert_eq!(seconds(&config, &own), Some((5, "the step's own timeout")));
        assert_eq!(seconds(&config, &hold), None);
        config.step_timeouts.insert("raid.grow".to_owned(), 7);
        config.step_timeouts.insert("raid.build".to_owned(), 0);
        assert_eq!(seconds(&config, &own), Some((7, "setting step_timeouts")));
        assert_eq!(seconds(&config, &plain), None, "0: none for this one");
    }

    #[tokio::test]
    async fn what_takes_too_long_is_named() {
        let step = lenient(&json!({"interface": "raid", "step": "build", "timeout": 1})).unwrap();
        let limit = Some(Limit {
            time: Duration::from_millis(10),
            set_by: "the step's own timeout",
        });
        let forever = std::future::pending::<Result<(), crate::Error>>();
        let node = uuid::Uuid::nil();
        let ended = Limit::hold(limit, (node, "clean", &step), forever).await;
        let text = ended.unwrap_err().to_string();
        assert!(text.starts_with("clean step raid.build on node"), "{text}");
        assert!(text.ends_with("(the step's own timeout)"), "{text}");
    }
}

//! The rule engine: pure. It works on copies of what is known about a machine
//! and tells what became of them; whoever calls it stores the copies, or drops
//! them when a rule failed.
//!
//! What the ramdisk sent is hostile: texts, loops and results are bounded by
//! one [`Budget`], regular expressions take linear time, secrets of the node
//! come out of format strings masked, and nothing is sent anywhere from here.

mod actions;
mod conditions;
mod format;
mod paths;

#[cfg(test)]
mod properties;

use serde_json::Map;
use serde_json::Value;
use wrought_store::InspectionRule;
use wrought_wire::inspection::Action;
use wrought_wire::inspection::Condition;

use self::format::Context;

pub(crate) use self::actions::NODE_FIELDS;

/// Evaluations of conditions and actions in one inspection.
const MOST_STEPS: usize = 50_000;
/// Bytes of texts and values that the rules of one inspection may make.
const MOST_BYTES: usize = 16 << 20;

/// Copies of what is known about a machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Subject {
    /// The node by the API's names, with its secrets; interfaces as
    /// `<kind>_interface`.
    pub(crate) node: Map<String, Value>,
    /// Its ports by the API's names.
    pub(crate) ports: Vec<Map<String, Value>>,
    /// What the ramdisk found.
    pub(crate) inventory: Map<String, Value>,
    /// Everything else.
    pub(crate) plugin_data: Map<String, Value>,
}

/// How loud a line of the log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Debug,
    Info,
    Warning,
    Error,
}

/// An HTTP GET that a rule asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
    /// Seconds.
    pub(crate) timeout: f64,
    pub(crate) retries: u32,
    /// Seconds before the first retry; each further one waits twice as long.
    pub(crate) backoff: f64,
}

/// What else the rules want.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Report {
    /// Lines for the log.
    pub(crate) lines: Vec<(Level, String)>,
    /// Calls to be made.
    pub(crate) calls: Vec<Call>,
    /// Rules whose conditions were met.
    pub(crate) met: usize,
}

/// Why the rules ended the inspection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// A rule says so.
    #[error("{0}")]
    Asked(String),
    /// A rule cannot be carried out.
    #[error("inspection rule {rule}: {problem}")]
    Rule {
        /// UUID and description.
        rule: String,
        /// What is wrong.
        problem: String,
    },
}

/// Why one condition or action ended the inspection.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stop {
    Asked(String),
    Problem(String),
}

impl Stop {
    fn problem(text: impl Into<String>) -> Self {
        Self::Problem(text.into())
    }
}

/// What may still be spent.
#[derive(Debug)]
struct Budget {
    steps: usize,
    bytes: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            steps: MOST_STEPS,
            bytes: MOST_BYTES,
        }
    }
}

impl Budget {
    fn step(&mut self) -> Result<(), Stop> {
        let none = || {
            Stop::problem(format!(
                "the rules take more than {MOST_STEPS} steps together"
            ))
        };
        self.steps = self.steps.checked_sub(1).ok_or_else(none)?;
        Ok(())
    }

    fn spend(&mut self, bytes: usize) -> Result<(), Stop> {
        let none = || {
            Stop::problem(format!(
                "the rules make more than {MOST_BYTES} bytes together"
            ))
        };
        self.bytes = self.bytes.checked_sub(bytes).ok_or_else(none)?;
        Ok(())
    }
}

/// A rule made ready.
struct Ready {
    name: String,
    sensitive: bool,
    conditions: Vec<conditions::Test>,
    actions: Vec<Action>,
}

impl Ready {
    fn of(rule: &InspectionRule) -> Result<Self, Failure> {
        let name = match &rule.description {
            Some(text) => format!("{} ({text})", rule.uuid),
            None => rule.uuid.to_string(),
        };
        let problem = |problem| Failure::Rule {
            rule: name.clone(),
            problem,
        };
        let conditions = rule.conditions.iter().map(|value| {
            let condition = Condition::read(value).map_err(problem)?;
            conditions::Test::new(condition).map_err(problem)
        });
        let conditions = conditions.collect::<Result<_, _>>()?;
        let actions = rule
            .actions
            .iter()
            .map(|value| Action::read(value).map_err(problem));
        let actions = actions.collect::<Result<_, _>>()?;
        Ok(Self {
            sensitive: rule.sensitive,
            conditions,
            actions,
            name,
        })
    }

    /// What is told of a failure: nothing that the rule itself says, where it
    /// is sensitive.
    fn failure(&self, stop: Stop) -> Failure {
        match stop {
            Stop::Asked(_) if self.sensitive => Failure::Asked(format!(
                "a sensitive inspection rule, {}, says so",
                self.name
            )),
            Stop::Asked(text) => Failure::Asked(text),
            Stop::Problem(_) if self.sensitive => Failure::Rule {
                rule: self.name.clone(),
                problem: "it cannot be carried out; the rule is sensitive, so no more is told"
                    .to_owned(),
            },
            Stop::Problem(problem) => Failure::Rule {
                rule: self.name.clone(),
                problem,
            },
        }
    }
}

/// Whether the engine can carry out a rule, as far as that can be told before
/// an inspection.
pub(crate) fn check(rule: &InspectionRule) -> Result<(), String> {
    match Ready::of(rule) {
        Ok(_) => Ok(()),
        Err(Failure::Rule { problem, .. } | Failure::Asked(problem)) => Err(problem),
    }
}

/// Applies rules in their order. `allowed` are the beginnings of URLs that
/// `api-call` may name. After a failure `subject` is of no use.
pub(crate) fn apply(
    rules: &[InspectionRule],
    subject: &mut Subject,
    allowed: &[String],
) -> Result<Report, Failure> {
    let mut budget = Budget::default();
    let mut report = Report::default();
    for rule in rules {
        let ready = Ready::of(rule)?;
        let stopped = |stop| ready.failure(stop);
        if !is_met(&ready, subject, &mut budget).map_err(stopped)? {
            continue;
        }
        report.met += 1;
        let quiet = report.lines.len();
        for action in &ready.actions {
            let mut run = actions::Run {
                subject: &mut *subject,
                report: &mut report,
                budget: &mut budget,
                allowed,
            };
            run.action(action).map_err(stopped)?;
        }
        if ready.sensitive {
            report.lines.truncate(quiet);
        }
    }
    Ok(report)
}

fn is_met(ready: &Ready, subject: &Subject, budget: &mut Budget) -> Result<bool, Stop> {
    for test in &ready.conditions {
        let context = Context::of(subject);
        if !test.holds(&context, budget)? {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests;

//! What a run of the kill matrix showed, in figures.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::time::Duration;

use super::flows::Flow;
use super::journal::Row;
use super::tour::Outcome;

/// All kills of a run.
#[derive(Debug, Default)]
pub struct Report {
    references: BTreeMap<&'static str, Vec<Row>>,
    outcomes: Vec<Outcome>,
}

impl Report {
    /// A report on kills in flows whose rows without a kill are these.
    pub fn new(references: &[(Flow, Vec<Row>)]) -> Self {
        let references = references
            .iter()
            .map(|(flow, rows)| (flow.as_str(), rows.clone()));
        Self {
            references: references.collect(),
            outcomes: Vec::new(),
        }
    }

    /// Adds a kill.
    pub fn add(&mut self, outcome: Outcome) {
        self.outcomes.push(outcome);
    }

    /// The table, and the steps whose repetition was refused.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "{:<9}{:>11}{:>6}{:>7}{:>9}{:>8}{:>8}{:>10}{:>10}",
            "flow",
            "boundaries",
            "hit",
            "kills",
            "reached",
            "failed",
            "faults",
            "median s",
            "worst s"
        )];
        for (flow, reference) in &self.references {
            let of = |outcome: &&Outcome| outcome.case.flow.as_str() == *flow;
            let kills: Vec<&Outcome> = self.outcomes.iter().filter(of).collect();
            let mut times: Vec<Duration> = kills.iter().map(|kill| kill.took).collect();
            times.sort_unstable();
            let seconds = |at: usize| times.get(at).map_or(0.0, Duration::as_secs_f64);
            let good = |kill: &&&Outcome| kill.failed.is_none() && kill.faults.is_empty();
            lines.push(format!(
                "{flow:<9}{:>11}{:>6}{:>7}{:>9}{:>8}{:>8}{:>10.1}{:>10.1}",
                reference.len() + 1,
                self.hit(flow).len(),
                kills.len(),
                kills.iter().filter(good).count(),
                kills.iter().filter(|kill| kill.failed.is_some()).count(),
                kills.iter().filter(|kill| !kill.faults.is_empty()).count(),
                seconds(times.len() / 2),
                seconds(times.len().saturating_sub(1)),
            ));
        }
        let refused = self.outcomes.iter().filter_map(|outcome| {
            let reason = outcome.failed.as_ref()?;
            Some(format!("{} -> {reason}", outcome.boundary))
        });
        let refused: BTreeSet<String> = refused.collect();
        lines.push(format!("ended in a failed state: {} kinds", refused.len()));
        lines.extend(refused.into_iter().map(|line| format!("  {line}")));
        for outcome in &self.outcomes {
            if let Some(story) = &outcome.slow {
                let seconds = outcome.took.as_secs_f64();
                lines.push(format!("{seconds:.1} s: {}{story}", at(outcome)));
            }
        }
        lines
    }

    /// Counts of rows that a conductor died at.
    fn hit(&self, flow: &str) -> BTreeSet<usize> {
        let rows = self.references.get(flow).map_or(0, Vec::len);
        let of = self
            .outcomes
            .iter()
            .filter(|o| o.case.flow.as_str() == flow);
        of.filter_map(|outcome| outcome.hit)
            .filter(|hit| *hit <= rows)
            .collect()
    }

    /// Counts of rows of a flow that no kill fell on.
    pub fn missed_of(&self, flow: &str) -> Vec<usize> {
        let rows = self.references.get(flow).map_or(0, Vec::len);
        let hit = self.hit(flow);
        (0..=rows).filter(|count| !hit.contains(count)).collect()
    }

    /// Boundaries of the references that no kill fell on.
    pub fn missed(&self) -> Vec<String> {
        let mut missed = Vec::new();
        for (flow, rows) in &self.references {
            for count in self.missed_of(flow) {
                let row = count.checked_sub(1).and_then(|at| rows.get(at));
                let name = row.map_or("accepted".to_owned(), Row::boundary);
                missed.push(format!("{flow} {count} ({name})"));
            }
        }
        missed
    }

    /// What must not have been, each with the kill that it followed.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for outcome in &self.outcomes {
            let at = at(outcome);
            faults.extend(outcome.faults.iter().map(|fault| format!("{at}: {fault}")));
            if let Some(reason) = &outcome.failed
                && !names_what_is_missing(reason)
            {
                faults.push(format!("{at}: {reason}"));
            }
        }
        faults
    }
}

/// Where a kill fell.
fn at(outcome: &Outcome) -> String {
    format!(
        "{} killed {:?} after {} rows ({})",
        outcome.case.flow.as_str(),
        outcome.case.delay,
        outcome.case.rows,
        outcome.boundary
    )
}

/// Whether a failure is one of those that are allowed: a step that must not run
/// twice, of which nobody knows whether it was done.
fn names_what_is_missing(reason: &str) -> bool {
    reason.contains("is not known") && (reason.contains("twice") || reason.contains("repeated"))
}

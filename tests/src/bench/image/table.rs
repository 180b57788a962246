//! The table for SPECIFICATION.md, in Markdown.

use std::fmt::Write;

use super::judge;
use super::judge::Rounds;
use super::judge::Verdict;
use super::plan::Row;
use super::plan::name_of;
use super::runner::Runner;
use crate::bench::process::Usage;

/// The head of the table.
pub(super) const HEAD: &str = "\
| image, to, hash | ours: s, CPU s, MiB | curl to dd | download, check, convert | real agent \
| convert alone | hash alone (tool) | unpack alone | targets |
|---|---|---|---|---|---|---|---|---|";

/// One row of it.
pub(super) fn line(row: &Row, rounds: &Rounds, verdicts: &[Verdict]) -> String {
    let time = |run: &[Usage]| {
        format!(
            "{:.2}, {:.2}",
            judge::middle(run, |run| run.wall),
            judge::middle(run, |run| run.cpu)
        )
    };
    // A peer: time, CPU time, and how much of its time ours needs.
    let cell = |runner: Runner| {
        rounds.get(&runner).map_or_else(
            || "–".to_owned(),
            |runs| {
                let ratio = judge::ratio(rounds, |of| of(Runner::Ours) / of(runner));
                format!("{}, × {ratio:.2}", time(runs))
            },
        )
    };
    let ours = rounds.get(&Runner::Ours).map_or_else(String::new, |runs| {
        let memory = judge::mib(judge::memory(runs));
        format!("{}, {memory:.1}", time(runs))
    });
    let tool = rounds
        .get(&Runner::HashTool)
        .map_or_else(String::new, |runs| {
            format!(" ({:.2})", judge::middle(runs, |run| run.wall))
        });
    let mut text = format!(
        "| {}, {}, {} | {ours} | {} | {} | {} | {} | {}{tool} | {} |",
        name_of(&row.kind),
        name_of(&row.place),
        row.hash.name(),
        cell(Runner::Dd),
        cell(Runner::Download),
        cell(Runner::RealAgent),
        cell(Runner::Convert),
        cell(Runner::Hash),
        cell(Runner::Unpack),
    );
    let mut first = true;
    for verdict in verdicts {
        let word = if verdict.met { "met" } else { "**missed**" };
        let separator = if first { " " } else { "; " };
        first = false;
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "{separator}{}: {:.2}, {word}",
            verdict.target, verdict.value
        );
    }
    text.push_str(" |");
    text
}

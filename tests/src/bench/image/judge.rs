//! Figures of a row: medians, ratios taken round by round, and what was
//! promised about them.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::json;

use super::plan::Hash;
use super::plan::Kind;
use super::plan::Row;
use super::runner::Runner;
use crate::bench::process::Usage;
use crate::bench::process::median;

/// Most memory that ours may ever have resident.
const MOST_MEMORY: u64 = 64 << 20;

/// What everybody used, one list entry a round.
pub(super) type Rounds = BTreeMap<Runner, Vec<Usage>>;

/// A promise and what came of it.
#[derive(Debug)]
pub(super) struct Verdict {
    /// What is compared, and how it should come out.
    pub(super) target: &'static str,
    /// How it came out.
    pub(super) value: f64,
    pub(super) met: bool,
}

/// The middle of one figure.
pub(super) fn middle(runs: &[Usage], field: fn(&Usage) -> f64) -> f64 {
    median(&mut runs.iter().map(field).collect::<Vec<_>>())
}

/// The largest of everybody's resident sets.
pub(super) fn memory(runs: &[Usage]) -> u64 {
    runs.iter().map(|run| run.peak_rss).max().unwrap_or(0)
}

/// The middle of what `ratio` makes of each round's wall clock times.
pub(super) fn ratio(rounds: &Rounds, ratio: impl Fn(&dyn Fn(Runner) -> f64) -> f64) -> f64 {
    let count = rounds.values().map(Vec::len).min().unwrap_or(0);
    let mut each: Vec<f64> = (0..count)
        .map(|round| {
            let time = |runner: Runner| rounds.get(&runner).map_or(f64::NAN, |all| all[round].wall);
            ratio(&time)
        })
        .collect();
    median(&mut each)
}

/// Judges a row.
pub(super) fn verdicts(row: &Row, rounds: &Rounds) -> Vec<Verdict> {
    use Runner::Convert;
    use Runner::Dd;
    use Runner::Download;
    use Runner::Hash as HashAlone;
    use Runner::Ours;
    use Runner::Unpack;
    let mut verdicts = Vec::new();
    let mut least = |target, bound: f64, value: f64| {
        verdicts.push(Verdict {
            target,
            value,
            met: value >= bound,
        });
    };
    if row.hash == Hash::Sha256 && row.kind == Kind::Raw {
        let value = ratio(rounds, |of| of(Dd).max(of(HashAlone)) / of(Ours));
        least("rate ≥ 0.9 × the slower of dd and hash", 0.9, value);
    }
    let mut most = |target, bound: f64, value: f64| {
        verdicts.push(Verdict {
            target,
            value,
            met: value <= bound,
        });
    };
    if row.hash == Hash::Sha256 && row.kind.is_qcow2() {
        let value = ratio(rounds, |of| of(Ours) / of(Download));
        most("time ≤ 0.5 × download, check, convert", 0.5, value);
        let value = ratio(rounds, |of| of(Ours) / of(Convert).max(of(HashAlone)));
        most("time ≤ 1.0 × the slower of convert and hash", 1.0, value);
    }
    if row.hash == Hash::Sha256 && row.kind == Kind::RawGz {
        let value = ratio(rounds, |of| of(Ours) / of(Unpack));
        most("time ≤ 1.1 × zlib-rs alone", 1.1, value);
    }
    let peak = rounds.get(&Ours).map_or(0, |runs| memory(runs));
    verdicts.push(Verdict {
        target: "memory ≤ 64 MiB",
        value: mib(peak),
        met: peak <= MOST_MEMORY,
    });
    verdicts
}

/// Bytes as MiB.
pub(super) fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// A row as JSON.
pub(super) fn to_json(row: &Row, rounds: &Rounds, verdicts: &[Verdict]) -> Value {
    let figures: serde_json::Map<String, Value> = rounds
        .iter()
        .map(|(runner, runs)| {
            let all: Vec<f64> = runs.iter().map(|run| run.wall).collect();
            let figure = json!({
                "seconds": middle(runs, |run| run.wall),
                "cpu_seconds": middle(runs, |run| run.cpu),
                "peak_rss_bytes": memory(runs),
                "all_seconds": all,
                "ours_to_this": ratio(rounds, |of| of(Runner::Ours) / of(*runner)),
            });
            (runner.name().to_owned(), figure)
        })
        .collect();
    let targets: Vec<Value> = verdicts
        .iter()
        .map(|verdict| json!({ "target": verdict.target, "value": verdict.value, "met": verdict.met }))
        .collect();
    json!({
        "image": super::plan::name_of(&row.kind),
        "to": super::plan::name_of(&row.place),
        "hash": row.hash.name(),
        "figures": figures,
        "targets": targets,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::image::plan::Place;

    fn runs(walls: [f64; 3], peak_rss: u64) -> Vec<Usage> {
        let usage = |wall| Usage {
            wall,
            cpu: wall,
            peak_rss,
        };
        walls.map(usage).to_vec()
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        // The second round met a busy machine: both sides of it did.
        let rounds = Rounds::from([
            (Runner::Ours, runs([1.0, 10.0, 1.0], 65 << 20)),
            (Runner::Dd, runs([2.0, 20.0, 2.0], 0)),
            (Runner::Hash, runs([0.9, 9.0, 0.9], 0)),
        ]);
        let row = Row {
            kind: Kind::Raw,
            place: Place::File,
            hash: Hash::Sha256,
        };
        let verdicts = verdicts(&row, &rounds);
        assert!((verdicts[0].value - 2.0).abs() < 1e-9 && verdicts[0].met);
        assert!(!verdicts[1].met);
        let json = to_json(&row, &rounds, &verdicts);
        assert_eq!(json["figures"]["curl_dd"]["ours_to_this"], 0.5);
    }
}

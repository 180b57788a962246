//! Questions at every microversion (`tests/peer/versions`): reads are asked
//! at all of them, writes where something changes and at the versions around.
//! What a real Ironic answered lies in `answers.json`: for each question the
//! versions at which its answer changes, with what came and what went.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;

use super::client::Answer;
use super::differences::Found;
use super::folder;
use super::script;
use super::script::Ask;
use super::script::Line;
use super::script::Words;
use super::story::play;
use super::subject::Kind;
use super::subject::Subject;
use crate::paths::Paths;

/// The latest minor version that is asked for.
const LATEST: u16 = 115;
/// Versions at which every write is asked.
const ANCHORS: [u16; 8] = [1, 20, 40, 60, 80, 95, 105, LATEST];
/// Versions at which a replay asks everything, besides those at which
/// something changes.
const LOOKS: [u16; 6] = [1, 8, 30, 60, 90, LATEST];
/// Objects whose keys are a caller's, a driver's or an installation's own.
const OPAQUE: [&str; 17] = [
    "clean_step",
    "config",
    "deploy_step",
    "driver_info",
    "driver_internal_info",
    "extra",
    "health",
    "instance_info",
    "internal_info",
    "inventory",
    "local_link_connection",
    "network_data",
    "plugin_data",
    "properties",
    "raid_config",
    "service_step",
    "target_raid_config",
];

/// The status and the places of a body with their types.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Shape {
    status: u16,
    lines: BTreeSet<String>,
}

/// Versions with the same answer.
#[derive(Debug, Serialize, Deserialize)]
struct Run {
    /// The first of them.
    from: u16,
    status: u16,
    /// What was not there at the version before.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    plus: BTreeSet<String>,
    /// What is no longer there.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    minus: BTreeSet<String>,
}

/// A question's answers.
#[derive(Debug, Serialize, Deserialize)]
struct Answers {
    /// The versions that were asked for; none: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    asked: Vec<u16>,
    runs: Vec<Run>,
}

/// Answers by the names of questions.
type Recording = BTreeMap<String, Answers>;

/// A server with everything that questions are about.
struct Stage {
    subject: Subject,
    words: Words,
    reads: Vec<(String, Ask)>,
    writes: Vec<(String, Ask)>,
}

impl Stage {
    async fn new(paths: &Paths, kind: Kind) -> Result<(Self, Vec<Found>)> {
        let folder = folder(paths).join("versions");
        let subject = Subject::start(paths, kind, false).await?;
        let lines = script::read(&folder.join("setup.txt"))?;
        let played = play(&subject, &lines, Words::default()).await?;
        let mut found = Vec::new();
        for missed in &played.missed {
            found.push(Found::new(
                "versions/setup",
                format!("did not come: {missed}"),
            ));
        }
        for (name, outcome) in &played.outcomes {
            if outcome.status >= 300 {
                let place = format!("versions/setup/{name}");
                found.push(Found::new(place, format!("status {}", outcome.status)));
            }
        }
        let stage = Self {
            subject,
            words: played.words,
            reads: questions(&folder.join("reads.txt"))?,
            writes: questions(&folder.join("writes.txt"))?,
        };
        Ok((stage, found))
    }

    /// Asks one question at one version; what it made is deleted again.
    async fn ask(&self, ask: &Ask, version: u16) -> Result<Shape> {
        let client = self.subject.client();
        let mut ask = self.words.ask(ask);
        ask.version = Some(format!("1.{version}"));
        let answer = client.ask(&ask).await?;
        let mut shape = Shape::of(&answer);
        if answer.status == 201
            && let Some(uuid) = answer.json()["uuid"].as_str()
        {
            let status = self.undo(&format!("{}/{uuid}", ask.path)).await?;
            if status != 204 {
                shape.lines.insert(format!("its deletion gives {status}"));
            }
        }
        Ok(shape)
    }

    /// Deletes, again for a while where the server is not ready to; the last
    /// status.
    async fn undo(&self, path: &str) -> Result<u16> {
        let undo = Ask {
            method: "DELETE".to_owned(),
            ..Ask::get(path)
        };
        let mut status = 0;
        for _ in 0..20 {
            status = self.subject.client().ask(&undo).await?.status;
            if status < 400 || status == 404 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(status)
    }
}

/// Asks a real Ironic everything whose name begins with `only` and writes down
/// its answers.
pub async fn record(paths: &Paths, only: &str) -> Result<()> {
    let path = folder(paths).join("versions/answers.json");
    let (stage, failed) = Stage::new(paths, Kind::Ironic).await?;
    ensure!(failed.is_empty(), "{failed:?}");
    let mut recording = match only {
        "" => Recording::new(),
        _ => read(&path)?,
    };
    for (name, ask) in stage.reads.iter().filter(|read| read.0.starts_with(only)) {
        let mut shapes = BTreeMap::new();
        for version in 1..=LATEST {
            shapes.insert(version, stage.ask(ask, version).await?);
        }
        recording.insert(name.clone(), answers(shapes, false));
    }
    for (name, ask) in stage
        .writes
        .iter()
        .filter(|write| write.0.starts_with(only))
    {
        let shapes = sample(&stage, ask).await?;
        recording.insert(name.clone(), answers(shapes, true));
    }
    stage.subject.stop().await;
    let mut text = String::from("{\n");
    for (number, (name, answers)) in recording.iter().enumerate() {
        let comma = if number == 0 { "" } else { ",\n" };
        let answers = serde_json::to_string(answers)?;
        text.push_str(&format!("{comma}{name:?}: {answers}"));
    }
    text.push_str("\n}\n");
    std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    println!("{}: {} questions", path.display(), recording.len());
    Ok(())
}

/// The answers at the anchors and on both sides of every change between them.
async fn sample(stage: &Stage, ask: &Ask) -> Result<BTreeMap<u16, Shape>> {
    let mut shapes = BTreeMap::new();
    for version in ANCHORS {
        shapes.insert(version, stage.ask(ask, version).await?);
    }
    let mut spans: Vec<(u16, u16)> = ANCHORS.windows(2).map(|pair| (pair[0], pair[1])).collect();
    while let Some((low, high)) = spans.pop() {
        if high - low < 2 || shapes.get(&low) == shapes.get(&high) {
            continue;
        }
        let middle = low.midpoint(high);
        shapes.insert(middle, stage.ask(ask, middle).await?);
        spans.extend([(low, middle), (middle, high)]);
    }
    Ok(shapes)
}

/// Shapes by version as runs of the same.
fn answers(shapes: BTreeMap<u16, Shape>, sampled: bool) -> Answers {
    let mut runs = Vec::new();
    let mut last: Option<Shape> = None;
    for (version, shape) in &shapes {
        if last.as_ref() != Some(shape) {
            let before = last.take().unwrap_or_default();
            runs.push(Run {
                from: *version,
                status: shape.status,
                plus: shape.lines.difference(&before.lines).cloned().collect(),
                minus: before.lines.difference(&shape.lines).cloned().collect(),
            });
            last = Some(shape.clone());
        }
    }
    let asked = match sampled {
        true => shapes.into_keys().collect(),
        false => Vec::new(),
    };
    Answers { asked, runs }
}

impl Answers {
    /// What was answered at a version that was asked for.
    fn at(&self, version: u16) -> Shape {
        let mut shape = Shape::default();
        for run in self.runs.iter().take_while(|run| run.from <= version) {
            shape.status = run.status;
            shape.lines.retain(|line| !run.minus.contains(line));
            shape.lines.extend(run.plus.iter().cloned());
        }
        shape
    }

    /// The versions at which a replay asks.
    fn versions(&self) -> BTreeSet<u16> {
        if !self.asked.is_empty() {
            return self.asked.iter().copied().collect();
        }
        let changes = self
            .runs
            .iter()
            .flat_map(|run| [run.from.max(2) - 1, run.from]);
        changes.chain(LOOKS).collect()
    }
}

fn read(path: &Path) -> Result<Recording> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("parsing {}", path.display()))
}

/// Asks again and gives what differs.
pub async fn replay(paths: &Paths, kind: Kind) -> Result<Vec<Found>> {
    let path = folder(paths).join("versions/answers.json");
    let recording = read(&path)?;
    let (stage, mut found) = Stage::new(paths, kind).await?;
    for (name, ask) in stage.reads.iter().chain(&stage.writes) {
        let answers = recording
            .get(name)
            .with_context(|| format!("{} has no {name}", path.display()))?;
        let mut lines: BTreeMap<String, Vec<u16>> = BTreeMap::new();
        for version in answers.versions() {
            let shape = stage.ask(ask, version).await?;
            for line in answers.at(version).differences(&shape) {
                lines.entry(line).or_default().push(version);
            }
        }
        for (line, versions) in lines {
            let (first, last) = (versions[0], versions[versions.len() - 1]);
            let text = format!("1.{first} to 1.{last}: {line}");
            found.push(Found::new(format!("versions/{name}"), text));
        }
    }
    stage.subject.stop().await;
    Ok(found)
}

impl Shape {
    fn of(answer: &Answer) -> Self {
        let mut lines = BTreeSet::new();
        if answer.status < 300 {
            walk(&answer.json(), "", &mut lines);
        }
        Self {
            status: answer.status,
            lines,
        }
    }

    fn differences(&self, found: &Self) -> Vec<String> {
        if self.status != found.status {
            let (found, wanted) = (found.status, self.status);
            return vec![format!("status {found} instead of {wanted}")];
        }
        let missing = self.lines.difference(&found.lines);
        let missing = missing.map(|line| format!("{line} is missing"));
        let more = found.lines.difference(&self.lines);
        missing
            .chain(more.map(|line| format!("{line} is too much")))
            .collect()
    }
}

/// A line for each place: its path and type; the items of a list are one.
fn walk(value: &Value, path: &str, lines: &mut BTreeSet<String>) {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    };
    match value {
        Value::Object(map) => {
            let key = path.rsplit('/').next().unwrap_or_default();
            if OPAQUE.contains(&key) || map.is_empty() {
                lines.insert(format!("{path} {kind}"));
            }
            for (key, value) in map.iter().filter(|_| !OPAQUE.contains(&key)) {
                walk(value, &format!("{path}/{key}"), lines);
            }
        }
        Value::Array(items) => {
            lines.insert(format!("{path} {kind}"));
            for item in items {
                walk(item, &format!("{path}/*"), lines);
            }
        }
        _ => {
            lines.insert(format!("{path} {kind}"));
        }
    }
}

fn questions(path: &Path) -> Result<Vec<(String, Ask)>> {
    let lines = script::read(path)?.into_iter();
    lines
        .map(|line| match line {
            Line::Ask(name, ask) => Ok((name, ask)),
            other => anyhow::bail!("{}: {other:?} is no question", path.display()),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::Shape;
    use super::answers;
    use super::walk;

    fn shape(status: u16, lines: &[&str]) -> Shape {
        Shape {
            status,
            lines: lines.iter().map(|line| (*line).to_owned()).collect(),
        }
    }

    #[test]
    fn runs_tell_the_same() {
        let shapes = BTreeMap::from([
            (1, shape(404, &[])),
            (2, shape(200, &["/a string"])),
            (3, shape(200, &["/a string"])),
            (4, shape(200, &["/a null", "/b list"])),
        ]);
        let answers = answers(shapes.clone(), false);
        assert_eq!(answers.runs.len(), 3);
        for (version, shape) in &shapes {
            assert_eq!(answers.at(*version), *shape);
        }
        assert!(
            answers
                .versions()
                .is_superset(&BTreeSet::from([1, 2, 3, 4]))
        );
    }

    #[test]
    fn places() {
        let mut lines = BTreeSet::new();
        let body = json!({"a": [{"b": 1}, {"b": null}], "extra": {"c": 1}, "d": {}});
        walk(&body, "", &mut lines);
        let expected = [
            "/a list",
            "/a/*/b null",
            "/a/*/b number",
            "/d object",
            "/extra object",
        ];
        assert!(lines.iter().eq(expected));
    }
}

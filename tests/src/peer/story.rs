//! The story: exchanges in order, by chapters (`tests/peer/story`), and the
//! doors of a server with accounts (`tests/peer/basic`). Beside each script
//! lies what a real Ironic answered, an exchange a line.

use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use serde_json::Value;

use super::compare::compare;
use super::compare::has;
use super::differences::Found;
use super::folder;
use super::normal::Outcome;
use super::normal::Plain;
use super::script;
use super::script::Ask;
use super::script::Line;
use super::script::Words;
use super::subject::Kind;
use super::subject::Subject;
use crate::paths::Paths;

/// How long a script waits for a state.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long when something in its chapter did not come already.
const IMPATIENCE: Duration = Duration::from_secs(1);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// Folders of chapters, and whether the server asks for an account.
const FOLDERS: [(&str, bool); 2] = [("story", false), ("basic", true)];

/// A script that has been played.
#[derive(Debug, Default)]
pub struct Played {
    /// What each request gave, in order.
    pub outcomes: Vec<(String, Outcome)>,
    /// What was waited for in vain.
    pub missed: Vec<String>,
    /// The words at the end.
    pub words: Words,
}

/// Plays one script.
pub async fn play(subject: &Subject, lines: &[Line], words: Words) -> Result<Played> {
    let client = subject.client();
    let mut played = Played {
        words,
        ..Played::default()
    };
    let mut last = Value::Null;
    for line in lines {
        match line {
            Line::Let(name, text) => played.words.choose(name, text),
            Line::Ask(name, ask) => {
                let answer = client.ask(&played.words.ask(ask)).await?;
                let plain = Plain {
                    base: client.base(),
                    words: &played.words,
                };
                played.outcomes.push((name.clone(), plain.outcome(&answer)));
                last = answer.json();
            }
            Line::Keep(name, pointer) => {
                let text = last.pointer(pointer).and_then(Value::as_str);
                // Without it the requests that use the word fail, and say so.
                played.words.keep(name, text.unwrap_or("nothing-was-kept"));
            }
            Line::Wait(path, wanted) => {
                let ask = Ask::get(&played.words.fill(path));
                let wanted = played.words.fill(wanted);
                let wanted: Value = serde_json::from_str(&wanted)
                    .with_context(|| format!("what is waited for: {wanted}"))?;
                let patience = match played.missed.is_empty() {
                    true => PATIENCE,
                    false => IMPATIENCE,
                };
                if !wait(subject, &ask, &wanted, patience).await? {
                    played.missed.push(format!("{path} {wanted}"));
                }
            }
        }
    }
    Ok(played)
}

async fn wait(subject: &Subject, ask: &Ask, wanted: &Value, patience: Duration) -> Result<bool> {
    let until = Instant::now() + patience;
    loop {
        if has(wanted, &subject.client().ask(ask).await?.json()) {
            return Ok(true);
        }
        if Instant::now() > until {
            return Ok(false);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Plays all chapters against a real Ironic and writes down its answers.
pub async fn record(paths: &Paths) -> Result<()> {
    for (name, accounts) in FOLDERS {
        let subject = Subject::start(paths, Kind::Ironic, accounts).await?;
        for chapter in chapters(&folder(paths).join(name))? {
            let lines = script::read(&chapter)?;
            let played = play(&subject, &lines, Words::default()).await?;
            let mut text = String::from("{\n");
            for (number, (name, outcome)) in played.outcomes.iter().enumerate() {
                let comma = if number == 0 { "" } else { ",\n" };
                let outcome = serde_json::to_string(outcome)?;
                text.push_str(&format!("{comma}{name:?}: {outcome}"));
            }
            text.push_str("\n}\n");
            let path = chapter.with_extension("json");
            std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
            println!("{}: {} exchanges", path.display(), played.outcomes.len());
            let missed = &played.missed;
            ensure!(missed.is_empty(), "{}: {missed:?}", chapter.display());
        }
        subject.stop().await;
    }
    Ok(())
}

/// Plays all chapters and gives what differs from the recordings.
pub async fn replay(paths: &Paths, kind: Kind) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    for (name, accounts) in FOLDERS {
        let subject = Subject::start(paths, kind, accounts).await?;
        for chapter in chapters(&folder(paths).join(name))? {
            found.append(&mut replay_one(&subject, &chapter).await?);
        }
        subject.stop().await;
    }
    Ok(found)
}

async fn replay_one(subject: &Subject, chapter: &Path) -> Result<Vec<Found>> {
    let title = chapter.file_stem().unwrap_or_default().to_string_lossy();
    let recording = chapter.with_extension("json");
    let text = std::fs::read_to_string(&recording)
        .with_context(|| format!("reading {}", recording.display()))?;
    let recorded: BTreeMap<String, Outcome> =
        serde_json::from_str(&text).with_context(|| format!("parsing {}", recording.display()))?;
    let played = play(subject, &script::read(chapter)?, Words::default()).await?;
    let mut found: Vec<Found> = played
        .missed
        .iter()
        .map(|missed| Found::new(format!("story/{title}"), format!("did not come: {missed}")))
        .collect();
    for (name, outcome) in &played.outcomes {
        let recorded = recorded
            .get(name)
            .with_context(|| format!("{} has no {name}", recording.display()))?;
        let place = format!("story/{title}/{name}");
        found.extend(
            differences(recorded, outcome)
                .into_iter()
                .map(|text| Found::new(&place, text)),
        );
    }
    Ok(found)
}

/// What differs: where the status does, nothing else is looked at.
fn differences(recorded: &Outcome, outcome: &Outcome) -> Vec<String> {
    if recorded.status != outcome.status {
        let (found, wanted) = (outcome.status, recorded.status);
        return vec![format!("status {found} instead of {wanted}")];
    }
    let mut lines = Vec::new();
    for (name, wanted) in &recorded.headers {
        match outcome.headers.get(name) {
            Some(found) if found == wanted => {}
            Some(found) => lines.push(format!("header {name} is {found:?} instead of {wanted:?}")),
            None => lines.push(format!("header {name} is missing")),
        }
    }
    lines.append(&mut compare(&recorded.body, &outcome.body));
    lines
}

/// The scripts of a folder in order.
fn chapters(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "txt"))
        .collect();
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use serde_json::Value;

    use super::FOLDERS;
    use super::chapters;
    use crate::peer::script;
    use crate::peer::script::Line;
    use crate::peer::script::Words;

    #[test]
    fn scripts_are_sound() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("peer");
        let mut count = 0;
        for (name, _) in FOLDERS {
            for chapter in chapters(&folder.join(name)).unwrap() {
                let mut names = BTreeSet::new();
                let mut words = Words::default();
                for line in script::read(&chapter).unwrap() {
                    match line {
                        Line::Let(name, text) => words.choose(&name, &text),
                        Line::Keep(name, _) => words.keep(&name, "kept"),
                        Line::Ask(name, ask) => {
                            count += 1;
                            assert!(names.insert(name.clone()), "{name} is there twice");
                            let filled = words.ask(&ask);
                            assert!(!filled.path.contains('{'), "{name}: {}", filled.path);
                            let broken = name.starts_with("not-json");
                            if let Some(body) = filled.body.filter(|_| !broken) {
                                serde_json::from_str::<Value>(&body).unwrap();
                            }
                        }
                        Line::Wait(_, wanted) => {
                            serde_json::from_str::<Value>(&words.fill(&wanted)).unwrap();
                        }
                    }
                }
            }
        }
        assert!(count > 700, "only {count} exchanges");
    }
}

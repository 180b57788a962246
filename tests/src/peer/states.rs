//! Our state machine beside the real Ironic's, edge by edge. Ours is read from
//! `docs/state-machine.md`, which a test of the conductor keeps equal to its
//! table; the other one from the installed `ironic` package. Edges that only
//! one of them has are listed in `tests/peer/states.json`, each with its reason.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use serde::Deserialize;

use crate::child;
use crate::paths::Paths;
use crate::paths::existing;

/// The program that prints Ironic's machine.
const PROGRAM: &str = include_str!("states.py");
/// For that program; importing Ironic takes most of it.
const LIMIT: Duration = Duration::from_secs(120);

/// State, event, state.
type Edge = (String, String, String);

/// What a machine says of one state.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct About {
    /// Only a request moves a node on from here.
    stable: bool,
    /// `target_provision_state` of a node here, when nothing else was asked.
    target: Option<String>,
}

/// A state machine.
#[derive(Debug, Deserialize)]
struct Machine {
    edges: BTreeSet<Edge>,
    states: BTreeMap<String, About>,
}

/// Who has an edge that the other has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Side {
    Wrought,
    Ironic,
}

/// A reviewed difference.
#[derive(Debug, Deserialize)]
struct Listed {
    only: Side,
    from: String,
    event: String,
    to: String,
    reason: String,
}

/// Compares both machines; tells how many edges they share and which only one
/// has. Fails on any difference that is not listed, and on one that is listed
/// and is none.
pub async fn check(paths: &Paths) -> Result<String> {
    let ours = read(&paths.root.join("docs/state-machine.md"))?;
    let theirs = ask(paths).await?;
    let listed = listed(&super::folder(paths).join("states.json"))?;
    let faults = differences(&ours, &theirs, &listed);
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    let only: Vec<String> = listed
        .iter()
        .map(|one| format!("{:?}: {} -{}-> {}", one.only, one.from, one.event, one.to))
        .collect();
    Ok(format!(
        "{} states and {} edges are the same; {} edges only one has ({})",
        ours.states.len(),
        ours.edges.intersection(&theirs.edges).count(),
        only.len(),
        only.join("; ")
    ))
}

/// Asks the installed package.
async fn ask(paths: &Paths) -> Result<Machine> {
    let python = existing(
        paths.root.join("target/tools/ironic/bin/python"),
        "cargo xtask setup --all",
    )?;
    let mut command = child::command(python);
    command.arg("-c").arg(PROGRAM);
    let output = tokio::time::timeout(LIMIT, command.output())
        .await
        .context("the program that prints Ironic's machine did not come to an end")??;
    ensure!(
        output.status.success(),
        "the program that prints Ironic's machine failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    serde_json::from_slice(&output.stdout).context("parsing Ironic's machine")
}

fn listed(path: &Path) -> Result<Vec<Listed>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let listed: Vec<Listed> =
        serde_json::from_str(&text).with_context(|| format!("parsing {}", path.display()))?;
    for one in &listed {
        ensure!(
            one.reason.len() >= 20,
            "{}: {} -{}-> {} has no reason",
            path.display(),
            one.from,
            one.event,
            one.to
        );
    }
    Ok(listed)
}

/// All that differs and is not listed, or is listed and does not differ.
fn differences(ours: &Machine, theirs: &Machine, listed: &[Listed]) -> Vec<String> {
    let mut found: BTreeSet<(Side, &Edge)> = BTreeSet::new();
    found.extend(
        ours.edges
            .difference(&theirs.edges)
            .map(|edge| (Side::Wrought, edge)),
    );
    found.extend(
        theirs
            .edges
            .difference(&ours.edges)
            .map(|edge| (Side::Ironic, edge)),
    );
    let edges: Vec<(Side, Edge)> = listed
        .iter()
        .map(|one| {
            (
                one.only,
                (one.from.clone(), one.event.clone(), one.to.clone()),
            )
        })
        .collect();
    let excused: BTreeSet<(Side, &Edge)> = edges.iter().map(|(side, edge)| (*side, edge)).collect();
    let line =
        |(side, (from, event, to)): &(Side, &Edge)| format!("{side:?}: {from} -{event}-> {to}");
    let mut faults: Vec<String> = found
        .difference(&excused)
        .map(|one| format!("only one has it, and it is not listed: {}", line(one)))
        .collect();
    let gone = excused.difference(&found);
    faults.extend(gone.map(|one| format!("listed, and no difference: {}", line(one))));
    let names: BTreeSet<&String> = ours.states.keys().chain(theirs.states.keys()).collect();
    for name in names {
        let (here, there) = (ours.states.get(name), theirs.states.get(name));
        if here != there {
            faults.push(format!("state {name}: ours {here:?}, Ironic's {there:?}"));
        }
    }
    faults
}

/// Reads the page: the diagram has the edges, the table what a state is.
fn read(path: &Path) -> Result<Machine> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let machine = parse(&text);
    ensure!(
        !machine.edges.is_empty() && !machine.states.is_empty(),
        "{} has no diagram or no table",
        path.display()
    );
    Ok(machine)
}

fn parse(page: &str) -> Machine {
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    let (mut edges, mut states) = (BTreeSet::new(), BTreeMap::new());
    for line in page.lines().map(str::trim) {
        if let Some((name, alias)) = line
            .strip_prefix("state \"")
            .and_then(|rest| rest.split_once("\" as "))
        {
            names.insert(alias, name);
        } else if let Some((from, rest)) = line.split_once(" --> ")
            && let Some((to, event)) = rest.split_once(" : ")
        {
            let name = |alias: &str| names.get(alias).copied().unwrap_or(alias).to_owned();
            let event = event.trim_end_matches('*').to_owned();
            edges.insert((name(from), event, name(to)));
        } else if let Some(row) = line.strip_prefix("| ") {
            let cells: Vec<&str> = row.split(" | ").collect();
            let [name, kind, target, _] = cells[..] else {
                continue;
            };
            if names.values().any(|known| *known == name) {
                let target = (target != "–").then(|| target.to_owned());
                let stable = kind == "stable";
                states.insert(name.to_owned(), About { stable, target });
            }
        }
    }
    Machine { edges, states }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::Listed;
    use super::Machine;
    use super::Side;
    use super::differences;
    use super::listed;
    use super::parse;
    use super::read;

    const PAGE: &str = "
stateDiagram-v2
    state \"wait call-back\" as wait_call_back
    state \"active\" as active
    [*] --> active
    wait_call_back --> active : resume
    active --> wait_call_back : deploy*

| state | kind | going to | leaves by |
|---|---|---|---|
| active | stable | – | deploy\\* → wait call-back |
| wait call-back | waits for the ramdisk, with a time-out | active | resume → active |
";

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
    }

    #[test]
    fn a_page_is_read() {
        let machine = parse(PAGE);
        let edge = |from: &str, event: &str, to: &str| (from.into(), event.into(), to.into());
        assert_eq!(
            machine.edges,
            BTreeSet::from([
                edge("wait call-back", "resume", "active"),
                edge("active", "deploy", "wait call-back"),
            ])
        );
        assert!(machine.states["active"].stable);
        assert_eq!(machine.states["active"].target, None);
        let waiting = &machine.states["wait call-back"];
        assert_eq!(
            (waiting.stable, waiting.target.as_deref()),
            (false, Some("active"))
        );
    }

    #[test]
    fn what_is_not_listed_is_a_fault() {
        let (ours, mut theirs) = (parse(PAGE), parse(PAGE));
        let none = Vec::new();
        assert!(differences(&ours, &theirs, &none).is_empty());
        theirs.edges.pop_first();
        theirs.states.get_mut("active").unwrap().stable = false;
        let faults = differences(&ours, &theirs, &none);
        assert_eq!(faults.len(), 2, "{faults:?}");
        let entry = |event: &str| Listed {
            only: Side::Wrought,
            from: "active".to_owned(),
            event: event.to_owned(),
            to: "wait call-back".to_owned(),
            reason: String::new(),
        };
        assert_eq!(differences(&ours, &theirs, &[entry("deploy")]).len(), 1);
        let faults = differences(&ours, &theirs, &[entry("deploy"), entry("gone")]);
        assert!(
            faults[0].starts_with("listed, and no difference"),
            "{faults:?}"
        );
    }

    #[test]
    fn what_is_listed_is_on_the_page() {
        let Machine { edges, states } = read(&root().join("docs/state-machine.md")).unwrap();
        assert_eq!(states.len(), 30);
        for one in listed(&root().join("tests/peer/states.json")).unwrap() {
            let edge = (one.from, one.event, one.to);
            assert_eq!(edges.contains(&edge), one.only == Side::Wrought, "{edge:?}");
        }
    }
}

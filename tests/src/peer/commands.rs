//! The commands of `openstack baremetal` (`tests/peer/commands`), with a look
//! at what each gives. Starting the client takes longer than most commands, so
//! one process runs them all. A line of a script is one of
//!
//! - `# …`: a remark;
//! - `$ …`: a command, its words as a shell would split them;
//! - `? …`: the same, again until what follows holds;
//!
//! and below a command
//!
//! - `= JSON`: its output in JSON has this;
//! - `~ TEXT`: its output has this text;
//! - `! TEXT`: it fails, and says this;
//! - `> NAME = /POINTER`: `{NAME}` stands for what is there from here on.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use serde::Deserialize;
use serde_json::Value;
use tokio::io::AsyncBufReadExt;
use tokio::io::AsyncWriteExt;
use tokio::io::BufReader;
use tokio::io::Lines;
use tokio::process::Child;
use tokio::process::ChildStdin;
use tokio::process::ChildStdout;

use super::compare::has;
use super::differences::Found;
use super::folder;
use super::script::Words;
use super::subject::Subject;
use crate::child;
use crate::paths::Paths;

/// The program that runs the commands.
const SHELL: &str = include_str!("commands.py");
/// For one command.
const LIMIT: Duration = Duration::from_secs(120);
/// For a state to come.
const PATIENCE: Duration = Duration::from_secs(30);
/// When a state has not come before.
const IMPATIENCE: Duration = Duration::from_secs(1);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(200);

/// A command with what must hold.
#[derive(Debug)]
struct Step {
    line: String,
    again: bool,
    checks: Vec<(char, String)>,
}

/// What a command gave.
#[derive(Debug, Deserialize)]
pub struct Output {
    /// Its exit code, 0 when all went well.
    pub code: Value,
    /// What it printed.
    pub out: String,
    /// What went wrong.
    pub err: String,
}

/// The client's one process.
#[derive(Debug)]
pub struct Shell {
    _child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

/// Runs all scripts and gives what does not hold.
pub async fn run(paths: &Paths, subject: &Subject) -> Result<Vec<Found>> {
    let file = subject.work().join("create.json");
    std::fs::write(&file, CREATED)?;
    let mut words = Words::default();
    words.keep("file", &file.display().to_string());
    let server = [
        ("OS_AUTH_TYPE", "none".to_owned()),
        ("OS_ENDPOINT", subject.client().base().to_owned()),
    ];
    let (mut shell, known) = Shell::start(paths, subject.work(), &server).await?;
    let steps = read(&folder(paths).join("commands"))?;
    let mut found = Vec::new();
    for command in untried(&known, &steps) {
        found.push(Found::new("commands", format!("not tried: {command}")));
    }
    let mut patience = PATIENCE;
    for step in &steps {
        let wrong = step.take(&mut shell, &mut words, patience).await?;
        if let Some(wrong) = wrong {
            if step.again {
                patience = IMPATIENCE;
            }
            found.push(Found::new(format!("commands/{}", step.line), wrong));
        }
    }
    Ok(found)
}

/// What `openstack baremetal create` makes of a file.
const CREATED: &str = r#"{"nodes": [{"driver": "fake-hardware", "name": "from-file",
  "ports": [{"address": "52:54:00:aa:00:09"}]}]}"#;

/// Commands that no step runs.
fn untried<'a>(known: &'a [String], steps: &[Step]) -> Vec<&'a String> {
    let tried: BTreeSet<&str> = steps
        .iter()
        .filter_map(|step| {
            let line = step.line.as_str();
            let names = known.iter().filter_map(|name| {
                let name = name.strip_prefix("baremetal ")?;
                let rest = line.strip_prefix(name)?;
                (rest.is_empty() || rest.starts_with(' ')).then_some(name)
            });
            names.max_by_key(|name| name.len())
        })
        .collect();
    known
        .iter()
        .filter(|name| !tried.contains(name.trim_start_matches("baremetal ")))
        .collect()
}

impl Step {
    /// Runs it; what does not hold.
    async fn take(
        &self,
        shell: &mut Shell,
        words: &mut Words,
        patience: Duration,
    ) -> Result<Option<String>> {
        let mut argv = vec!["baremetal".to_owned()];
        argv.extend(split(&words.fill(&self.line)));
        if self
            .checks
            .iter()
            .any(|(kind, _)| matches!(kind, '=' | '>'))
        {
            argv.extend(["-f".to_owned(), "json".to_owned()]);
        }
        let until = Instant::now() + patience;
        loop {
            let output = shell.run(&argv).await?;
            let wrong = self.judge(&output, words)?;
            if wrong.is_none() || !self.again || Instant::now() > until {
                return Ok(wrong);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn judge(&self, output: &Output, words: &mut Words) -> Result<Option<String>> {
        let failed = output.code != 0;
        let must_fail = self.checks.iter().any(|(kind, _)| *kind == '!');
        if failed != must_fail {
            return Ok(Some(match failed {
                true => format!("failed: {}", output.err.trim().replace('\n', " ")),
                false => "did not fail".to_owned(),
            }));
        }
        let json: Value = serde_json::from_str(&output.out).unwrap_or(Value::Null);
        for (kind, text) in &self.checks {
            let text = words.fill(text);
            let wrong = match kind {
                '!' => !output.err.contains(&text),
                '~' => !output.out.contains(&text),
                '=' => {
                    let wanted = serde_json::from_str(&text).with_context(|| text.clone())?;
                    !has(&wanted, &json)
                }
                _ => {
                    let (name, pointer) = text.split_once(" = ").context("no = after >")?;
                    let value = json.pointer(pointer).and_then(Value::as_str);
                    words.keep(name, value.unwrap_or("nothing-was-kept"));
                    value.is_none()
                }
            };
            if wrong {
                let shown: String = match kind {
                    '!' => &output.err,
                    _ => &output.out,
                }
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .chars()
                .take(300)
                .collect();
                return Ok(Some(format!("not {text}: {shown}")));
            }
        }
        Ok(None)
    }
}

impl Shell {
    /// Starts the client with a server's variables of the environment; also the
    /// names of all its commands.
    pub async fn start(
        paths: &Paths,
        work: &Path,
        server: &[(&str, String)],
    ) -> Result<(Self, Vec<String>)> {
        let program = work.join("commands.py");
        std::fs::write(&program, SHELL)?;
        let log = std::fs::File::create(paths.runs.join("openstack-commands.log"))?;
        let mut child = child::command(paths.tool("python")?)
            .arg(&program)
            .envs(server.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .context("starting the openstack client")?;
        let mut shell = Self {
            input: child.stdin.take().context("no standard input")?,
            output: BufReader::new(child.stdout.take().context("no standard output")?).lines(),
            _child: child,
        };
        let known = serde_json::from_str(&shell.line().await?)?;
        Ok((shell, known))
    }

    /// Runs a command, given by the words after `openstack`.
    pub async fn run(&mut self, argv: &[String]) -> Result<Output> {
        let mut line = serde_json::to_vec(argv)?;
        line.push(b'\n');
        self.input.write_all(&line).await?;
        Ok(serde_json::from_str(&self.line().await?)?)
    }

    async fn line(&mut self) -> Result<String> {
        match tokio::time::timeout(LIMIT, self.output.next_line()).await {
            Ok(line) => line?.context("the openstack client ended"),
            Err(_) => bail!("the openstack client did not answer within {LIMIT:?}"),
        }
    }
}

/// Reads all scripts of a folder, in order.
fn read(folder: &Path) -> Result<Vec<Step>> {
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let mut steps: Vec<Step> = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path)?;
        for line in text.lines().filter(|line| !line.is_empty()) {
            let (kind, rest) = line.split_at(1);
            let rest = rest.trim_start().to_owned();
            match kind {
                "#" => {}
                "$" | "?" => steps.push(Step {
                    line: rest,
                    again: kind == "?",
                    checks: Vec::new(),
                }),
                "=" | "~" | "!" | ">" => {
                    let step = steps.last_mut().context("a check before any command")?;
                    step.checks.push((kind.chars().next().unwrap_or('='), rest));
                }
                _ => bail!("{}: {line:?}", path.display()),
            }
        }
    }
    Ok(steps)
}

/// Words as a shell splits them, of which only single quotes are known.
pub fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut started = false;
    let mut quoted = false;
    for char in line.chars() {
        match char {
            '\'' => {
                quoted = !quoted;
                started = true;
            }
            ' ' if !quoted => {
                if std::mem::take(&mut started) {
                    words.push(std::mem::take(&mut word));
                }
            }
            other => {
                word.push(other);
                started = true;
            }
        }
    }
    if started {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::read;
    use super::split;
    use super::untried;

    #[test]
    fn words() {
        assert_eq!(split("a  'b c' '' d"), ["a", "b c", "", "d"]);
    }

    #[test]
    fn scripts_are_sound() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("peer/commands");
        let steps = read(&folder).unwrap();
        let first: std::collections::BTreeSet<&str> =
            steps.iter().map(|step| step.line.as_str()).collect();
        assert!(first.len() > 130, "only {} different commands", first.len());
        let known = [
            "baremetal node power on".to_owned(),
            "baremetal node fly".to_owned(),
        ];
        assert_eq!(untried(&known, &steps), [&known[1]]);
    }
}

//! Logs of ramdisks: fetched from the agent when an operation has failed (or
//! at the end of every one), and kept as `tar.gz` in the state directory,
//! `logs/NODE/`, so many of a node and so many bytes in all. Nothing fails
//! because of them.

use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::Map;
use serde_json::Value;
use uuid::Uuid;

use crate::config::Agent;
use crate::config::CollectLogs;
use crate::config::Config;
use crate::error::chain;
use crate::steps::Kind;
use crate::task::Task;

/// Time for the agent to make the archive and send it.
const TIME: Duration = Duration::from_secs(30);
/// The agent's command.
const COMMAND: &str = "log.collect_system_logs";
/// How every gzip stream begins.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// How the operation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Well.
    Done,
    /// With an error.
    Failed,
}

impl End {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

/// Fetches and keeps the logs of the node's ramdisk where the settings say so
/// and there is one. Gives the file's name below the folder of logs.
pub(crate) async fn collect(task: &mut Task, kind: Kind, end: End) -> Option<String> {
    let wanted = match task.svc.config.agent.deploy_logs_collect {
        CollectLogs::Always => true,
        CollectLogs::OnFailure => end == End::Failed,
        CollectLogs::Never => false,
    };
    if !wanted || !task.node_has_agent() {
        return None;
    }
    let node = task.node.uuid;
    let limit = task.svc.config.agent.deploy_logs_max_bytes;
    let fetched = tokio::time::timeout(TIME, fetch(task, limit)).await;
    let fetched = fetched.unwrap_or_else(|_| Err(format!("no answer within {} s", TIME.as_secs())));
    let kept = match fetched {
        Ok(archive) => keep(&task.svc.config, node, kind, end, archive).await,
        Err(problem) => Err(problem),
    };
    match kept {
        Ok(name) => {
            let text = format!("The ramdisk's logs are kept: {name}");
            task.history("INFO", kind.event_type(), &text);
            Some(name)
        }
        Err(problem) => {
            tracing::warn!(%node, err = problem, "logs of the ramdisk not kept");
            None
        }
    }
}

async fn fetch(task: &Task, limit: u64) -> Result<Vec<u8>, String> {
    let client = task.agent().map_err(|error| chain(&error))?;
    let answer = client.run(COMMAND, Map::new(), true).await;
    let answer = answer.map_err(|error| chain(&error))?;
    let result = answer.command_result.unwrap_or_default();
    let text = result.get("system_logs").and_then(Value::as_str);
    let text = text.ok_or_else(|| format!("the answer to {COMMAND} has no system_logs"))?;
    // A line break every 76 characters is usual too.
    let text: String = text.split_ascii_whitespace().collect();
    let archive = STANDARD
        .decode(text)
        .map_err(|error| format!("system_logs is not Base64: {error}"))?;
    if !archive.starts_with(&GZIP) {
        return Err("system_logs is not a gzip archive".to_owned());
    }
    if archive.len() as u64 > limit {
        return Err(format!(
            "system_logs has {} bytes, deploy_logs_max_bytes allows {limit}",
            archive.len()
        ));
    }
    Ok(archive)
}

async fn keep(
    config: &Config,
    node: Uuid,
    kind: Kind,
    end: End,
    archive: Vec<u8>,
) -> Result<String, String> {
    let root = folder(config);
    let settings = config.agent.clone();
    let stamp = Timestamp::now().strftime("%Y%m%dT%H%M%S.%3fZ");
    let name = format!("{node}/{stamp}-{}-{}.tar.gz", kind.as_str(), end.as_str());
    let file = root.join(&name);
    let written = tokio::task::spawn_blocking(move || {
        write(&file, &archive)?;
        trim(&root, &file, &settings)
    });
    match written.await {
        Ok(Ok(())) => Ok(name),
        Ok(Err(error)) => Err(format!("{name}: {error}")),
        Err(error) => Err(format!("{name}: {error}")),
    }
}

/// Where the logs are.
fn folder(config: &Config) -> PathBuf {
    let own = config.agent.deploy_logs_local_path.clone();
    own.unwrap_or_else(|| config.state_dir.join("logs"))
}

/// Whole or not at all; only the service reads it.
fn write(file: &Path, archive: &[u8]) -> std::io::Result<()> {
    use std::fs::DirBuilder;
    use std::fs::OpenOptions;
    use std::io::Write;
    use std::os::unix::fs::DirBuilderExt;
    use std::os::unix::fs::OpenOptionsExt;

    if let Some(folder) = file.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
    }
    let part = file.with_extension("part");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut out = options.open(&part)?;
    out.write_all(archive)?;
    drop(out);
    std::fs::rename(&part, file)
}

/// Drops what is beyond the bounds, the oldest first; never `newest`.
fn trim(root: &Path, newest: &Path, settings: &Agent) -> std::io::Result<()> {
    let mut of_node = files(newest.parent().unwrap_or(root))?;
    of_node.sort();
    let over = of_node
        .len()
        .saturating_sub(settings.deploy_logs_per_node.max(1));
    for old in of_node.drain(..over) {
        remove(&old.path, newest)?;
    }
    let mut all = Vec::new();
    for entry in std::fs::read_dir(root)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            all.extend(files(&entry.path())?);
        }
    }
    all.sort();
    let mut total: u64 = all.iter().map(|kept| kept.length).sum();
    for old in all {
        if total <= settings.deploy_logs_total_bytes {
            break;
        }
        total -= old.length;
        remove(&old.path, newest)?;
    }
    Ok(())
}

/// One archive; sorted by age.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kept {
    written: SystemTime,
    path: PathBuf,
    length: u64,
}

fn files(folder: &Path) -> std::io::Result<Vec<Kept>> {
    let mut kept = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        // Another node's worker may just have dropped it.
        let Ok(about) = entry.metadata() else {
            continue;
        };
        if about.is_file() && path.extension().is_some_and(|end| end == "gz") {
            kept.push(Kept {
                written: about.modified()?,
                path,
                length: about.len(),
            });
        }
    }
    Ok(kept)
}

fn remove(path: &Path, newest: &Path) -> std::io::Result<()> {
    if path == newest {
        return Ok(());
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;
    use std::time::SystemTime;

    use super::trim;
    use super::write;
    use crate::config::Agent;

    fn put(root: &Path, name: &str, bytes: usize, age: u64) {
        let file = root.join(name);
        write(&file, &vec![0; bytes]).unwrap();
        let file = std::fs::File::options().write(true).open(&file).unwrap();
        let when = SystemTime::now() - Duration::from_secs(age);
        file.set_modified(when).unwrap();
    }

    fn names(root: &Path) -> Vec<String> {
        let mut names = Vec::new();
        for node in std::fs::read_dir(root).unwrap() {
            let node = node.unwrap().path();
            for file in std::fs::read_dir(&node).unwrap() {
                let file = file.unwrap().path();
                let name = file.strip_prefix(root).unwrap();
                names.push(name.display().to_string());
            }
        }
        names.sort();
        names
    }

    #[test]
    fn the_oldest_logs_go_first() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for (name, age) in [("a/1.tar.gz", 50), ("a/2.tar.gz", 40), ("a/3.tar.gz", 0)] {
            put(root, name, 100, age);
        }
        put(root, "b/1.tar.gz", 100, 60);
        let settings = Agent {
            deploy_logs_per_node: 2,
            ..Agent::default()
        };
        trim(root, &root.join("a/3.tar.gz"), &settings).unwrap();
        assert_eq!(names(root), ["a/2.tar.gz", "a/3.tar.gz", "b/1.tar.gz"]);
        let settings = Agent {
            deploy_logs_total_bytes: 200,
            ..Agent::default()
        };
        trim(root, &root.join("a/3.tar.gz"), &settings).unwrap();
        assert_eq!(names(root), ["a/2.tar.gz", "a/3.tar.gz"]);
        let settings = Agent {
            deploy_logs_total_bytes: 1,
            ..Agent::default()
        };
        trim(root, &root.join("a/3.tar.gz"), &settings).unwrap();
        assert_eq!(names(root), ["a/3.tar.gz"], "the newest always stays");
    }
}

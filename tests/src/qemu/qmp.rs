//! A small client of QEMU's machine protocol (QMP).

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use serde_json::Value;
use serde_json::json;
use tokio::io::AsyncBufReadExt;
use tokio::io::AsyncWriteExt;
use tokio::io::BufReader;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::Mutex;
use tokio::sync::mpsc;

/// How long QEMU may take to answer; a busy TCG guest holds its lock at times.
const PATIENCE: Duration = Duration::from_secs(30);

/// An open QMP connection.
#[derive(Debug)]
pub struct Qmp {
    talk: Mutex<(OwnedWriteHalf, mpsc::UnboundedReceiver<Value>)>,
}

/// An event with its data.
#[derive(Debug, Clone)]
pub struct Event {
    /// Such as `RESET`.
    pub name: String,
    /// What it carries.
    pub data: Value,
}

impl Qmp {
    /// Connects to the socket `name` in `dir` as soon as QEMU has made it.
    pub async fn connect(dir: &Path, name: &str) -> Result<(Self, mpsc::UnboundedReceiver<Event>)> {
        let opening = async {
            loop {
                match connect_short(dir, name).await {
                    Ok(stream) => return stream,
                    Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
        };
        let stream = tokio::time::timeout(PATIENCE, opening)
            .await
            .with_context(|| format!("QEMU did not open {name} in {}", dir.display()))?;
        let (read, write) = stream.into_split();
        let (answers_in, answers) = mpsc::unbounded_channel();
        let (events_in, events) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut lines = BufReader::new(read).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let Ok(mut message) = serde_json::from_str::<Value>(&line) else {
                    continue;
                };
                if let Some(name) = message.get("event").and_then(Value::as_str) {
                    let name = name.to_owned();
                    let data = message.get_mut("data").map(Value::take).unwrap_or_default();
                    events_in.send(Event { name, data }).ok();
                } else if message.get("QMP").is_none() {
                    answers_in.send(message).ok();
                }
            }
        });
        let qmp = Self {
            talk: Mutex::new((write, answers)),
        };
        qmp.execute("qmp_capabilities", json!({})).await?;
        Ok((qmp, events))
    }

    /// Runs one command and gives its return value.
    pub async fn execute(&self, command: &str, arguments: Value) -> Result<Value> {
        let mut talk = self.talk.lock().await;
        let (write, answers) = &mut *talk;
        let mut request = json!({"execute": command, "arguments": arguments}).to_string();
        request.push('\n');
        write
            .write_all(request.as_bytes())
            .await
            .with_context(|| format!("sending {command}"))?;
        let mut answer = tokio::time::timeout(PATIENCE, answers.recv())
            .await
            .with_context(|| format!("QEMU did not answer {command}"))?
            .with_context(|| format!("QEMU went away during {command}"))?;
        match answer.get_mut("return") {
            Some(value) => Ok(value.take()),
            None => bail!("QEMU refused {command}: {answer}"),
        }
    }

    /// Sets a device's boot index for the next reset; `None` leaves it out.
    pub async fn set_bootindex(&self, device: &str, index: Option<i32>) -> Result<()> {
        self.execute(
            "qom-set",
            json!({"path": device, "property": "bootindex", "value": index.unwrap_or(-1)}),
        )
        .await?;
        Ok(())
    }
}

/// Connects to the socket `name` in `dir` by way of a short path: socket addresses
/// hold 107 bytes only.
///
/// # Errors
/// Nobody listens there.
pub async fn connect_short(dir: &Path, name: &str) -> std::io::Result<UnixStream> {
    use std::os::fd::AsRawFd;
    let dir = std::fs::File::open(dir)?;
    UnixStream::connect(format!("/proc/self/fd/{}/{name}", dir.as_raw_fd())).await
}

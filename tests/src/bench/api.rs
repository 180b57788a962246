//! `bench api`: requests per second and memory of `wrought serve` with SQLite,
//! over plain HTTP on loopback, at several fleet sizes.

use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use serde_json::Value;
use serde_json::json;

use super::process::median;

/// Fleet sizes at which the requests are measured.
const FLEETS: [usize; 2] = [1_000, 10_000];
/// Counted runs of each figure; their median is shown.
const RUNS: usize = 5;
/// Concurrent clients.
const CLIENTS: usize = 8;
/// How long one run lasts.
const RUN: Duration = Duration::from_secs(2);

/// Starts the server (a release binary) and measures.
pub async fn run(work: &Path, server: &Path) -> Result<Value> {
    let port = std::net::TcpListener::bind("127.0.0.1:0")?
        .local_addr()?
        .port();
    let mut serving = Serving::start(work, server, port)?;
    let base = format!("http://127.0.0.1:{port}");
    let client = reqwest::Client::builder().no_proxy().build()?;
    await_ready(&client, &base, &mut serving).await?;
    let idle_rss = serving.rss()?;
    let mut fleets = Vec::new();
    let mut nodes = 0;
    for fleet in FLEETS {
        let created = Instant::now();
        let added = fleet - nodes;
        create(&client, &base, nodes..fleet).await?;
        nodes = fleet;
        let posts = added as f64 / created.elapsed().as_secs_f64();
        let one = format!("{base}/v1/nodes/bench-{}", fleet / 2);
        fleets.push(json!({
            "nodes": fleet,
            "post_node_per_second": posts,
            "get_one_per_second": rate(&client, &one).await?,
            "list_1000_per_second": rate(&client, &format!("{base}/v1/nodes?limit=1000")).await?,
            "rss_bytes": serving.rss()?,
        }));
    }
    Ok(
        json!({ "bench": "api", "runs": RUNS, "clients": CLIENTS, "idle_rss_bytes": idle_rss, "fleets": fleets }),
    )
}

/// The server as a child, ended when dropped.
struct Serving(Child);

impl Serving {
    fn start(work: &Path, server: &Path, port: u16) -> Result<Self> {
        let child = Command::new(server)
            .args(["serve", "--http", "--auth", "none", "--listen"])
            .arg(format!("127.0.0.1:{port}"))
            .arg("--state-dir")
            .arg(work.join("state"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {}", server.display()))?;
        Ok(Self(child))
    }

    /// Resident set now, bytes.
    fn rss(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .context("no VmRSS")?;
        let kib: u64 = line
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .context("VmRSS")?;
        Ok(kib * 1024)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Already gone is as good as killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn await_ready(client: &reqwest::Client, base: &str, serving: &mut Serving) -> Result<()> {
    for _ in 0..300 {
        if let Some(status) = serving.0.try_wait()? {
            bail!("the server ended at its start with {status}");
        }
        if client
            .get(format!("{base}/v1"))
            .send()
            .await
            .is_ok_and(|answer| answer.status().is_success())
        {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bail!("the server at {base} did not answer within 30 s")
}

/// Creates nodes with one port each, by several clients at once.
async fn create(client: &reqwest::Client, base: &str, range: std::ops::Range<usize>) -> Result<()> {
    let next = Arc::new(AtomicUsize::new(range.start));
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        let (client, base, next, end) = (
            client.clone(),
            base.to_owned(),
            Arc::clone(&next),
            range.end,
        );
        workers.spawn(async move {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= end {
                    return Ok(());
                }
                let body = json!({ "driver": "fake-hardware", "name": format!("bench-{index}") });
                let answer = client
                    .post(format!("{base}/v1/nodes"))
                    .header("X-OpenStack-Ironic-API-Version", "latest")
                    .json(&body)
                    .send()
                    .await?;
                if answer.status() != 201 {
                    bail!(
                        "POST of a node: {} {}",
                        answer.status(),
                        answer.text().await?
                    );
                }
            }
        });
    }
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    Ok(())
}

/// Median of requests per second over the runs.
async fn rate(client: &reqwest::Client, url: &str) -> Result<f64> {
    let mut rates = Vec::new();
    for _ in 0..RUNS {
        let started = Instant::now();
        let mut workers = tokio::task::JoinSet::new();
        for _ in 0..CLIENTS {
            let (client, url) = (client.clone(), url.to_owned());
            workers.spawn(async move {
                let mut done = 0_usize;
                while started.elapsed() < RUN {
                    let answer = client
                        .get(&url)
                        .header("X-OpenStack-Ironic-API-Version", "latest")
                        .send()
                        .await?;
                    if !answer.status().is_success() {
                        bail!("GET {url}: {}", answer.status());
                    }
                    answer.bytes().await?;
                    done += 1;
                }
                Ok(done)
            });
        }
        let mut done = 0;
        while let Some(worker) = workers.join_next().await {
            done += worker??;
        }
        rates.push(done as f64 / started.elapsed().as_secs_f64());
    }
    Ok(median(&mut rates))
}

//! `bench api`: requests per second, times of answers and memory of `wrought
//! serve`. With SQLite, beside a real Ironic in the same run: plain HTTP on
//! loopback, no authentication, the same clients, each figure of the one and
//! the other taken in turn. With PostgreSQL alone: a server of this run that
//! commits as durably as SQLite does.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use reqwest::Method;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use super::ironic;
use super::ironic::Ironic;
use super::load;
use super::load::Figures;
use super::load::Requests;
use super::load::Target;
use super::load::request;
use super::process::median;
use super::serving::Serving;
use super::serving::Wrought;
use crate::api::Api;
use crate::fleet::Agent;
use crate::fleet::commands::Commands;
use crate::fleet::copies;
use crate::fleet::join::join;
use crate::postgres::Postgres;

/// Nodes that go to `clean wait` by the protocol alone; the others are copies
/// of them, since a real Ironic needs seconds for each.
const JOINED: usize = 4;
/// Nodes in `clean wait` at which everything is measured beside Ironic.
const SMALL: usize = 100;
/// Fleets, and whether a real Ironic is made as large.
const FLEETS: [(usize, bool); 4] = [
    (SMALL, true),
    (1_000, true),
    (10_000, false),
    (100_000, false),
];
/// Concurrent clients.
const CLIENTS: [usize; 3] = [1, 8, 32];
/// Nodes at rest, which can be patched.
const RESTING: usize = 32;
/// Counted runs of each figure; their median is shown.
const RUNS: usize = 5;
/// How long one run lasts.
const RUN: Duration = Duration::from_millis(500);
/// Runs of Ironic end when one figure has taken so long.
const ENOUGH: Duration = Duration::from_secs(8);

/// What is asked for, the kinds that add nodes last.
const KINDS: [Kind; 6] = [
    Kind::List,
    Kind::GetOne,
    Kind::GetFields,
    Kind::Heartbeat,
    Kind::Patch,
    Kind::Post,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    List,
    GetOne,
    GetFields,
    Heartbeat,
    Patch,
    Post,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::GetOne => "get_one",
            Self::GetFields => "get_fields",
            Self::Heartbeat => "heartbeat",
            Self::Patch => "patch_node",
            Self::Post => "post_node",
        }
    }

    /// Whether a fleet of that size is measured with it: more nodes change
    /// nothing for what touches one, and Ironic's time is long.
    const fn suits(self, fleet: usize, beside: bool) -> bool {
        !beside || fleet == SMALL || matches!(self, Self::List)
    }
}

/// One server with its nodes.
struct Side {
    target: Target,
    api: Api,
    agents: Vec<Agent>,
    resting: Vec<String>,
}

/// Options of `bench api`.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// One JSON object instead of a table.
    #[arg(long)]
    pub json: bool,
    /// The database of our server.
    #[arg(long, value_enum, default_value = "sqlite")]
    pub database: Database,
    /// Fleets of at most so many nodes.
    #[arg(long, default_value_t = usize::MAX, hide_default_value = true)]
    pub nodes: usize,
}

/// What our server keeps its nodes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Database {
    /// A file.
    Sqlite,
    /// A server of its own, beside no Ironic.
    Postgresql,
}

/// Both servers; Ironic where it is installed.
struct Sides {
    commands: Commands,
    wrought: Wrought,
    /// The URL of our server's database.
    database: String,
    postgres: Option<Postgres>,
    ours: Side,
    ironic: Option<(Ironic, Side)>,
}

/// Starts the servers and measures.
pub async fn run(work: &Path, server: &Path, venv: &Path, options: &Options) -> Result<Value> {
    let mut sides = Sides::start(work, server, venv, options.database).await?;
    let idle = sides.rss()?;
    sides.join().await?;
    let (mut rows, mut memory) = (Vec::new(), Vec::new());
    for (fleet, beside) in FLEETS {
        if fleet > options.nodes {
            continue;
        }
        let beside = beside && sides.ironic.is_some();
        sides.grow(fleet, beside).await?;
        for kind in KINDS {
            if !kind.suits(fleet, beside) {
                continue;
            }
            for clients in CLIENTS {
                // A thousand nodes keep Ironic busy for long enough.
                if beside && fleet > SMALL && clients > 8 {
                    continue;
                }
                rows.push(sides.row(kind, fleet, clients, beside).await?);
            }
        }
        let mut used = sides.rss()?;
        used.insert("nodes".to_owned(), fleet.into());
        memory.push(Value::Object(used));
    }
    let version = sides.ironic.as_ref().map(|(ironic, _)| ironic.version());
    let ratios = ratios(&rows);
    sides.stop().await;
    let sides_database = match options.database {
        Database::Sqlite => "sqlite",
        Database::Postgresql => "postgresql",
    };
    Ok(json!({
        "bench": "api", "database": sides_database, "runs": RUNS, "seconds_of_a_run": RUN.as_secs_f64(),
        "ironic": version, "idle": idle, "memory": memory, "rows": rows, "ratios": ratios,
    }))
}

impl Side {
    fn new(target: Target, api: Api) -> Self {
        Self {
            target,
            api,
            agents: Vec::new(),
            resting: Vec::new(),
        }
    }

    async fn join(&mut self, commands: &Commands) -> Result<()> {
        self.agents = join(&self.api, commands, JOINED).await?;
        for number in 0..RESTING {
            let body = json!({"driver": "fake-hardware", "name": format!("resting-{number}")});
            let node = self
                .api
                .call(Method::POST, "/v1/nodes", Some(&body))
                .await?;
            let uuid = node["uuid"].as_str().context("a node without uuid")?;
            self.resting.push(uuid.to_owned());
        }
        Ok(())
    }

    /// What each client sends, time after time.
    fn requests(&self, kind: Kind, run: usize, clients: usize) -> Requests {
        let agents = self.agents.clone();
        let resting = self.resting.clone();
        Arc::new(move |client, number| {
            let turn = client + clients * number;
            let node = &agents[turn % agents.len()].node;
            match kind {
                Kind::List => request("GET", "/v1/nodes?limit=1000", None),
                Kind::GetOne => request("GET", &format!("/v1/nodes/{node}"), None),
                Kind::GetFields => {
                    let fields = "uuid,name,power_state,provision_state,driver_info";
                    request("GET", &format!("/v1/nodes/{node}?fields={fields}"), None)
                }
                Kind::Heartbeat => {
                    let agent = &agents[turn % agents.len()];
                    request("POST", &agent.path(), Some(&agent.heartbeat()))
                }
                Kind::Patch => {
                    let node = &resting[client % resting.len()];
                    let patch = json!([{"op": "add", "path": "/extra/n", "value": turn}]);
                    request("PATCH", &format!("/v1/nodes/{node}"), Some(&patch))
                }
                Kind::Post => {
                    let name = format!("post-{run}-{clients}-{client}-{number}");
                    let body = json!({"driver": "fake-hardware", "name": name});
                    request("POST", "/v1/nodes", Some(&body))
                }
            }
        })
    }

    async fn measure(
        &self,
        kind: Kind,
        fleet: usize,
        clients: usize,
        run: usize,
    ) -> Result<Figures> {
        // Names of nodes are never used twice.
        let requests = self.requests(kind, fleet * RUNS + run, clients);
        load::run(&self.target, clients, RUN, &requests).await
    }
}

impl Sides {
    async fn start(work: &Path, server: &Path, venv: &Path, kind: Database) -> Result<Self> {
        let commands = Commands::start(false).await?;
        let postgres = match kind {
            Database::Sqlite => None,
            Database::Postgresql => Some(Postgres::start(true).await?),
        };
        let mut more = "auth = \"none\"\n".to_owned();
        let mut database = None;
        if let Some(postgres) = &postgres {
            let url = postgres.database("bench").await?;
            more += &format!("database = {url:?}\n");
            database = Some(url);
        }
        let mut wrought = Wrought::configured(server, work, false, &more)?;
        let database = database.unwrap_or_else(|| wrought.database());
        wrought.start().await?;
        let ours = Side::new(wrought.target()?, wrought.api()?);
        let ironic = if kind == Database::Postgresql {
            None
        } else if ironic::installed(venv).is_some() {
            let mut ironic = Ironic::new(venv, &work.join("ironic"), &ironic::MEASURED).await?;
            ironic.start().await?;
            let side = Side::new(ironic.target(), ironic.api()?);
            Some((ironic, side))
        } else {
            eprintln!("no Ironic in {}: nothing to compare with", venv.display());
            None
        };
        Ok(Self {
            commands,
            wrought,
            database,
            postgres,
            ours,
            ironic,
        })
    }

    async fn join(&mut self) -> Result<()> {
        self.ours.join(&self.commands).await.context("our server")?;
        if let Some((_, side)) = &mut self.ironic {
            side.join(&self.commands).await.context("the real Ironic")?;
        }
        Ok(())
    }

    /// Copies nodes until there are `fleet` of them in `clean wait`.
    async fn grow(&mut self, fleet: usize, beside: bool) -> Result<()> {
        let lacking = fleet.saturating_sub(self.ours.agents.len());
        if lacking > 0 {
            self.wrought.stop().await;
            let more = more(&self.database, &self.ours, &self.commands, lacking).await?;
            self.ours.agents.extend(more);
            self.wrought.start().await?;
        }
        let Some((ironic, side)) = &mut self.ironic else {
            return Ok(());
        };
        let lacking = fleet.saturating_sub(side.agents.len());
        if beside && lacking > 0 {
            ironic.stop().await;
            let more = more(&ironic.database(), side, &self.commands, lacking).await?;
            side.agents.extend(more);
            ironic.start().await?;
        }
        Ok(())
    }

    /// One figure of both, in turn.
    async fn row(&self, kind: Kind, fleet: usize, clients: usize, beside: bool) -> Result<Value> {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        let mut taken = Duration::ZERO;
        for run in 0..RUNS {
            let measured = self.ours.measure(kind, fleet, clients, run).await;
            ours.push(measured.with_context(|| format!("{} of our server", kind.name()))?);
            if let (true, Some((_, side))) = (beside && taken < ENOUGH, &self.ironic) {
                let started = Instant::now();
                let measured = side.measure(kind, fleet, clients, run).await;
                theirs.push(measured.with_context(|| format!("{} of Ironic", kind.name()))?);
                taken += started.elapsed();
            }
        }
        let refused: u64 = ours.iter().map(|figures| figures.refused).sum();
        ensure!(
            refused == 0,
            "our server refused {refused} requests of {}",
            kind.name()
        );
        let mut row = Map::new();
        row.insert("request".to_owned(), kind.name().into());
        row.insert("nodes".to_owned(), fleet.into());
        row.insert("clients".to_owned(), clients.into());
        put(&mut row, "ours", &ours);
        if !theirs.is_empty() {
            put(&mut row, "ironic", &theirs);
        }
        Ok(Value::Object(row))
    }

    fn rss(&self) -> Result<Map<String, Value>> {
        let mut used = Map::new();
        let of = |serving: &Serving| serving.rss().map(Value::from);
        used.insert("ours_rss_bytes".to_owned(), of(self.wrought.serving()?)?);
        if let Some((ironic, _)) = &self.ironic {
            used.insert("ironic_rss_bytes".to_owned(), of(ironic.serving()?)?);
        }
        Ok(used)
    }

    async fn stop(mut self) {
        self.wrought.stop().await;
        if let Some((mut ironic, _)) = self.ironic {
            ironic.stop().await;
        }
        if let Some(postgres) = self.postgres {
            postgres.stop().await;
        }
    }
}

async fn more(
    database: &str,
    side: &Side,
    commands: &Commands,
    count: usize,
) -> Result<Vec<Agent>> {
    let model = side.agents.first().context("no node to copy")?;
    copies::copy(database, model, commands, count).await
}

/// Puts the medians of the runs into the row.
fn put(row: &mut Map<String, Value>, side: &str, runs: &[Figures]) {
    let of = |field: fn(&Figures) -> f64| median(&mut runs.iter().map(field).collect::<Vec<_>>());
    let refused: u64 = runs.iter().map(|figures| figures.refused).sum();
    row.insert(format!("{side}_per_second"), of(|run| run.rate).into());
    row.insert(format!("{side}_p50_ms"), of(|run| run.p50).into());
    row.insert(format!("{side}_p99_ms"), of(|run| run.p99).into());
    row.insert(format!("{side}_refused"), refused.into());
    row.insert(format!("{side}_runs"), runs.len().into());
}

/// Each side's best over the numbers of clients, and how often the one is the
/// other.
fn ratios(rows: &[Value]) -> Vec<Value> {
    let mut ratios = Vec::new();
    for (fleet, _) in FLEETS {
        for kind in KINDS {
            let best = |side: &str| {
                rows.iter()
                    .filter(|row| row["request"] == kind.name() && row["nodes"] == fleet)
                    .filter_map(|row| row[format!("{side}_per_second")].as_f64())
                    .fold(f64::NAN, f64::max)
            };
            let (ours, theirs) = (best("ours"), best("ironic"));
            if !theirs.is_nan() {
                ratios.push(json!({
                    "request": kind.name(), "nodes": fleet, "ours_per_second": ours,
                    "ironic_per_second": theirs, "ratio": ours / theirs,
                }));
            }
        }
    }
    ratios
}

/// Prints the result for a person.
pub fn print(found: &Value) {
    let number = |value: &Value| {
        value
            .as_f64()
            .map_or_else(|| "-".to_owned(), |number| format!("{number:.1}"))
    };
    let sides = ["ours", "ironic"];
    println!(
        "{:<11} {:>6} {:>7}  {:>10} {:>8} {:>8}  {:>10} {:>8} {:>8}",
        "request", "nodes", "clients", "ours/s", "p50 ms", "p99 ms", "Ironic/s", "p50 ms", "p99 ms"
    );
    for row in found["rows"].as_array().into_iter().flatten() {
        print!(
            "{:<11} {:>6} {:>7}",
            row["request"].as_str().unwrap_or_default(),
            row["nodes"].to_string(),
            row["clients"].to_string()
        );
        for side in sides {
            let figure = |name: &str| number(&row[format!("{side}_{name}")]);
            print!(
                "  {:>10} {:>8} {:>8}",
                figure("per_second"),
                figure("p50_ms"),
                figure("p99_ms")
            );
        }
        println!();
    }
    println!("\nbest of each side");
    for row in found["ratios"].as_array().into_iter().flatten() {
        println!(
            "{:<11} {:>6}  ours {:>9}/s  Ironic {:>7}/s  {:>8} times",
            row["request"].as_str().unwrap_or_default(),
            row["nodes"].to_string(),
            number(&row["ours_per_second"]),
            number(&row["ironic_per_second"]),
            number(&row["ratio"])
        );
    }
    println!("\nresident memory, MB");
    let megabytes = |value: &Value| {
        value
            .as_f64()
            .map_or_else(|| "-".to_owned(), |bytes| format!("{:.1}", bytes / 1e6))
    };
    let memory = found["memory"].as_array().into_iter().flatten();
    for row in std::iter::once(&found["idle"]).chain(memory) {
        println!(
            "{:>6} nodes  ours {:>7}  Ironic {:>7}",
            row["nodes"].as_u64().unwrap_or(0),
            megabytes(&row["ours_rss_bytes"]),
            megabytes(&row["ironic_rss_bytes"])
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::ratios;

    #[test]
    fn ratios_take_the_best_of_each_side() {
        let row = |clients: usize, ours: f64, ironic: f64| {
            json!({"request": "heartbeat", "nodes": 100, "clients": clients,
                "ours_per_second": ours, "ironic_per_second": ironic})
        };
        let found = ratios(&[row(1, 100.0, 2.0), row(8, 300.0, 1.0)]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0]["ratio"], 150.0);
    }
}

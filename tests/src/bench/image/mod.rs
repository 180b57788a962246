//! `bench image`: the data path against what one would type instead, against
//! the agent that others use, and against its own parts.
//!
//! Images come from an HTTP server in this process, on loopback, the same one
//! for all. Within a row everybody runs in turn, round after round, so that a
//! drifting machine slows all of them; ratios are taken within a round.

mod judge;
mod make;
mod plan;
mod runner;
mod scratch;
mod table;
mod target;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use serde_json::Value;
use serde_json::json;

use self::judge::Rounds;
use self::make::Images;
use self::plan::Kind;
use self::plan::Row;
use self::runner::Job;
use self::runner::Runner;
use self::runner::Tools;
use self::scratch::Scratch;
use self::target::Target;
use super::files::FileServer;
use super::stop::Stop;
use crate::paths::Paths;
use crate::paths::existing;

/// The disk is larger than the image, so that the backup table moves.
const DISK: u64 = 2 << 30;

/// What to measure.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// One JSON object instead of a Markdown table.
    #[arg(long)]
    json: bool,
    /// Counted runs of each figure.
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Only these images.
    #[arg(long, value_enum, value_delimiter = ',')]
    rows: Vec<plan::Kind>,
    /// Only to these places.
    #[arg(long, value_enum, value_delimiter = ',')]
    to: Vec<plan::Place>,
    /// Only with these hashes.
    #[arg(long, value_enum, value_delimiter = ',')]
    hash: Vec<plan::Hash>,
    /// Every image to every place with every hash.
    #[arg(long)]
    full: bool,
}

/// The benchmark, ready to run.
#[derive(Debug)]
pub struct Bench {
    options: Options,
    images: PathBuf,
    scratch: Scratch,
    // Last, so that downloads are removed after what uses them.
    downloads: Scratch,
    tools: Tools,
}

impl Bench {
    /// Looks for everything that is needed; `binaries` is cargo's target
    /// folder.
    pub fn new(paths: &Paths, binaries: &Path, options: Options, stop: Stop) -> Result<Self> {
        let made_by = "cargo xtask bench image";
        let python = paths.root.join("target/tools/real-agent/bin/python");
        let scratch = Scratch::new(&paths.runs)?;
        let downloads = match Scratch::in_memory() {
            Some(folder) => folder,
            None => Scratch::new(&scratch.path().join("downloads"))?,
        };
        let tools = Tools {
            agent: existing(binaries.join(super::AGENT), made_by)?,
            harness: paths.binary("wrought-harness")?,
            python: python.exists().then_some(python),
            driver: paths.root.join("tests/src/bench/image/real_agent.py"),
            downloads: downloads.path().to_owned(),
            stop,
        };
        Ok(Self {
            options,
            images: paths.root.join("target/bench/image"),
            scratch,
            downloads,
            tools,
        })
    }

    /// Measures and prints, row by row.
    pub fn run(&self) -> Result<()> {
        let images = Images::get(&self.images, &self.tools.stop)?;
        let server = FileServer::start(&images.folder)?;
        let mut rows = Vec::new();
        if !self.options.json {
            println!("{}", table::HEAD);
        }
        for row in plan::rows(&self.options) {
            rows.push(self.row(row, &images, &server)?);
        }
        if self.options.json {
            let found = json!({
                "bench": "image",
                "runs": self.options.runs,
                "image_bytes": make::SIZE,
                "downloads": self.downloads.path().starts_with(scratch::MEMORY),
                "rows": rows,
            });
            println!("{found}");
        }
        Ok(())
    }

    /// Measures one row. What ours cannot do is said and left out.
    fn row(&self, row: Row, images: &Images, server: &FileServer) -> Result<Value> {
        let size = if row.kind == Kind::Sparse {
            make::SPARSE + (1 << 30)
        } else {
            DISK
        };
        let target = match Target::new(row.place, self.scratch.path(), size) {
            Ok(target) => target,
            Err(error) => return Ok(self.skipped(&row, &format!("{error:#}"))),
        };
        let job = Job {
            row,
            url: server.url(row.kind.file_name()),
            file: images.path(row.kind),
            digest: images.digest(row.kind, row.hash.name())?,
            disk: target.path(),
        };
        // A first run that does not count: is it right, too?
        target.reset()?;
        if let Err(error) = self.tools.run(Runner::Ours, &job) {
            self.tools.stop.check()?;
            return Ok(self.skipped(&row, &format!("{error:#}")));
        }
        if row.kind != Kind::Sparse {
            self.compare(target.path(), &images.path(Kind::Raw))?;
        }
        let runners = Runner::of(&row, self.tools.python.is_some());
        let mut rounds = Rounds::new();
        for round in 0..self.options.runs as usize {
            // Another one begins each time.
            for index in 0..runners.len() {
                let runner = runners[(round + index) % runners.len()];
                if runner.writes() {
                    target.reset()?;
                }
                let usage = self.tools.run(runner, &job)?;
                rounds.entry(runner).or_default().push(usage);
            }
        }
        let verdicts = judge::verdicts(&row, &rounds);
        if !self.options.json {
            println!("{}", table::line(&row, &rounds, &verdicts));
        }
        let mut found = judge::to_json(&row, &rounds, &verdicts);
        found["source_bytes"] = json!(images.bytes(row.kind));
        Ok(found)
    }

    fn skipped(&self, row: &Row, why: &str) -> Value {
        eprintln!("left out: {row}: {why}");
        json!({
            "image": plan::name_of(&row.kind),
            "to": plan::name_of(&row.place),
            "hash": row.hash.name(),
            "skipped": why,
        })
    }

    /// Whether the disk holds the image, but for the ends, where the table
    /// was fitted to the disk.
    fn compare(&self, disk: &Path, raw: &Path) -> Result<()> {
        const STEP: u64 = 1 << 20;
        let (written, wanted) = (File::open(disk)?, File::open(raw)?);
        let (mut left, mut right) = (vec![0; STEP as usize], vec![0; STEP as usize]);
        for at in (STEP..make::SIZE - STEP).step_by(STEP as usize) {
            self.tools.stop.check()?;
            written
                .read_exact_at(&mut left, at)
                .with_context(|| format!("reading {}", disk.display()))?;
            wanted.read_exact_at(&mut right, at)?;
            if left != right {
                bail!("ours wrote something else in the MiB from offset {at}");
            }
        }
        Ok(())
    }
}

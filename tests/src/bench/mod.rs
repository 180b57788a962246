//! Benchmarks that back the rows of SPECIFICATION.md. They run release
//! binaries, which `cargo xtask bench` builds.

pub mod api;
pub mod boot;
pub mod erase;
pub mod files;
pub mod image;
pub mod ironic;
pub mod load;
mod loop_device;
pub mod part;
pub mod process;
pub mod scale;
pub mod serving;
pub mod stop;

use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;
use serde_json::Value;

use self::stop::Stop;
use crate::accel::Accel;
use crate::paths::Paths;
use crate::paths::existing;

/// The shipped agent, in cargo's target folder.
const AGENT: &str = "x86_64-unknown-linux-musl/release/wrought-agent";

/// What can be measured.
#[derive(Debug, Clone, clap::Subcommand)]
pub enum Kind {
    /// The data path against what one would type without it.
    Image(image::Options),
    /// The server: requests per second, memory.
    Api(api::Options),
    /// The ramdisk: boot to the first heartbeat, sizes.
    Boot(boot::Options),
    /// Emptying disks against what one would type instead.
    Erase(erase::Options),
    /// One conductor with thousands of nodes whose agents call in.
    Scale(scale::Options),
}

/// Measures and prints.
pub async fn run(kind: Kind, accel: Option<Accel>) -> Result<()> {
    let paths = Paths::find()?;
    std::fs::create_dir_all(&paths.runs)?;
    match kind {
        Kind::Image(options) => image(&paths, options).await,
        Kind::Api(options) => {
            let work = work(&paths)?;
            let server = binaries(&paths)?.join("release/wrought");
            let server = existing(server, "cargo xtask bench api")?;
            let ironic = paths.root.join("target/tools/ironic");
            let found = api::run(work.path(), &server, &ironic, &options).await?;
            show(&found, options.json, api::print);
            Ok(())
        }
        Kind::Boot(options) => {
            let found = boot::run(&paths, accel, &options).await?;
            show(&found, options.json, boot::print);
            Ok(())
        }
        Kind::Erase(options) => {
            let work = work(&paths)?;
            let agent = binaries(&paths)?.join(AGENT);
            let agent = existing(agent, "cargo xtask bench erase")?;
            let found = erase::run(work.path(), &agent, &options).await?;
            show(&found, options.json, erase::print);
            Ok(())
        }
        Kind::Scale(options) => {
            let work = work(&paths)?;
            let server = binaries(&paths)?.join("release/wrought");
            let server = existing(server, "cargo xtask bench scale")?;
            let found = scale::run(work.path(), &server, &options).await?;
            show(&found, options.json, scale::print);
            Ok(())
        }
    }
}

/// A folder for one run, below the target folder: `/tmp` may be a memory
/// filesystem.
fn work(paths: &Paths) -> Result<tempfile::TempDir> {
    let mut folder = tempfile::Builder::new();
    Ok(folder.prefix("bench-").tempdir_in(&paths.runs)?)
}

/// The measuring blocks, so it has a thread of its own; when this is dropped
/// early, so is what it runs, and it gives back what it holds.
async fn image(paths: &Paths, options: image::Options) -> Result<()> {
    let stop = Stop::default();
    let _guard = stop.guard();
    let bench = image::Bench::new(paths, &binaries(paths)?, options, stop)?;
    tokio::task::spawn_blocking(move || bench.run()).await?
}

/// Cargo's target folder, which this harness was started from.
fn binaries(paths: &Paths) -> Result<PathBuf> {
    let own = paths.binary("wrought-harness")?;
    let target = own.ancestors().nth(2);
    Ok(target
        .context("the harness lies in no target folder")?
        .to_owned())
}

/// Prints the result as one object or for a person.
fn show(found: &Value, as_json: bool, for_a_person: impl Fn(&Value)) {
    if as_json {
        println!("{found}");
    } else {
        for_a_person(found);
    }
}

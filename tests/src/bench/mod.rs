//! Benchmarks that back the rows of SPECIFICATION.md. They run release
//! binaries, which `cargo xtask bench` builds.

pub mod api;
pub mod files;
pub mod image;
pub mod ironic;
pub mod load;
pub mod process;
pub mod serving;
pub mod stop;

use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;
use serde_json::Value;

use self::stop::Stop;
use crate::paths::Paths;
use crate::paths::existing;

/// What can be measured.
#[derive(Debug, Clone, clap::Subcommand)]
pub enum Kind {
    /// The data path against what one would type without it.
    Image(image::Options),
    /// The server: requests per second, memory.
    Api(Plain),
}

/// Options of a benchmark that has no others.
#[derive(Debug, Clone, clap::Args)]
pub struct Plain {
    /// One JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// Measures and prints.
pub async fn run(kind: Kind) -> Result<()> {
    let paths = Paths::find()?;
    std::fs::create_dir_all(&paths.runs)?;
    match kind {
        Kind::Image(options) => image(&paths, options).await,
        Kind::Api(options) => {
            // Below the target folder: `/tmp` may be a memory filesystem.
            let work = tempfile::Builder::new()
                .prefix("bench-")
                .tempdir_in(&paths.runs)?;
            let server = binaries(&paths)?.join("release/wrought");
            let server = existing(server, "cargo xtask bench api")?;
            print(&api::run(work.path(), &server).await?, options.json);
            Ok(())
        }
    }
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

fn print(found: &Value, as_json: bool) {
    if as_json {
        println!("{found}");
    } else {
        print_table(found);
    }
}

/// Prints one `name value` line per figure, objects in lists after a blank
/// line each.
fn print_table(found: &Value) {
    let Some(object) = found.as_object() else {
        return;
    };
    for (name, value) in object {
        match value {
            Value::Array(rows) => {
                for row in rows {
                    println!();
                    print_table(row);
                }
            }
            Value::Number(number) if number.is_f64() => {
                println!("{name:<26} {:>14.3}", number.as_f64().unwrap_or(f64::NAN));
            }
            other => println!("{name:<26} {:>14}", other.to_string().trim_matches('"')),
        }
    }
}

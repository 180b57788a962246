//! Benchmarks that back the rows of SPECIFICATION.md. They run release
//! binaries, which `cargo xtask bench` builds.

pub mod api;
pub mod files;
pub mod image;
pub mod process;

use anyhow::Context;
use anyhow::Result;
use serde_json::Value;

use crate::paths::Paths;
use crate::paths::existing;

/// What can be measured.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum Kind {
    /// The data path against what one would type without it.
    Image,
    /// The server: requests per second, memory.
    Api,
}

/// Measures and prints.
pub async fn run(kind: Kind, as_json: bool) -> Result<()> {
    let paths = Paths::find()?;
    let target = paths.binary("wrought-harness")?;
    let target = target
        .ancestors()
        .nth(2)
        .context("the harness lies in no target folder")?;
    std::fs::create_dir_all(&paths.runs)?;
    // Below the target folder: `/tmp` may be a memory filesystem.
    let work = tempfile::Builder::new()
        .prefix("bench-")
        .tempdir_in(&paths.runs)?;
    let found = match kind {
        Kind::Image => {
            let agent = target.join("x86_64-unknown-linux-musl/release/wrought-agent");
            let agent = existing(agent, "cargo xtask bench image")?;
            let folder = work.path().to_owned();
            tokio::task::spawn_blocking(move || image::run(&folder, &agent)).await??
        }
        Kind::Api => {
            let server = existing(target.join("release/wrought"), "cargo xtask bench api")?;
            api::run(work.path(), &server).await?
        }
    };
    if as_json {
        println!("{found}");
    } else {
        print_table(&found);
    }
    Ok(())
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

//! `cargo xtask fuzz [--seconds N] [--keep] [TARGET]`: hostile bytes for the
//! parsers of the image data path.
//!
//! What the fuzzer finds goes to `target/fuzz-found`; the committed inputs in
//! `fuzz/corpus` change only with `--keep`, which makes a small selection of
//! both.

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;

use crate::command::EX_UNAVAILABLE;
use crate::command::EX_USAGE;
use crate::command::Exit;
use crate::command::artefacts;
use crate::command::cargo_target;
use crate::command::output;
use crate::command::root;
use crate::command::run;
use crate::setup;

/// A target and how it is bounded.
struct Target {
    name: &'static str,
    /// Resident memory of the whole process in MiB: the code with its
    /// coverage, the sanitiser's shadow, and what the parser uses.
    memory: u32,
    /// Longest input in bytes.
    longest: u32,
}

const TARGETS: &[Target] = &[
    target("qcow2", 128, 16 << 10),
    target("tables", 128, 16 << 10),
    target("sums", 128, 4 << 10),
    target("detect", 128, 4 << 10),
    target("container", 192, 16 << 10),
    target("write", 320, 16 << 10),
];

const fn target(name: &'static str, memory: u32, longest: u32) -> Target {
    Target {
        name,
        memory,
        longest,
    }
}

/// Longest time for one input in seconds; usual is a thousandth of it.
const TIMEOUT: u32 = 20;
/// Bytes and number of committed inputs of each target, beside the seeds.
const KEPT: u64 = 12 << 10;
const MOST_KEPT: usize = 48;
/// How the names of inputs start that `fuzz/src/bin/seeds.rs` wrote.
const SEED: &str = "seed-";
/// The sanitiser keeps freed memory for a while; less than its default, so
/// that the bound is about what is in use. Looking for leaks after each input
/// stops every thread; the bound finds them as well.
const SANITISER: &str =
    "quarantine_size_mb=4:detect_leaks=0:allocator_release_to_os_interval_ms=500";

/// Runs the command.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let usage = |text: String| -> anyhow::Error { Exit::new(EX_USAGE, text).into() };
    let (mut seconds, mut keep, mut only) = (60, false, None);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--seconds" => {
                let value = args.next().and_then(|text| text.parse().ok());
                seconds = value.ok_or_else(|| usage("--seconds needs a number".to_owned()))?;
            }
            "--keep" => keep = true,
            name if TARGETS.iter().any(|target| target.name == name) => only = Some(name),
            other => {
                let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
                let names = names.join(", ");
                let text = format!("unexpected {other}: expected --seconds N, --keep or {names}");
                return Err(usage(text));
            }
        }
    }
    setup::fuzz::install()?;
    for target in TARGETS {
        if only.is_none_or(|name| name == target.name) {
            if seconds > 0 {
                target.run(seconds)?;
            }
            if keep {
                target.keep()?;
            }
        }
    }
    Ok(())
}

/// A short run of every target.
pub(crate) fn short() -> Result<()> {
    main(&["--seconds".to_owned(), "30".to_owned()])
}

impl Target {
    fn committed(&self) -> PathBuf {
        root().join("fuzz/corpus").join(self.name)
    }

    fn found(&self) -> PathBuf {
        artefacts("fuzz-found").join(self.name)
    }

    fn run(&self, seconds: u32) -> Result<()> {
        let Self { name, .. } = self;
        println!("fuzzing {name} for {seconds} s");
        let found = self.found();
        fs::create_dir_all(&found).with_context(|| format!("creating {}", found.display()))?;
        run(fuzz(&["run", name])?
            .arg(&found)
            .arg(self.committed())
            .arg("--")
            .args(self.bounds())
            .arg(format!("-max_total_time={seconds}"))
            .arg("-print_final_stats=1"))
    }

    fn bounds(&self) -> [String; 4] {
        [
            // Inputs may be long from the start: the valid ones are.
            "-len_control=0".to_owned(),
            format!("-rss_limit_mb={}", self.memory),
            format!("-max_len={}", self.longest),
            format!("-timeout={TIMEOUT}"),
        ]
    }

    /// Makes the committed inputs a few of those that cover what all cover.
    fn keep(&self) -> Result<()> {
        let (committed, found) = (self.committed(), self.found());
        let chosen = artefacts("fuzz-chosen").join(self.name);
        if chosen.exists() {
            fs::remove_dir_all(&chosen)
                .with_context(|| format!("emptying {}", chosen.display()))?;
        }
        for folder in [&committed, &found, &chosen] {
            fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        }
        run(fuzz(&["run", self.name])?
            .arg(&chosen)
            .args([&committed, &found])
            .args(["--", "-set_cover_merge=1"])
            .args(self.bounds()))?;
        for (_, old) in inputs(&committed)? {
            fs::remove_file(&old).with_context(|| format!("removing {}", old.display()))?;
        }
        let chosen = inputs(&chosen)?;
        // Of every size, where there are too many.
        let step = chosen.len().div_ceil(MOST_KEPT).max(1);
        let mut total = 0;
        for (size, input) in chosen.into_iter().step_by(step) {
            total += size;
            if total > KEPT {
                break;
            }
            let name = input.file_name().unwrap_or_default();
            fs::copy(&input, committed.join(name))
                .with_context(|| format!("copying {}", input.display()))?;
        }
        Ok(())
    }
}

/// Files of a folder with their sizes in bytes, the smallest first, without
/// the seeds.
fn inputs(folder: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let list = || -> std::io::Result<Vec<(u64, PathBuf)>> {
        let mut found = Vec::new();
        for entry in folder.read_dir()? {
            let entry = entry?;
            if !entry.file_name().to_string_lossy().starts_with(SEED) {
                found.push((entry.metadata()?.len(), entry.path()));
            }
        }
        found.sort();
        Ok(found)
    };
    list().with_context(|| format!("listing {}", folder.display()))
}

/// cargo-fuzz with a compiler that has sanitisers: nightly, or any with
/// `RUSTC_BOOTSTRAP`.
fn fuzz(words: &[&str]) -> Result<Command> {
    let program = setup::fuzz::program();
    if !program.is_file() {
        let text = "cargo-fuzz is not set up: run `cargo xtask setup --all`";
        return Err(Exit::new(EX_UNAVAILABLE, text).into());
    }
    if !root().join("fuzz/Cargo.toml").is_file() {
        bail!("there are no fuzz targets in {}", root().display());
    }
    let mut command = Command::new(program);
    command
        .arg("fuzz")
        .args(words)
        .current_dir(root())
        .env("CARGO_TARGET_DIR", cargo_target().join("fuzz"))
        .env("ASAN_OPTIONS", SANITISER);
    let nightly = output(Command::new("rustup").args(["run", "nightly", "rustc", "--version"]));
    if nightly.is_ok() {
        // Not the compiler that this program was started with.
        for name in ["CARGO", "RUSTC", "RUSTDOC"] {
            command.env_remove(name);
        }
        command.env("RUSTUP_TOOLCHAIN", "nightly");
    } else {
        command.env("RUSTC_BOOTSTRAP", "1");
    }
    Ok(command)
}

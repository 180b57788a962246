//! `cargo xtask test [--fast|--all] [FILTER]`: everything that must hold.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;

use crate::harness;
use crate::tidy;

/// How much to run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// No virtual machines.
    Fast,
    /// The chosen ones.
    Plain,
    /// The whole matrix.
    All,
}

/// Runs the stages in order and stops at the first that fails.
pub fn run(root: &Path, args: &[String]) -> Result<()> {
    let mut extent = Extent::Plain;
    let mut filter = None;
    for arg in args {
        match arg.as_str() {
            "--fast" => extent = Extent::Fast,
            "--all" => extent = Extent::All,
            flag if flag.starts_with('-') => bail!("unknown option {flag}: expected --fast or --all"),
            word if filter.is_none() => filter = Some(word.to_owned()),
            word => bail!("one filter at the most, found a second: {word}"),
        }
    }
    let mut stages = Stages::default();
    if extent != Extent::Fast {
        stages.stage("setup", || crate::setup::run(extent == Extent::All))?;
    }
    if filter.is_none() {
        stages.stage("tidy", || match tidy::run(root)? {
            true => Ok(()),
            false => bail!("tidy refused; see above"),
        })?;
        stages.stage("clippy", || {
            cargo(root, &["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])
        })?;
    }
    stages.stage("unit tests", || {
        let mut line = vec!["test", "--workspace", "--quiet"];
        line.extend(filter.as_deref());
        cargo(root, &line)
    })?;
    if extent != Extent::Fast {
        stages.stage("build", || harness::prepare(root, &["debian", "tiny"]))?;
        stages.stage("machines", || {
            let mut line = vec!["test"];
            if extent == Extent::All {
                line.push("--all");
            }
            line.extend(filter.as_deref());
            harness::run(root, &line)
        })?;
    }
    stages.report();
    Ok(())
}

/// Runs cargo with inherited output.
fn cargo(root: &Path, args: &[&str]) -> Result<()> {
    let status = Command::new("cargo").args(args).current_dir(root).status().context("running cargo")?;
    if !status.success() {
        bail!("`cargo {}` failed ({status}); see above", args.join(" "));
    }
    Ok(())
}

/// Names and times of the stages that passed.
#[derive(Default)]
struct Stages(Vec<(&'static str, f64)>);

impl Stages {
    fn stage(&mut self, name: &'static str, work: impl FnOnce() -> Result<()>) -> Result<()> {
        println!("== {name}");
        let started = Instant::now();
        work().with_context(|| format!("stage \"{name}\""))?;
        self.0.push((name, started.elapsed().as_secs_f64()));
        Ok(())
    }

    fn report(&self) {
        println!("== all passed");
        for (name, seconds) in &self.0 {
            println!("   {name:<12} {seconds:>7.1} s");
        }
    }
}

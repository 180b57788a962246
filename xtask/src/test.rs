//! `cargo xtask test [--fast|--all] [FILTER]`: everything that must hold.

use std::time::Instant;

use anyhow::Context;
use anyhow::Result;

use crate::command::EX_USAGE;
use crate::command::Exit;
use crate::command::cargo;
use crate::command::run;
use crate::fuzz;
use crate::harness;
use crate::image;
use crate::ramdisk;
use crate::setup;
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
pub(crate) fn main(args: &[String]) -> Result<()> {
    let mut extent = Extent::Plain;
    let mut filter = None;
    for arg in args {
        match arg.as_str() {
            "--fast" => extent = Extent::Fast,
            "--all" => extent = Extent::All,
            word if filter.is_none() && !word.starts_with('-') => filter = Some(word),
            other => {
                let text = format!("unexpected {other}: expected --fast or --all and one filter");
                return Err(Exit::new(EX_USAGE, text).into());
            }
        }
    }
    let mut stages = Stages::default();
    if extent != Extent::Fast {
        let all = if extent == Extent::All {
            vec!["--all".to_owned()]
        } else {
            Vec::new()
        };
        stages.stage("setup", || setup::main(&all))?;
    }
    if filter.is_none() {
        stages.stage("tidy", || tidy::main(&[]))?;
        stages.stage("clippy", || {
            let line = [
                "clippy",
                "--workspace",
                "--all-targets",
                "--quiet",
                "--",
                "-D",
                "warnings",
            ];
            run(cargo().args(line))
        })?;
    }
    stages.stage("unit tests", || {
        run(cargo()
            .args(["test", "--workspace", "--quiet"])
            .args(filter))
    })?;
    if extent == Extent::All && filter.is_none_or(|filter| filter == "oracle") {
        stages.stage("oracle", || {
            let line = ["test", "-p", "wrought-image", "--test", "oracle", "--quiet"];
            run(cargo().args(line).args(["--", "--ignored"]))
        })?;
    }
    if extent == Extent::All && filter.is_none_or(|filter| filter == "postgresql") {
        stages.stage("postgresql", || {
            run(cargo().args(["build", "--quiet", "-p", "wrought-tests"]))?;
            for (package, tests) in [
                ("wrought-store", ""),
                ("wrought-conductor", "tests::many::"),
            ] {
                harness::start(&[
                    "postgres",
                    "--variable=WROUGHT_STORE_TEST_POSTGRES",
                    "cargo",
                    "test",
                    "--quiet",
                    "-p",
                    package,
                    "--lib",
                    tests,
                ])?;
            }
            Ok(())
        })?;
    }
    if extent == Extent::All && filter.is_none_or(|filter| filter == "fuzz") {
        stages.stage("fuzz", fuzz::short)?;
    }
    if extent != Extent::Fast {
        stages.stage("build", || {
            harness::prepare(&["debian", "tiny"])?;
            match extent {
                Extent::All => {
                    image::main(&["raid".to_owned()])?;
                    ramdisk::build(&ramdisk::Variant::tools())?;
                    ramdisk::build(&ramdisk::Variant::rescue())?;
                    ramdisk::build(&ramdisk::Variant::arm())
                }
                Extent::Fast | Extent::Plain => Ok(()),
            }
        })?;
        if extent == Extent::All && filter.is_none_or(|filter| filter == "ramdisk_twice") {
            stages.stage("ramdisk_twice", || {
                ramdisk::again(&ramdisk::Variant::default())?;
                ramdisk::again(&ramdisk::Variant::tools())
            })?;
        }
        stages.stage("machines", || {
            let mut line = vec!["test"];
            line.extend((extent == Extent::All).then_some("--all"));
            line.extend(filter);
            harness::start(&line)
        })?;
    }
    stages.report();
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

//! Python tools, in a virtual environment of the project's own.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use anyhow::Result;

use crate::command::EX_UNAVAILABLE;
use crate::command::Exit;
use crate::command::find_program;
use crate::command::output;
use crate::command::retried;
use crate::toolchain;

/// The distribution's own interpreter: `python3-venv` belongs to it.
const PYTHON: &str = "/usr/bin/python3";

/// Makes the environment where it is missing and installs those of
/// `packages` that are not in it.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    install_in(&toolchain::venv(), packages)
}

/// The same for an environment elsewhere: one for each peer whose
/// dependencies may not agree with another's.
pub(crate) fn install_in(venv: &Path, packages: &[&str]) -> Result<()> {
    let python = venv.join("bin/python");
    if !works(&python) {
        println!("making the Python environment {}", venv.display());
        let _ = fs::remove_dir_all(venv);
        if let Some(parent) = venv.parent() {
            fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
        }
        output(Command::new(interpreter()?).args(["-m", "venv"]).arg(venv))?;
    }
    let listed = output(Command::new(&python).args([
        "-m",
        "pip",
        "list",
        "--format=freeze",
        "--disable-pip-version-check",
    ]))?;
    // A package may be named with a version: `NAME==VERSION`.
    let lacks = |package: &&str| {
        !listed
            .lines()
            .any(|line| line == *package || line.split("==").next() == Some(package))
    };
    let missing: Vec<&str> = packages.iter().copied().filter(lacks).collect();
    if missing.is_empty() {
        return Ok(());
    }
    println!(
        "installing from the Python package index: {}",
        missing.join(" ")
    );
    retried("pip install", || {
        output(
            Command::new(&python)
                .args([
                    "-m",
                    "pip",
                    "install",
                    "--quiet",
                    "--disable-pip-version-check",
                ])
                .args(&missing),
        )
        .map(drop)
    })
}

fn works(python: &Path) -> bool {
    output(Command::new(python).args(["-m", "pip", "--version"])).is_ok()
}

fn interpreter() -> Result<std::path::PathBuf> {
    if Path::new(PYTHON).exists() {
        return Ok(PYTHON.into());
    }
    find_program("python3").ok_or_else(|| {
        Exit::new(
            EX_UNAVAILABLE,
            "python3 with its venv module is needed and not there",
        )
        .into()
    })
}

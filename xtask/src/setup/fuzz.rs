//! cargo-fuzz, in the version that the fuzz targets are made for.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::command::artefacts;
use crate::command::cargo;
use crate::command::cargo_target;
use crate::command::output;
use crate::command::run;

const VERSION: &str = "0.13.1";

/// Where it lies.
pub(crate) fn program() -> PathBuf {
    artefacts("tools/bin/cargo-fuzz")
}

/// Whether the right version is there.
fn is_installed() -> bool {
    output(Command::new(program()).arg("--version"))
        .is_ok_and(|text| text.trim().ends_with(VERSION))
}

/// Builds and installs it where it is missing.
pub(crate) fn install() -> Result<()> {
    if is_installed() {
        return Ok(());
    }
    println!("installing cargo-fuzz {VERSION}");
    run(cargo()
        .args(["install", "--quiet", "--locked", "--force"])
        .args(["cargo-fuzz", "--version", VERSION, "--root"])
        .arg(artefacts("tools"))
        .env("CARGO_TARGET_DIR", cargo_target().join("tools-build")))
}

//! A real Ironic to be measured beside ours: only `cargo xtask bench api` asks
//! for it.

use super::python;
use crate::command::artefacts;

/// Folder of its environment, below `target`.
const FOLDER: &str = "tools/ironic";
/// The package, in the version that the figures were taken with.
const PACKAGE: &str = "ironic==39.0.0";

/// Installs it where it is missing; without it the benchmark still runs.
pub(crate) fn install() {
    if let Err(error) = python::install_in(&artefacts(FOLDER), &[PACKAGE]) {
        println!("no real Ironic to compare with: {error:#}");
    }
}

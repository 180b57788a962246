//! The program that makes requests of an OpenAPI document.

use anyhow::Result;

use super::python;
use crate::command::artefacts;

/// Folder of its environment, below `target`: its dependencies are its own.
const FOLDER: &str = "tools/schemathesis";
/// The package; another version makes other requests.
const PACKAGE: &str = "schemathesis==4.32.5";

/// Installs it where it is missing.
pub(crate) fn install() -> Result<()> {
    python::install_in(&artefacts(FOLDER), &[PACKAGE])
}

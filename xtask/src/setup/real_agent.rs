//! The agent that others use, as a peer for `bench image`: an environment of
//! its own, made when that benchmark is first run and not by `setup`.

use crate::command::artefacts;
use crate::setup::python;

/// Installs it, or says why its column will be empty.
pub(crate) fn install() {
    let venv = artefacts("tools/real-agent");
    if let Err(error) = python::install_in(&venv, &["ironic-python-agent"]) {
        println!("ironic-python-agent will not be measured: {error:#}");
    }
}

//! Hardware managers: executables in a folder of the ramdisk that know one
//! vendor's hardware. They add steps to cleaning, deploying and servicing, or
//! take the place of steps of the same name.
//!
//! `MANAGER describe` and `MANAGER run` each get one JSON object and answer in
//! JSON; docs/hardware-managers.md has the contract. It is the one of the
//! server's step plug-ins as far as it makes sense.

mod describe;
mod files;
mod run;

pub(crate) use run::Work;
pub(crate) use run::run;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;

use serde_json::Map;
use serde_json::Value;

use crate::command::CancelToken;
use crate::command::HARDWARE_MANAGER;

/// Where managers are, unless [`FOLDER_PARAM`] says otherwise.
pub(crate) const FOLDER: &str = "/etc/wrought/hardware-managers.d";
/// Parameter with another folder.
pub(crate) const FOLDER_PARAM: &str = "wrought-hardware-managers";

/// An executable with its steps.
#[derive(Debug)]
pub(crate) struct Manager {
    path: PathBuf,
    /// Its name on the wire.
    pub(crate) name: String,
    /// Its version; a step that was listed by another one is not run.
    pub(crate) version: String,
    /// 1 generic, 2 for the hardware's family, 3 for just this hardware.
    pub(crate) support: u8,
    /// What it offers.
    pub(crate) steps: Vec<ManagerStep>,
}

/// One step of a manager.
#[derive(Debug)]
pub(crate) struct ManagerStep {
    /// Interface that it belongs to.
    pub(crate) interface: String,
    /// Its name.
    pub(crate) step: String,
    /// Priority for each purpose (`clean`, `deploy`, `service`) that it is
    /// offered for.
    pub(crate) priorities: Vec<(String, i64)>,
    /// The other members of the step on the wire.
    pub(crate) shown: Map<String, Value>,
    /// Seconds that it may take.
    pub(crate) timeout: u64,
}

/// The managers of this ramdisk, asked when steps are listed and remembered
/// until then.
#[derive(Debug)]
pub(crate) struct Managers {
    folder: PathBuf,
    known: Mutex<Option<Arc<Vec<Manager>>>>,
}

impl Managers {
    /// Those of a folder, which need not be there.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            known: Mutex::default(),
        }
    }

    /// Asks each of them whether it supports this machine and what it has for
    /// it. One that cannot be asked is left out, and the log says why.
    pub(crate) fn look(
        &self,
        node: &Value,
        ports: &Value,
        cancel: &CancelToken,
    ) -> Arc<Vec<Manager>> {
        let mut found: Vec<Manager> = Vec::new();
        for path in files::list(&self.folder) {
            let asked = describe::ask(&path, node, ports, cancel);
            let name = path.display();
            match asked {
                Ok(manager) if manager.support == 0 => {
                    tracing::info!("hardware manager {name} is not for this machine");
                }
                Ok(manager) if is_taken(&found, &manager.name) => tracing::warn!(
                    "hardware manager {name} is left out: another one has its name {:?} already",
                    manager.name
                ),
                Ok(manager) => {
                    tracing::info!(
                        "hardware manager {} {} (support {}): {}",
                        manager.name,
                        manager.version,
                        manager.support,
                        manager.names()
                    );
                    found.push(manager);
                }
                Err(problem) => tracing::warn!("hardware manager {name} is left out: {problem}"),
            }
        }
        let found = Arc::new(found);
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&found));
        found
    }

    /// Those that were found last; they are looked for when they never were,
    /// because the agent has started anew since its steps were listed.
    pub(crate) fn known(
        &self,
        node: &Value,
        ports: &Value,
        cancel: &CancelToken,
    ) -> Arc<Vec<Manager>> {
        let known = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.clone()
        };
        known.unwrap_or_else(|| self.look(node, ports, cancel))
    }
}

fn is_taken(found: &[Manager], name: &str) -> bool {
    name == HARDWARE_MANAGER || found.iter().any(|manager| manager.name == name)
}

impl Manager {
    fn names(&self) -> String {
        let names: Vec<String> = self
            .steps
            .iter()
            .map(|step| format!("{}.{}", step.interface, step.step))
            .collect();
        names.join(", ")
    }
}

#[cfg(test)]
mod tests;

//! Step plug-ins: operators' own executables in a folder, which add
//! out-of-band steps to cleaning, deploying, servicing and verifying without a
//! rebuild. `docs/step-plugins.md` is their contract; [`describe`] asks a
//! plug-in what it has, [`run`] runs a step of it, [`process`] keeps the
//! process in bounds.

use std::collections::HashMap;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::RwLock;

use futures_util::future::join_all;
use wrought_store::node::Node;
use wrought_wire::step::Step;

use crate::service::Service;

mod describe;
mod files;
mod process;
mod redact;
mod run;

pub(crate) use describe::Plugin;
pub(crate) use run::run;

use files::Stamp;

/// What a file was found to be when it was last looked at.
type Seen = HashMap<PathBuf, (Stamp, Option<Arc<Plugin>>)>;

/// The plug-ins that are known.
#[derive(Debug, Default)]
pub(crate) struct Plugins {
    /// The program that is a guard.
    guard: Option<PathBuf>,
    known: RwLock<Arc<Vec<Arc<Plugin>>>>,
    seen: tokio::sync::Mutex<Seen>,
}

impl Plugins {
    /// None yet. `guard`: the program that ends plug-ins with the conductor.
    pub(crate) fn new(guard: Option<PathBuf>) -> Self {
        Self {
            guard,
            ..Self::default()
        }
    }

    /// The program that ends plug-ins with the conductor, if there is one.
    fn guard(&self) -> Option<&Path> {
        self.guard.as_deref()
    }

    fn all(&self) -> Arc<Vec<Arc<Plugin>>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&known)
    }

    /// Looks into the folder: files that are new or have changed are asked what
    /// they have, those that are gone are forgotten. What is wrong with one is
    /// logged, once for each change of it.
    pub(crate) async fn refresh(&self, folder: &Path) {
        let mut seen = self.seen.lock().await;
        // All at once: one that does not answer costs its time, not the others'.
        let looks = files::list(folder).await.into_iter().map(|(path, stamp)| {
            let before = seen.remove(&path).filter(|(known, _)| *known == stamp);
            async move {
                let plugin = match before {
                    Some((_, plugin)) => plugin,
                    None => learn(&path, &stamp, self.guard()).await,
                };
                (path, (stamp, plugin))
            }
        });
        let now: Vec<_> = join_all(looks.collect::<Vec<_>>()).await;
        let known = now.iter().filter_map(|(_, (_, plugin))| plugin.clone());
        let known: Vec<Arc<Plugin>> = known.collect();
        *seen = now.into_iter().collect();
        let mut place = self.known.write().unwrap_or_else(PoisonError::into_inner);
        *place = Arc::new(known);
    }

    /// The steps of a kind (`clean`, `deploy`, `service`, `verify`) for a node,
    /// with their priorities there. Of two plug-ins with the same step the one
    /// whose file name sorts first has it.
    pub(crate) fn steps(&self, kind: &str, node: &Node) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        for plugin in self.all().iter() {
            for step in plugin.steps(kind, &node.driver) {
                if crate::steps::list::find(&steps, &step).is_none() {
                    steps.push(step);
                }
            }
        }
        steps
    }

    /// The plug-in that has a step.
    pub(crate) fn find(&self, kind: &str, node: &Node, step: &Step) -> Option<Arc<Plugin>> {
        let all = self.all();
        let found = all.iter().find(|plugin| {
            let steps = plugin.steps(kind, &node.driver);
            crate::steps::list::find(&steps, step).is_some()
        });
        found.map(Arc::clone)
    }
}

impl Service {
    /// Takes note of plug-ins that have come, changed or gone.
    pub(crate) async fn refresh_plugins(&self) {
        let folder = &self.config.conductor.step_plugins_dir;
        self.plugins.refresh(folder).await;
    }
}

async fn learn(path: &Path, stamp: &Stamp, guard: Option<&Path>) -> Option<Arc<Plugin>> {
    let asked = match stamp.check() {
        Ok(()) => describe::ask(path, guard).await,
        Err(problem) => Err(problem),
    };
    match asked {
        Ok(plugin) => {
            tracing::info!(path = %path.display(), steps = plugin.names(), "step plug-in found");
            Some(Arc::new(plugin))
        }
        Err(problem) => {
            tracing::warn!(path = %path.display(), err = problem, "step plug-in not used");
            None
        }
    }
}

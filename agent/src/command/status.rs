//! What a running command shares with the rest of the agent: how far it is,
//! and whether it should stop.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use wrought_wire::progress::Progress;

/// Where a command writes its progress. Cheap to clone; every call takes a
/// short lock and no more, so a data path may call it for each block.
#[derive(Debug, Clone, Default)]
pub struct ProgressSink(Arc<Mutex<Option<Progress>>>);

impl ProgressSink {
    /// Replaces the snapshot.
    pub fn set(&self, progress: Progress) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(progress);
    }

    /// Says only what is being done, all figures zero.
    pub fn stage(&self, stage: &str) {
        self.set(Progress {
            stage: stage.to_owned(),
            ..Progress::default()
        });
    }

    /// The latest snapshot, if there was one.
    pub fn get(&self) -> Option<Progress> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Tells a running command to stop soon: set when the agent shuts down.
/// Checked by the command between blocks of work.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// Asks the command to stop.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the command should stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The flag itself, for code that takes a plain one.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

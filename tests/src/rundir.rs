//! One folder per run: logs that stay, scratch that goes.

use std::fs;
use std::fs::File;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;
use nix::fcntl::Flock;
use nix::fcntl::FlockArg;

/// How many past runs keep their logs.
const KEPT_RUNS: usize = 20;

/// `target/harness/run-…`, locked while the run lives.
#[derive(Debug)]
pub struct RunDir {
    root: PathBuf,
    _lock: Flock<File>,
}

impl RunDir {
    /// Makes a new folder below `runs`, and tidies what dead runs left.
    pub fn create(runs: &Path, label: &str) -> Result<Self> {
        fs::create_dir_all(runs).with_context(|| format!("creating {}", runs.display()))?;
        prune(runs);
        let now = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
        let root = runs.join(format!("run-{now}-{}-{label}", std::process::id()));
        fs::create_dir_all(root.join("logs"))?;
        fs::create_dir_all(root.join("scratch"))?;
        let lock = File::create(root.join("lock"))?;
        let lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock)
            .map_err(|(_, errno)| errno)
            .with_context(|| format!("locking {}", root.display()))?;
        Ok(Self { root, _lock: lock })
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A path for a log, kept after the run.
    pub fn log(&self, name: &str) -> PathBuf {
        self.root.join("logs").join(name)
    }

    /// A path for what is deleted with the run: disks, state, media.
    pub fn scratch(&self, name: &str) -> PathBuf {
        self.root.join("scratch").join(name)
    }

    /// A new folder in scratch.
    pub fn scratch_dir(&self, name: &str) -> Result<PathBuf> {
        let path = self.scratch(name);
        fs::create_dir_all(&path).with_context(|| format!("creating {}", path.display()))?;
        Ok(path)
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        fs::remove_dir_all(self.root.join("scratch")).ok();
    }
}

/// Deletes the scratch of runs whose process is gone, and all of the oldest.
fn prune(runs: &Path) {
    let Ok(entries) = fs::read_dir(runs) else {
        return;
    };
    let mut dead: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            path.file_name()
                .is_some_and(|n| n.to_string_lossy().starts_with("run-"))
        })
        .filter(|path| is_dead(path))
        .collect();
    // Names begin with the time.
    dead.sort();
    for path in &dead {
        fs::remove_dir_all(path.join("scratch")).ok();
    }
    let surplus = dead.len().saturating_sub(KEPT_RUNS);
    for path in &dead[..surplus] {
        fs::remove_dir_all(path).ok();
    }
}

/// Whether nobody holds the run's lock. A folder without a lock file may
/// just be coming into being, so it counts as alive.
fn is_dead(run: &Path) -> bool {
    File::open(run.join("lock"))
        .is_ok_and(|file| Flock::lock(file, FlockArg::LockExclusiveNonblock).is_ok())
}

#[cfg(test)]
mod tests {
    use super::RunDir;
    use std::fs;

    #[test]
    fn dead_runs_lose_their_scratch_and_live_ones_keep_it() {
        let runs = tempfile::tempdir().unwrap();
        let live = RunDir::create(runs.path(), "live").unwrap();
        fs::write(live.scratch("disk"), "x").unwrap();
        let dead = runs.path().join("run-00000000-000000-1-dead");
        fs::create_dir_all(dead.join("scratch")).unwrap();
        fs::create_dir_all(dead.join("logs")).unwrap();
        fs::write(dead.join("lock"), "").unwrap();

        let other = RunDir::create(runs.path(), "other").unwrap();
        assert!(live.scratch("disk").exists());
        assert!(!dead.join("scratch").exists());
        assert!(dead.join("logs").exists());
        let root = other.root().to_owned();
        drop(other);
        assert!(!root.join("scratch").exists());
        assert!(root.join("logs").exists());
    }
}

//! Loading modules into the kernel.

use std::collections::HashSet;
use std::fs;
use std::fs::File;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Instant;

use nix::errno::Errno;
use nix::kmod::ModuleInitFlags;
use nix::kmod::finit_module;
use tracing::debug;
use tracing::info;
use tracing::warn;

use super::Index;
use crate::system::read_line;

/// Modules that are loaded whatever the hardware says, one name per line.
const ALWAYS: &str = "/etc/wrought/modules";
/// Drivers look for their hardware while they are loaded, some for many
/// seconds: several are loaded side by side.
const THREADS: usize = 4;

/// Loads modules of the running kernel.
#[derive(Debug)]
pub struct Loader {
    index: Index,
    /// Files that are loaded or cannot be.
    done: Mutex<HashSet<PathBuf>>,
}

impl Loader {
    /// Reads the index of the running kernel.
    pub fn open() -> Self {
        let release = read_line("/proc/sys/kernel/osrelease").unwrap_or_default();
        let dir = Path::new("/lib/modules").join(release);
        let index = Index::read(&dir);
        if index.is_empty() {
            warn!(
                "modules: {} has no modules.dep: only built-in drivers work",
                dir.display()
            );
        }
        Self {
            index,
            done: Mutex::default(),
        }
    }

    /// Loads the modules that are always wanted, and the one for EFI variables
    /// on a machine that has them.
    pub fn load_always(&self) {
        let list = fs::read_to_string(ALWAYS).unwrap_or_default();
        let names = list
            .lines()
            .map(str::trim)
            .filter(|name| !name.is_empty() && !name.starts_with('#'));
        // The kernel's crash records are kept in variables, too.
        let efi: &[&str] = match Path::new("/sys/firmware/efi").exists() {
            true => &["efivarfs", "efi_pstore"],
            false => &[],
        };
        for name in names.chain(efi.iter().copied()) {
            self.load(name);
        }
    }

    /// Looks at all hardware again and again until nothing new is loaded: a
    /// controller's driver reveals the devices behind it.
    pub fn load_for_present_hardware(&self) {
        let start = Instant::now();
        let mut count = 0;
        loop {
            let mut aliases = HashSet::new();
            collect_modaliases(Path::new("/sys/devices"), 0, &mut aliases);
            let mut names: Vec<&str> = aliases
                .iter()
                .flat_map(|alias| self.index.modules_for(alias))
                .collect();
            names.sort_unstable();
            names.dedup();
            let loaded = self.load_all(&names);
            count += loaded;
            if loaded == 0 {
                break;
            }
        }
        info!(
            "modules: {count} loaded in {:.1} s",
            start.elapsed().as_secs_f64()
        );
    }

    /// Loads what one piece of hardware asks for; true if anything was new.
    pub fn load_for(&self, modalias: &str) -> bool {
        self.load_all(&self.index.modules_for(modalias)) > 0
    }

    /// Loads modules side by side; the kernel waits by itself for a module
    /// that another thread is still loading.
    fn load_all(&self, names: &[&str]) -> usize {
        let queue = Mutex::new(names.iter());
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
        let work = || {
            let mut count = 0;
            while let Some(name) = next() {
                count += self.load(name);
            }
            count
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (1..THREADS.min(names.len()))
                .map(|_| scope.spawn(work))
                .collect();
            let own = work();
            own + threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or(0))
                .sum::<usize>()
        })
    }

    /// Loads one module with all it needs; gives the number of new ones.
    pub fn load(&self, name: &str) -> usize {
        let mut count = 0;
        for file in self.index.files_for(name) {
            if self
                .done
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .contains(&file)
            {
                continue;
            }
            match insert(&file) {
                Ok(true) => {
                    debug!("modules: {}", file.display());
                    count += 1;
                }
                Ok(false) => {}
                // Absent hardware is what most refusals mean.
                Err(error) => debug!("modules: {}: {error}", file.display()),
            }
            self.done
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(file);
        }
        count
    }
}

/// Hands one file to the kernel; false if the module was there already.
fn insert(path: &Path) -> std::io::Result<bool> {
    /// `MODULE_INIT_COMPRESSED_FILE`: the kernel unpacks it.
    const COMPRESSED: u32 = 4;
    let file = File::open(path)?;
    let compressed = path.extension().is_some_and(|extension| extension != "ko");
    let flags = if compressed { COMPRESSED } else { 0 };
    match finit_module(&file, c"", ModuleInitFlags::from_bits_retain(flags)) {
        Ok(()) => Ok(true),
        Err(Errno::EEXIST) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// All `modalias` files below a directory of sysfs, links left alone.
fn collect_modaliases(dir: &Path, depth: u32, aliases: &mut HashSet<String>) {
    /// Deeper than any bus hangs.
    const DEEPEST: u32 = 32;
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    for entry in entries.flatten() {
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_dir() && depth < DEEPEST {
            collect_modaliases(&entry.path(), depth + 1, aliases);
        } else if kind.is_file()
            && entry.file_name() == "modalias"
            && let Some(alias) = read_line(entry.path()).filter(|alias| !alias.is_empty())
        {
            aliases.insert(alias);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::Path;

    use super::collect_modaliases;

    #[test]
    fn finds_the_hardware_of_this_machine() {
        let mut aliases = HashSet::new();
        collect_modaliases(Path::new("/sys/devices"), 0, &mut aliases);
        assert!(
            aliases.iter().all(|alias| alias.contains(':')),
            "{aliases:?}"
        );
    }
}

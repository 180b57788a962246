//! The kernel's index of its modules (`depmod` writes it).

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

use super::glob;

/// What is known of all modules of one kernel.
#[derive(Debug, Default)]
pub struct Index {
    /// Name → file, and the files that must be loaded before it, in order.
    modules: HashMap<String, (PathBuf, Vec<PathBuf>)>,
    /// Alias patterns and module names, by what stands before the first `:`.
    aliases: HashMap<String, Vec<(String, String)>>,
    /// Name → modules to load before and after, if they exist.
    soft: HashMap<String, (Vec<String>, Vec<String>)>,
}

impl Index {
    /// Reads the files of a module directory. Missing ones count as empty.
    pub fn read(dir: &Path) -> Self {
        let text = |name: &str| fs::read_to_string(dir.join(name)).unwrap_or_default();
        let mut index = Self::default();
        index.add_dependencies(dir, &text("modules.dep"));
        index.add_aliases(&text("modules.alias"));
        index.add_soft_dependencies(&text("modules.softdep"));
        index
    }

    /// Whether there is no module at all.
    pub fn is_empty(&self) -> bool {
        self.modules.is_empty()
    }

    /// `kernel/a.ko: kernel/b.ko kernel/c.ko`: a needs b, which may need c.
    fn add_dependencies(&mut self, dir: &Path, text: &str) {
        for line in text.lines() {
            let Some((file, needs)) = line.split_once(':') else {
                continue;
            };
            let mut before: Vec<PathBuf> = needs
                .split_whitespace()
                .map(|path| dir.join(path))
                .collect();
            before.reverse();
            self.modules
                .insert(module_name(file), (dir.join(file), before));
        }
    }

    /// `alias PATTERN MODULE`.
    fn add_aliases(&mut self, text: &str) {
        for line in text.lines() {
            let mut words = line.split_whitespace();
            if let (Some("alias"), Some(pattern), Some(module)) =
                (words.next(), words.next(), words.next())
            {
                let entry = (pattern.to_owned(), normalized(module));
                self.aliases.entry(bus_of(pattern)).or_default().push(entry);
            }
        }
    }

    /// `softdep MODULE pre: A B post: C`.
    fn add_soft_dependencies(&mut self, text: &str) {
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let (Some("softdep"), Some(module)) = (words.next(), words.next()) else {
                continue;
            };
            let (before, after) = self.soft.entry(normalized(module)).or_default();
            let mut list = None;
            for word in words {
                match (word, &mut list) {
                    ("pre:", list) => *list = Some(false),
                    ("post:", list) => *list = Some(true),
                    (name, Some(false)) => before.push(normalized(name)),
                    (name, Some(true)) => after.push(normalized(name)),
                    (_, None) => {}
                }
            }
        }
    }

    /// The modules that drive the hardware with this alias.
    pub fn modules_for(&self, modalias: &str) -> Vec<&str> {
        let mut found: Vec<&str> = Vec::new();
        // Patterns such as `acpi*:PNP…` sit under the bus without the star.
        let patterns = self.aliases.get(&bus_of(modalias)).into_iter().flatten();
        for (pattern, module) in patterns {
            if glob::matches(pattern, modalias) && !found.contains(&module.as_str()) {
                found.push(module);
            }
        }
        found
    }

    /// Files to load for a module or an alias such as `fs-efivarfs`, in order,
    /// the module itself last but for its soft followers. Empty when there is
    /// no such module, as for one that is built in.
    pub fn files_for(&self, name: &str) -> Vec<PathBuf> {
        let mut files = Vec::new();
        self.collect(&normalized(name), 0, &mut files);
        if files.is_empty() {
            for module in self.modules_for(name) {
                self.collect(module, 0, &mut files);
            }
        }
        files
    }

    fn collect(&self, name: &str, depth: u32, files: &mut Vec<PathBuf>) {
        // Soft dependencies may go in circles.
        let Some((file, before)) = self.modules.get(name).filter(|_| depth < 8) else {
            return;
        };
        let soft = self.soft.get(name);
        for name in soft.map(|(pre, _)| pre.as_slice()).unwrap_or_default() {
            self.collect(name, depth + 1, files);
        }
        for path in before.iter().chain([file]) {
            if !files.contains(path) {
                files.push(path.clone());
            }
        }
        for name in soft.map(|(_, post)| post.as_slice()).unwrap_or_default() {
            self.collect(name, depth + 1, files);
        }
    }
}

/// Module names have underscores, whatever their files have.
fn normalized(name: &str) -> String {
    name.replace('-', "_")
}

fn module_name(file: &str) -> String {
    let base = file.rsplit('/').next().unwrap_or(file);
    normalized(base.split_once(".ko").map_or(base, |(name, _)| name))
}

/// What stands before the first `:`, up to a star.
fn bus_of(alias: &str) -> String {
    let bus = alias.split_once(':').map_or("", |(bus, _)| bus);
    bus.trim_end_matches('*').to_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::Index;

    fn index() -> Index {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        write(
            "modules.dep",
            "kernel/net/virtio_net.ko: kernel/net/net_failover.ko kernel/net/failover.ko\n\
             kernel/net/net_failover.ko: kernel/net/failover.ko\nkernel/net/failover.ko:\n\
             kernel/fs/efivarfs.ko.xz:\nkernel/crypto/crc32c-intel.ko:\nkernel/lib/libcrc32c.ko:\n",
        );
        write(
            "modules.alias",
            "# Aliases extracted from modules themselves.\n\
             alias virtio:d00000001v* virtio_net\nalias fs-efivarfs efivarfs\n\
             alias acpi*:PNP0501:* virtio-net\n",
        );
        write(
            "modules.softdep",
            "softdep libcrc32c pre: crc32c post: crc32c-intel libcrc32c\n",
        );
        let index = Index::read(dir.path());
        assert!(!index.is_empty());
        index
    }

    fn names(index: &Index, name: &str) -> Vec<String> {
        let base = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
        index
            .files_for(name)
            .iter()
            .map(|path| base(path))
            .collect()
    }

    #[test]
    fn dependencies_come_first() {
        let index = index();
        assert_eq!(
            names(&index, "virtio-net"),
            ["failover.ko", "net_failover.ko", "virtio_net.ko"]
        );
        assert_eq!(names(&index, "fs-efivarfs"), ["efivarfs.ko.xz"]);
        assert_eq!(
            names(&index, "libcrc32c"),
            ["libcrc32c.ko", "crc32c-intel.ko"]
        );
        assert!(names(&index, "ext4").is_empty());
    }

    #[test]
    fn hardware_finds_its_modules() {
        let index = index();
        assert_eq!(
            index.modules_for("virtio:d00000001v00001AF4"),
            ["virtio_net"]
        );
        assert_eq!(index.modules_for("acpi:PNP0501:"), ["virtio_net"]);
        assert!(index.modules_for("virtio:d00000002v00001AF4").is_empty());
    }

    /// The index of the kernel that runs here, if it is installed.
    #[test]
    fn reads_a_real_index() {
        for dir in fs::read_dir("/lib/modules").into_iter().flatten().flatten() {
            let index = Index::read(&dir.path());
            if !index.is_empty() {
                let alias = "pci:v00008086d000010D3sv00008086sd0000A01Fbc02sc00i00";
                let modules = index.modules_for(alias);
                assert!(
                    modules.is_empty() || modules.contains(&"e1000e"),
                    "{modules:?}"
                );
            }
        }
    }
}

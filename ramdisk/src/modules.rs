//! A kernel's module tree, and the chosen part of it with the tables that a
//! module loader reads.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;

use crate::modinfo;
use crate::modinfo::ModInfo;
use crate::modinfo::underscored;

/// Deepest folder below `kernel/` that is looked into.
const DEPTH_MAX: usize = 12;

/// One module that goes into the ramdisk.
#[derive(Debug, Clone)]
struct Module {
    /// Path below `/lib/modules/VERSION`, for example
    /// `kernel/drivers/nvme/host/nvme.ko`.
    path: String,
    /// The file.
    content: Vec<u8>,
    info: ModInfo,
}

/// Chosen modules by name, closed over their dependencies.
#[derive(Debug, Clone, Default)]
pub(crate) struct Modules {
    by_name: BTreeMap<String, Module>,
    builtin: String,
}

impl Modules {
    /// Takes the modules `wanted` and all they need out of `tree`, a
    /// `/lib/modules/VERSION` folder.
    pub(crate) fn choose<'a>(
        tree: &Path,
        wanted: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self> {
        let mut files = BTreeMap::new();
        find(&tree.join("kernel"), 0, &mut files)?;
        let list = tree.join("modules.builtin");
        let builtin =
            fs::read_to_string(&list).with_context(|| format!("reading {}", list.display()))?;
        let built_in: BTreeSet<String> = builtin.lines().filter_map(module_name).collect();
        let mut chosen = Self {
            by_name: BTreeMap::new(),
            builtin,
        };
        let mut queue: Vec<(String, Option<String>)> = wanted
            .into_iter()
            .map(|name| (underscored(name), None))
            .collect();
        while let Some((name, needed_by)) = queue.pop() {
            if chosen.by_name.contains_key(&name) || built_in.contains(&name) {
                continue;
            }
            let Some(file) = files.get(&name) else {
                match needed_by {
                    Some(by) => bail!("module {by} needs {name}, which {} lacks", tree.display()),
                    None => bail!("no module {name} in {}", tree.display()),
                }
            };
            let content = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
            let info = modinfo::parse(&content).with_context(|| file.display().to_string())?;
            queue.extend(info.depends.iter().map(|d| (d.clone(), Some(name.clone()))));
            // Soft dependencies are wishes: taken where the kernel has them.
            let soft = info.softdep.iter().flat_map(|line| line.split_whitespace());
            let soft = soft.filter(|word| !word.ends_with(':')).map(underscored);
            queue.extend(soft.filter(|s| files.contains_key(s)).map(|s| (s, None)));
            let path = file.strip_prefix(tree).context("file outside its tree")?;
            let path = path
                .to_str()
                .context("module path is not UTF-8")?
                .to_owned();
            chosen.by_name.insert(
                name,
                Module {
                    path,
                    content,
                    info,
                },
            );
        }
        Ok(chosen)
    }

    /// Everything that belongs below `/lib/modules/VERSION`: modules, then
    /// tables.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, Cow<'_, [u8]>)> {
        let tables = [
            ("modules.dep", self.dep()),
            ("modules.alias", self.alias()),
            ("modules.softdep", self.softdep()),
            ("modules.builtin", self.builtin.clone()),
        ];
        let modules = self.by_name.values();
        modules
            .map(|module| {
                (
                    module.path.as_str(),
                    Cow::Borrowed(module.content.as_slice()),
                )
            })
            .chain(tables.map(|(name, text)| (name, Cow::Owned(text.into_bytes()))))
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Names of the firmware files that they may ask for.
    pub(crate) fn firmware(&self) -> BTreeSet<&str> {
        self.by_name
            .values()
            .flat_map(|m| m.info.firmware.iter().map(String::as_str))
            .collect()
    }

    /// `modules.dep`: each file with all it needs, the most basic last.
    fn dep(&self) -> String {
        let mut out = String::new();
        for (name, module) in &self.by_name {
            let mut order = Vec::new();
            self.visit(name, &mut order, &mut BTreeSet::new());
            // The module itself comes out last.
            order.pop();
            let _ = write!(out, "{}:", module.path);
            for dependency in order.iter().rev() {
                let _ = write!(out, " {}", self.by_name[*dependency].path);
            }
            out.push('\n');
        }
        out
    }

    /// `modules.alias`.
    fn alias(&self) -> String {
        self.table("alias", |name, info| {
            info.alias
                .iter()
                .map(|pattern| format!("{pattern} {name}"))
                .collect()
        })
    }

    /// `modules.softdep`.
    fn softdep(&self) -> String {
        self.table("softdep", |name, info| {
            info.softdep
                .iter()
                .map(|wish| format!("{name} {wish}"))
                .collect()
        })
    }

    fn table(&self, word: &str, rows: impl Fn(&str, &ModInfo) -> Vec<String>) -> String {
        let mut out = String::new();
        for (name, module) in &self.by_name {
            for row in rows(name, &module.info) {
                let _ = writeln!(out, "{word} {row}");
            }
        }
        out
    }

    /// Dependencies first, each once; built-in ones are not there.
    fn visit<'a>(&'a self, name: &'a str, order: &mut Vec<&'a str>, seen: &mut BTreeSet<&'a str>) {
        let Some(module) = self.by_name.get(name) else {
            return;
        };
        if !seen.insert(name) {
            return;
        }
        for dependency in &module.info.depends {
            self.visit(dependency, order, seen);
        }
        order.push(name);
    }
}

/// Module name of a path ending in `.ko`.
fn module_name(path: &str) -> Option<String> {
    let file = path.rsplit('/').next()?;
    file.strip_suffix(".ko").map(underscored)
}

fn find(dir: &Path, depth: usize, files: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    if depth > DEPTH_MAX {
        return Ok(());
    }
    for entry in fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))? {
        let entry = entry.with_context(|| format!("reading {}", dir.display()))?;
        let path = entry.path();
        if entry
            .file_type()
            .with_context(|| path.display().to_string())?
            .is_dir()
        {
            find(&path, depth + 1, files)?;
        } else if let Some(name) = path.to_str().and_then(module_name) {
            files.insert(name, path);
        }
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;
    use std::path::Path;

    use super::Modules;
    use crate::modinfo::tests::elf;

    /// A small module tree: net-a needs mii and usb-core, usb-core needs
    /// common; common is also needed by mii; crc is built in.
    pub(crate) fn tree(dir: &Path) {
        for (path, info) in [
            (
                "kernel/net/net-a.ko",
                &b"depends=mii,usb-core\0alias=pci:a*\0softdep=pre: fast crc\0firmware=a/fw.bin\0"
                    [..],
            ),
            ("kernel/net/mii.ko", b"depends=common,crc\0"),
            ("kernel/usb/usb-core.ko", b"depends=common\0"),
            ("kernel/lib/common.ko", b"depends=\0"),
            ("kernel/lib/fast.ko", b"depends=\0"),
            ("kernel/lib/other.ko", b"depends=absent\0"),
        ] {
            let path = dir.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, elf(info)).unwrap();
        }
        fs::write(dir.join("modules.builtin"), "kernel/lib/crc.ko\n").unwrap();
    }

    #[test]
    fn a_choice_is_closed_over_dependencies() {
        let dir = tempfile::tempdir().unwrap();
        tree(dir.path());
        let chosen = Modules::choose(dir.path(), ["net_a"]).unwrap();
        let names: Vec<_> = chosen.by_name.keys().map(String::as_str).collect();
        assert_eq!(names, ["common", "fast", "mii", "net_a", "usb_core"]);
        let dep = chosen.dep();
        assert!(
            dep.contains(
                "kernel/net/net-a.ko: kernel/usb/usb-core.ko kernel/net/mii.ko kernel/lib/common.ko\n"
            ),
            "{dep}"
        );
        assert!(dep.contains("kernel/lib/common.ko:\n"), "{dep}");
        assert_eq!(chosen.alias(), "alias pci:a* net_a\n");
        assert_eq!(chosen.softdep(), "softdep net_a pre: fast crc\n");
        assert_eq!(
            chosen.firmware().into_iter().collect::<Vec<_>>(),
            ["a/fw.bin"]
        );
    }

    #[test]
    fn what_is_not_there_is_named() {
        let dir = tempfile::tempdir().unwrap();
        tree(dir.path());
        let error = Modules::choose(dir.path(), ["nvme"])
            .unwrap_err()
            .to_string();
        assert!(error.contains("no module nvme"), "{error}");
        let error = Modules::choose(dir.path(), ["other"])
            .unwrap_err()
            .to_string();
        assert!(error.contains("other needs absent"), "{error}");
        assert_eq!(
            Modules::choose(dir.path(), ["crc"]).unwrap().len(),
            0,
            "built in"
        );
    }
}

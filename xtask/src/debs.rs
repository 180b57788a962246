//! Distribution packages that are unpacked, never installed: kernels, boot
//! loaders, programs of the ramdisk. They come from wherever the machine's own
//! apt is set up to look. Those for another kind of machine go through lists of
//! their own (`target/apt`), so that this machine's apt does not hear of them.

use std::collections::BTreeSet;
use std::fs;
use std::fs::File;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use anyhow::Result;

use crate::arch::Arch;
use crate::command::EX_UNAVAILABLE;
use crate::command::Exit;
use crate::command::artefacts;
use crate::command::find_program;
use crate::command::is_root;
use crate::command::output;
use crate::command::retried;
use crate::command::run;

/// Fetches and unpacks `packages`, each once per version; the folders come
/// in the same order.
pub(crate) fn fetch(packages: &[&str]) -> Result<Vec<PathBuf>> {
    Archive::of(Arch::host())?.fetch(packages)
}

/// The package that the package `meta` depends on whose name starts with
/// `prefix`: the real kernel behind `linux-image-amd64`.
pub(crate) fn behind(meta: &str, prefix: &str) -> Result<String> {
    Archive::of(Arch::host())?.behind(meta, prefix)
}

/// Renews apt's lists; needs root.
pub(crate) fn update() -> Result<()> {
    Archive::of(Arch::host())?.update()
}

/// The distribution's packages for one kind of machine.
pub(crate) struct Archive {
    arch: Arch,
    /// Options of every apt command; none for this machine's own kind.
    options: Vec<String>,
}

impl Archive {
    /// Those for `arch`.
    pub(crate) fn of(arch: Arch) -> Result<Self> {
        if find_program("apt-get").is_none() {
            let message = "this machine has no apt-get to fetch packages with";
            return Err(Exit::new(EX_UNAVAILABLE, message).into());
        }
        let options = if arch == Arch::host() {
            Vec::new()
        } else {
            private(arch, &artefacts("apt").join(arch.debian()))?
        };
        Ok(Self { arch, options })
    }

    /// Whether the lists are our own: then they can be renewed by anybody.
    fn is_private(&self) -> bool {
        !self.options.is_empty()
    }

    /// Fetches and unpacks `packages`, each once per version; the folders come
    /// in the same order.
    pub(crate) fn fetch(&self, packages: &[&str]) -> Result<Vec<PathBuf>> {
        let store = artefacts("debs");
        fs::create_dir_all(&store).with_context(|| format!("creating {}", store.display()))?;
        // Another command may want the same package at the same time.
        let lock = store.join("lock");
        let lock = File::create(&lock).with_context(|| format!("creating {}", lock.display()))?;
        lock.lock()
            .context("waiting for another command that fetches packages")?;
        let folders = |names: Vec<String>| names.iter().map(|n| store.join(folder(n))).collect();
        let names = self.file_names(packages)?;
        let dirs: Vec<PathBuf> = folders(names);
        let missing: Vec<&str> = packages
            .iter()
            .zip(&dirs)
            .filter(|(_, dir)| !dir.is_dir())
            .map(|(package, _)| *package)
            .collect();
        if missing.is_empty() {
            return Ok(dirs);
        }
        println!("fetching {}", missing.join(" "));
        retried("fetching packages", || {
            // Another user's sandbox cannot write here: the message about it is
            // no news.
            output(
                self.apt_get()
                    .args(["download", "-q", "-o", "APT::Sandbox::User=root"])
                    .args(&missing)
                    .current_dir(&store),
            )
            .inspect_err(|_| {
                let _ = self.update();
            })
        })?;
        // The lists may have been renewed meanwhile.
        let names = self.file_names(packages)?;
        for name in &names {
            let (file, dir) = (store.join(name), store.join(folder(name)));
            if dir.is_dir() {
                continue;
            }
            let partial = store.join("partial");
            let _ = fs::remove_dir_all(&partial);
            run(Command::new("dpkg-deb").arg("-x").arg(&file).arg(&partial))?;
            fs::rename(&partial, &dir).with_context(|| format!("naming {}", dir.display()))?;
            let _ = fs::remove_file(&file);
        }
        Ok(folders(names))
    }

    /// The package that the package `meta` depends on whose name starts with
    /// `prefix`.
    pub(crate) fn behind(&self, meta: &str, prefix: &str) -> Result<String> {
        self.file_names(&[meta])?;
        let shown = output(
            self.apt_cache()
                .args(["show", "--no-all-versions"])
                .arg(meta),
        )?;
        shown
            .lines()
            .filter_map(|line| line.strip_prefix("Depends: "))
            .flat_map(|list| list.split(','))
            .filter_map(|dependency| dependency.split_whitespace().next())
            .find(|name| name.starts_with(prefix))
            .map(str::to_owned)
            .with_context(|| format!("package {meta} depends on no package {prefix}*"))
    }

    /// Packages that `package` cannot be without, alternatives among them.
    pub(crate) fn dependencies(&self, package: &str) -> Result<BTreeSet<String>> {
        let shown = output(
            self.apt_cache()
                .args([
                    "depends",
                    "--no-recommends",
                    "--no-suggests",
                    "--no-conflicts",
                    "--no-breaks",
                    "--no-replaces",
                    "--no-enhances",
                ])
                .arg(package),
        )?;
        Ok(dependencies_of(&shown))
    }

    /// What apt knows of a package's size once unpacked, in KiB; nothing where
    /// it knows no such package.
    pub(crate) fn installed_kib(&self, package: &str) -> Option<u64> {
        let mut command = self.apt_cache();
        let shown = output(command.args(["show", "--no-all-versions"]).arg(package)).ok()?;
        let line = shown
            .lines()
            .find_map(|l| l.strip_prefix("Installed-Size: "))?;
        line.trim().parse().ok()
    }

    /// Renews apt's lists; needs root, unless they are our own.
    pub(crate) fn update(&self) -> Result<()> {
        println!("renewing the package lists of {}", self.arch.debian());
        retried("apt-get update", || {
            output(
                self.apt_get()
                    .args(["update", "-q", "-o", "DPkg::Lock::Timeout=300"]),
            )
            .map(drop)
        })
    }

    /// Names of the files that apt would fetch, in the packages' order.
    fn file_names(&self, packages: &[&str]) -> Result<Vec<String>> {
        match self.print_uris(packages) {
            Ok(names) => Ok(names),
            Err(error) if !self.is_private() && !is_root() => {
                let message = format!("{error:#}; run `sudo apt-get update` and try again");
                Err(Exit::new(EX_UNAVAILABLE, message).into())
            }
            Err(_) => {
                self.update()?;
                self.print_uris(packages)
            }
        }
    }

    fn print_uris(&self, packages: &[&str]) -> Result<Vec<String>> {
        let mut command = self.apt_get();
        let printed = output(command.args(["download", "--print-uris"]).args(packages))?;
        packages
            .iter()
            .map(|package| file_of(package, &printed))
            .collect()
    }

    fn apt_get(&self) -> Command {
        let mut command = Command::new("apt-get");
        command.args(&self.options);
        command
    }

    fn apt_cache(&self) -> Command {
        let mut command = Command::new("apt-cache");
        command.args(&self.options);
        command
    }
}

/// Folders for lists of another architecture below `root`, and the options
/// that make apt use them. Where to look stays what this machine is set up
/// with.
fn private(arch: Arch, root: &Path) -> Result<Vec<String>> {
    let (state, cache, status) = (root.join("state"), root.join("cache"), root.join("status"));
    for folder in [state.join("lists/partial"), cache.join("archives/partial")] {
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    }
    if !status.exists() {
        fs::write(&status, "").with_context(|| format!("creating {}", status.display()))?;
    }
    let pairs = [
        ("APT::Architecture", arch.debian().to_owned()),
        ("APT::Architectures", arch.debian().to_owned()),
        ("APT::Sandbox::User", "root".to_owned()),
        ("Dir::State", state.display().to_string()),
        ("Dir::State::status", status.display().to_string()),
        ("Dir::Cache", cache.display().to_string()),
    ];
    Ok(pairs
        .into_iter()
        .flat_map(|(name, value)| ["-o".to_owned(), format!("{name}={value}")])
        .collect())
}

/// Name of the folder that a package file is unpacked to: it carries the
/// version.
fn folder(file: &str) -> String {
    file.trim_end_matches(".deb").replace("%3a", "-")
}

/// The package that a folder of [`Archive::fetch`] was unpacked from.
pub(crate) fn package_of(folder: &Path) -> Option<&str> {
    let name = folder.file_name()?.to_str()?;
    name.split_once('_').map(|(package, _)| package)
}

/// The names in the output of `apt-cache depends`; virtual packages are in
/// angle brackets.
fn dependencies_of(shown: &str) -> BTreeSet<String> {
    shown
        .lines()
        .filter_map(|line| line.split_once("Depends: "))
        .map(|(_, name)| name.trim())
        .filter(|name| !name.starts_with('<'))
        .map(|name| name.split(':').next().unwrap_or(name).to_owned())
        .collect()
}

/// The file of one package in lines of `'URL' FILE SIZE HASH`.
fn file_of(package: &str, printed: &str) -> Result<String> {
    printed
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1))
        .find(|file| {
            file.strip_prefix(package)
                .is_some_and(|rest| rest.starts_with('_'))
        })
        .map(str::to_owned)
        .with_context(|| format!("apt would fetch no file for package {package}"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::dependencies_of;
    use super::file_of;
    use super::folder;
    use super::package_of;

    #[test]
    fn files_are_found_by_package() {
        let printed = "'x:a' grub-common_2.06-13_amd64.deb 1 SHA256:0\n\
                       'x:b' busybox-static_1%3a1.35_amd64.deb 2 SHA256:1\n";
        assert_eq!(
            file_of("grub-common", printed).unwrap(),
            "grub-common_2.06-13_amd64.deb"
        );
        let file = file_of("busybox-static", printed).unwrap();
        assert_eq!(folder(&file), "busybox-static_1-1.35_amd64");
        assert_eq!(
            package_of(Path::new("/x/busybox-static_1-1.35_amd64")),
            Some("busybox-static")
        );
        assert!(file_of("grub", printed).is_err());
    }

    #[test]
    fn dependencies_are_real_packages() {
        let shown = "mdadm\n  PreDepends: init-system-helpers\n |Depends: debconf\n  \
                     Depends: <debconf-2.0>\n    cdebconf\n  Depends: libc6\n  \
                     Depends: python3:any\n";
        let found: Vec<String> = dependencies_of(shown).into_iter().collect();
        assert_eq!(
            found,
            ["debconf", "init-system-helpers", "libc6", "python3"]
        );
    }
}

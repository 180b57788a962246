//! Distribution packages that are unpacked, never installed: kernels, boot
//! loaders. They come from wherever the machine's own apt is set up to look.

use std::fs;
use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use anyhow::Result;

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
    let store = artefacts("debs");
    fs::create_dir_all(&store).with_context(|| format!("creating {}", store.display()))?;
    // Another command may want the same package at the same time.
    let lock = store.join("lock");
    let lock = File::create(&lock).with_context(|| format!("creating {}", lock.display()))?;
    lock.lock()
        .context("waiting for another command that fetches packages")?;
    let folders = |names: Vec<String>| names.iter().map(|n| store.join(folder(n))).collect();
    let names = file_names(packages)?;
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
            Command::new("apt-get")
                .args(["download", "-q", "-o", "APT::Sandbox::User=root"])
                .args(&missing)
                .current_dir(&store),
        )
        .inspect_err(|_| {
            let _ = update();
        })
    })?;
    // The lists may have been renewed meanwhile.
    let names = file_names(packages)?;
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

/// Name of the folder that a package file is unpacked to: it carries the
/// version.
fn folder(file: &str) -> String {
    file.trim_end_matches(".deb").replace("%3a", "-")
}

/// The package that the package `meta` depends on whose name starts with
/// `prefix`: the real kernel behind `linux-image-amd64`.
pub(crate) fn behind(meta: &str, prefix: &str) -> Result<String> {
    file_names(&[meta])?;
    let shown = output(Command::new("apt-cache").args(["show", "--no-all-versions", meta]))?;
    shown
        .lines()
        .filter_map(|line| line.strip_prefix("Depends: "))
        .flat_map(|list| list.split(','))
        .filter_map(|dependency| dependency.split_whitespace().next())
        .find(|name| name.starts_with(prefix))
        .map(str::to_owned)
        .with_context(|| format!("package {meta} depends on no package {prefix}*"))
}

/// Renews apt's lists; needs root.
pub(crate) fn update() -> Result<()> {
    println!("renewing the package lists");
    retried("apt-get update", || {
        output(Command::new("apt-get").args(["update", "-q", "-o", "DPkg::Lock::Timeout=300"]))
            .map(drop)
    })
}

/// Names of the files that apt would fetch, in the packages' order.
fn file_names(packages: &[&str]) -> Result<Vec<String>> {
    if find_program("apt-get").is_none() {
        let wanted = packages.join(", ");
        let message = format!("this machine has no apt-get to fetch {wanted} with");
        return Err(Exit::new(EX_UNAVAILABLE, message).into());
    }
    match print_uris(packages) {
        Ok(names) => Ok(names),
        Err(error) if !is_root() => {
            let message = format!("{error:#}; run `sudo apt-get update` and try again");
            Err(Exit::new(EX_UNAVAILABLE, message).into())
        }
        Err(_) => {
            update()?;
            print_uris(packages)
        }
    }
}

fn print_uris(packages: &[&str]) -> Result<Vec<String>> {
    let mut command = Command::new("apt-get");
    let printed = output(command.args(["download", "--print-uris"]).args(packages))?;
    packages
        .iter()
        .map(|package| file_of(package, &printed))
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
    use super::file_of;
    use super::folder;

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
        assert!(file_of("grub", printed).is_err());
    }
}

//! Distribution packages that are unpacked, never installed: kernels, boot
//! loaders. They come from wherever the machine's own apt is set up to look.

use std::fs;
use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;

use crate::command::EX_UNAVAILABLE;
use crate::command::Exit;
use crate::command::artefacts;
use crate::command::find_program;
use crate::command::is_root;
use crate::command::output;
use crate::command::retried;
use crate::command::run;

/// An unpacked package.
#[derive(Debug, Clone)]
pub(crate) struct Deb {
    /// Folder that holds what the package would put at `/`.
    pub(crate) dir: PathBuf,
}

/// Fetches and unpacks `package`, once per version.
pub(crate) fn fetch(package: &str) -> Result<Deb> {
    let store = artefacts("debs");
    fs::create_dir_all(&store).with_context(|| format!("creating {}", store.display()))?;
    // Another command may want the same package at the same time.
    let lock = store.join("lock");
    let lock = File::create(&lock).with_context(|| format!("creating {}", lock.display()))?;
    lock.lock()
        .context("waiting for another command that fetches packages")?;
    let dir = store.join(folder(&file_name(package)?));
    if dir.is_dir() {
        return Ok(Deb { dir });
    }
    println!("fetching package {package}");
    retried(&format!("fetching {package}"), || {
        // Another user's sandbox cannot write here: the message about it is
        // no news.
        output(
            Command::new("apt-get")
                .args(["download", "-q", "-o", "APT::Sandbox::User=root", package])
                .current_dir(&store),
        )
        .inspect_err(|_| {
            let _ = update();
        })
    })?;
    // The lists may have been renewed meanwhile.
    let name = file_name(package)?;
    let (file, dir) = (store.join(&name), store.join(folder(&name)));
    let partial = dir.with_extension("partial");
    let _ = fs::remove_dir_all(&partial);
    run(Command::new("dpkg-deb").arg("-x").arg(&file).arg(&partial))?;
    fs::rename(&partial, &dir).with_context(|| format!("naming {}", dir.display()))?;
    let _ = fs::remove_file(&file);
    Ok(Deb { dir })
}

/// Name of the folder that a package file is unpacked to: it carries the
/// version.
fn folder(file: &str) -> String {
    file.trim_end_matches(".deb").replace("%3a", "-")
}

/// The package that the package `meta` depends on whose name starts with
/// `prefix`: the real kernel behind `linux-image-amd64`.
pub(crate) fn behind(meta: &str, prefix: &str) -> Result<String> {
    file_name(meta)?;
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

/// Name of the file that apt would fetch.
fn file_name(package: &str) -> Result<String> {
    if find_program("apt-get").is_none() {
        return Err(Exit::new(
            EX_UNAVAILABLE,
            format!("package {package} is needed and this machine has no apt-get"),
        )
        .into());
    }
    match print_uri(package) {
        Ok(name) => Ok(name),
        Err(error) if !is_root() => Err(Exit::new(
            EX_UNAVAILABLE,
            format!("{error:#}; run `sudo apt-get update` and try again"),
        )
        .into()),
        Err(_) => {
            update()?;
            print_uri(package)
        }
    }
}

fn print_uri(package: &str) -> Result<String> {
    let printed = output(Command::new("apt-get").args(["download", "--print-uris", package]))?;
    // 'URL' FILE SIZE HASH
    match printed.split_whitespace().nth(1) {
        Some(name) if name.ends_with(".deb") => Ok(name.to_owned()),
        _ => bail!(
            "apt knows no package {package} (it printed {:?})",
            printed.trim()
        ),
    }
}

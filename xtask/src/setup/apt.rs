//! Distribution packages.

use std::path::Path;
use std::process::Command;

use anyhow::Context;
use anyhow::Result;

use crate::command::find_program;
use crate::command::output;
use crate::command::retried;
use crate::debs;

/// Two packages of one source that must have one version.
const QEMU: &[&str] = &["qemu-system-x86", "qemu-utils"];
/// Another one of it, which is not always wanted.
const QEMU_ARM: &str = "qemu-system-arm";

/// Whether this is Debian or made from it.
pub(crate) fn is_debian() -> bool {
    Path::new("/etc/debian_version").exists() && find_program("apt-get").is_some()
}

/// Those of `packages` that are not installed; all, where dpkg is not there
/// to ask.
pub(crate) fn missing<'a>(packages: &[&'a str]) -> Result<Vec<&'a str>> {
    if find_program("dpkg-query").is_none() {
        return Ok(packages.to_vec());
    }
    let installed =
        output(Command::new("dpkg-query").args(["-W", "-f", "${db:Status-Status} ${Package}\n"]))?;
    let installed: Vec<&str> = installed
        .lines()
        .filter_map(|line| line.strip_prefix("installed "))
        .collect();
    Ok(packages
        .iter()
        .filter(|name| !installed.contains(name))
        .copied()
        .collect())
}

/// Where Debian's PostgreSQL reads whether it is to start a server of its own.
const CLUSTERS: &str = "/etc/postgresql-common/createcluster.conf";

/// Keeps PostgreSQL from making and starting a server when it is installed:
/// tests start theirs. What an administrator has written there stays.
pub(crate) fn without_cluster() -> Result<()> {
    let file = Path::new(CLUSTERS);
    if file.exists() {
        return Ok(());
    }
    println!("writing {CLUSTERS}, so that no server is started");
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    std::fs::write(file, "create_main_cluster = false\n").context(CLUSTERS)
}

/// Installs `packages`.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    debs::update()?;
    println!("installing {}", packages.join(" "));
    let wanted: Vec<String> = packages.iter().map(|name| (*name).to_owned()).collect();
    if satisfiable(&wanted, false) {
        return apt_get(&wanted, false);
    }
    // A QEMU of which one half came from an archive that is not set up any
    // more: both from the archive that is.
    let pinned = with_versions(&wanted)?;
    println!(
        "they conflict with what is installed; taking {} instead",
        pinned.join(" ")
    );
    apt_get(&pinned, true)
}

fn arguments(packages: &[String], downgrade: bool) -> Vec<String> {
    let mut args: Vec<String> = [
        "install",
        "-y",
        "-q",
        "--no-install-recommends",
        "-o",
        "DPkg::Lock::Timeout=300",
        "-o",
        "Dpkg::Options::=--force-confold",
    ]
    .map(str::to_owned)
    .to_vec();
    if downgrade {
        args.push("--allow-downgrades".to_owned());
    }
    args.extend_from_slice(packages);
    args
}

fn satisfiable(packages: &[String], downgrade: bool) -> bool {
    output(
        Command::new("apt-get")
            .arg("-s")
            .args(arguments(packages, downgrade)),
    )
    .is_ok()
}

fn apt_get(packages: &[String], downgrade: bool) -> Result<()> {
    retried("apt-get install", || {
        output(
            Command::new("apt-get")
                .args(arguments(packages, downgrade))
                .env("DEBIAN_FRONTEND", "noninteractive"),
        )
        .map(drop)
    })
}

/// `packages` with the QEMU ones fixed to the archive's newest version.
fn with_versions(packages: &[String]) -> Result<Vec<String>> {
    let mut wanted: Vec<String> = packages
        .iter()
        .filter(|name| !QEMU.contains(&name.as_str()) && *name != QEMU_ARM)
        .cloned()
        .collect();
    let arm = packages.iter().any(|name| name == QEMU_ARM);
    for name in QEMU.iter().chain(arm.then_some(&QEMU_ARM)) {
        let table = output(Command::new("apt-cache").args(["madison", name]))?;
        let version = newest(&table)
            .with_context(|| format!("no archive that apt is set up for has {name}"))?;
        wanted.push(format!("{name}={version}"));
    }
    Ok(wanted)
}

/// Version in the first row of `apt-cache madison`, its newest.
fn newest(table: &str) -> Option<&str> {
    table.lines().next()?.split('|').nth(1).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::missing;
    use super::newest;

    #[test]
    fn the_newest_version_comes_first() {
        let table = "qemu-utils | 1:7.2+dfsg-7+b3 | archive main\nqemu-utils | 1:7.1 | old main\n";
        assert_eq!(newest(table), Some("1:7.2+dfsg-7+b3"));
        assert_eq!(newest(""), None);
    }

    #[test]
    fn packages_that_cannot_exist_are_missing() {
        assert_eq!(
            missing(&["wrought-no-such-package"]).unwrap(),
            ["wrought-no-such-package"]
        );
    }
}

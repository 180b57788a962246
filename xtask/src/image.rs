//! `cargo xtask image`: fetches what images are made from and builds them in
//! `target/images`.

use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::command::EX_UNAVAILABLE;
use crate::command::EX_USAGE;
use crate::command::Exit;
use crate::command::artefacts;
use crate::command::cargo;
use crate::command::is_root;
use crate::command::output;
use crate::command::run;
use crate::debs;

/// Boot loaders, the program that makes GRUB's core image, and the library
/// that it needs.
const LOADERS: &[&str] = &[
    "shim-signed",
    "shim-unsigned",
    "shim-helpers-amd64-signed",
    "grub-efi-amd64-signed",
    "grub-pc-bin",
    "grub-common",
    "libdevmapper1.02.1",
];

/// Runs the command.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let names: Vec<&str> = args.iter().map(String::as_str).collect();
    match names.as_slice() {
        [] => {
            tiny()?;
            debian()
        }
        ["debian"] => debian(),
        ["tiny"] => tiny(),
        ["raid"] => raid(),
        _ => Err(Exit::new(EX_USAGE, "usage: cargo xtask image [debian|tiny|raid]").into()),
    }
}

fn debian() -> Result<()> {
    if !is_root() {
        return Err(Exit::new(
            EX_UNAVAILABLE,
            "the Debian image is built as root: its files' owners are real ones",
        )
        .into());
    }
    let packages = packages(&[])?;
    println!("building the Debian image, if anything it is made from changed (minutes)");
    image("debian", &packages.all, None)
}

fn tiny() -> Result<()> {
    small("tiny", &["busybox-static"])
}

/// What tiny is, on software RAID: mdadm with its libraries comes along.
fn raid() -> Result<()> {
    small("raid", &["busybox-static", "mdadm", "libc6", "libudev1"])
}

fn small(name: &str, more: &[&str]) -> Result<()> {
    let packages = packages(more)?;
    let list = format!("{name}-modules");
    let names = output(cargo().args([
        "run",
        "--quiet",
        "-p",
        "wrought-image-build",
        "--",
        list.as_str(),
    ]))?;
    let modules = artefacts(&format!("images/{list}"));
    let mut command = cargo();
    command.args([
        "run",
        "--quiet",
        "-p",
        "wrought-ramdisk",
        "--",
        "modules",
        "--kernel",
    ]);
    command.arg(&packages.kernel).arg("--out").arg(&modules);
    run(command.args(names.split_whitespace()))?;
    image(name, &packages.all, Some(&modules))
}

fn image(name: &str, packages: &[PathBuf], modules: Option<&Path>) -> Result<()> {
    let mut command: Command = cargo();
    command.args([
        "run",
        "--quiet",
        "-p",
        "wrought-image-build",
        "--",
        name,
        "--out",
    ]);
    command.arg(artefacts("images"));
    if let Some(modules) = modules {
        command.arg("--modules").arg(modules);
    }
    for package in packages {
        command.arg("--package").arg(package);
    }
    run(&mut command)
}

/// Unpacked boot loaders, kernel, and `more`.
fn packages(more: &[&str]) -> Result<Packages> {
    let kernel = debs::behind("linux-image-amd64", "linux-image-")?;
    let mut names = vec![kernel.as_str()];
    names.extend(LOADERS);
    names.extend(more);
    let all = debs::fetch(&names)?;
    let kernel = all[0].clone();
    Ok(Packages { all, kernel })
}

/// Folders of unpacked packages.
struct Packages {
    all: Vec<PathBuf>,
    kernel: PathBuf,
}

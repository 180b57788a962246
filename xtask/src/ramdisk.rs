//! `cargo xtask ramdisk`: fetches what the ramdisk is made from and builds
//! it in `target/ramdisk`.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;

use crate::arch::Arch;
use crate::command::EX_UNAVAILABLE;
use crate::command::EX_USAGE;
use crate::command::Exit;
use crate::command::artefacts;
use crate::command::cargo;
use crate::command::output;
use crate::command::run;
use crate::debs;
use crate::debs::Archive;
use crate::toolchain;

const USAGE: &str = "\
usage: cargo xtask ramdisk [--firmware NAME…] [--package NAME…] [--out DIR]
                           [--arch x86_64|aarch64] [--list-firmware]
  --firmware NAME…     firmware sets of the distribution: drivers' files that are
                       named by a driver in the ramdisk (--firmware-set is the same)
  --package NAME…      programs of the distribution, with the libraries they need
  --out DIR            instead of target/ramdisk
  --list-firmware      only says which firmware sets there are, and their sizes";

/// Distribution packages with firmware, by the name given to `--firmware`.
const FIRMWARE_SETS: &[(&str, &str)] = &[
    ("bnx2", "firmware-bnx2"),
    ("bnx2x", "firmware-bnx2x"),
    ("cavium", "firmware-cavium"),
    ("free", "firmware-linux-free"),
    ("misc", "firmware-misc-nonfree"),
    ("netronome", "firmware-netronome"),
    ("netxen", "firmware-netxen"),
    ("qlogic", "firmware-qlogic"),
    ("realtek", "firmware-realtek"),
];
/// For software RAID and burn-in.
const TOOLS: [&str; 3] = ["mdadm", "stress-ng", "fio"];
/// Packages that the libraries of programs may be in begin with one of these.
const LIBRARIES: &[&str] = &["lib", "zlib1g"];

/// What is built.
#[derive(Debug, Clone)]
pub(crate) struct Variant {
    /// For which kind of machine.
    pub(crate) arch: Arch,
    /// Packages with firmware.
    pub(crate) firmware: Vec<String>,
    /// Packages with programs.
    pub(crate) packages: Vec<String>,
    /// Where it goes.
    pub(crate) out: PathBuf,
}

impl Default for Variant {
    fn default() -> Self {
        Self {
            arch: Arch::X86_64,
            firmware: Vec::new(),
            packages: Vec::new(),
            out: artefacts("ramdisk"),
        }
    }
}

impl Variant {
    /// With the programs that some scenarios need, in a folder of its own.
    pub(crate) fn tools() -> Self {
        Self {
            packages: TOOLS.map(str::to_owned).to_vec(),
            out: artefacts("ramdisk-tools"),
            ..Self::default()
        }
    }
}

/// Runs the command.
pub(crate) fn main(args: &[String]) -> Result<()> {
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        println!("{USAGE}");
        return Ok(());
    }
    if args == ["--list-firmware"] {
        return list_firmware();
    }
    build(&parse(args)?)
}

fn parse(args: &[String]) -> Result<Variant> {
    let usage = || anyhow::Error::from(Exit::new(EX_USAGE, USAGE));
    let mut variant = Variant::default();
    let mut out = None;
    let mut rest = args.iter().peekable();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--firmware" | "--firmware-set" => {
                while let Some(name) = rest.next_if(|next| !next.starts_with("--")) {
                    variant.firmware.push(firmware_package(name)?.to_owned());
                }
            }
            "--package" => {
                while let Some(name) = rest.next_if(|next| !next.starts_with("--")) {
                    variant.packages.push(name.clone());
                }
            }
            "--out" => out = Some(PathBuf::from(rest.next().ok_or_else(usage)?)),
            "--arch" => {
                variant.arch = rest
                    .next()
                    .and_then(|name| Arch::parse(name))
                    .ok_or_else(usage)?;
            }
            _ => return Err(usage()),
        }
    }
    if variant.arch != Arch::X86_64 {
        return Err(unavailable(&format!(
            "the ramdisk for {} is not built yet",
            variant.arch.name()
        )));
    }
    if let Some(out) = out {
        variant.out = out;
    }
    Ok(variant)
}

/// Builds a ramdisk; does nothing where it is there already.
pub(crate) fn build(variant: &Variant) -> Result<()> {
    let agent = toolchain::build_agent()?;
    let archive = Archive::of(variant.arch)?;
    let meta = format!("linux-image-{}", variant.arch.debian());
    let kernel = archive.behind(&meta, "linux-image-")?;
    let unpacked = archive.fetch(&[&kernel, "systemd-boot-efi"])?;
    let stub = unpacked[1]
        .join("usr/lib/systemd/boot/efi")
        .join(variant.arch.stub());
    let mut command = program();
    command
        .arg("--agent")
        .arg(agent)
        .arg("--kernel")
        .arg(&unpacked[0])
        .arg("--stub")
        .arg(stub)
        .arg("--out")
        .arg(&variant.out);
    let firmware: Vec<&str> = variant.firmware.iter().map(String::as_str).collect();
    if !firmware.is_empty() {
        let unpacked = archive.fetch(&firmware).map_err(|error| {
            unavailable(&format!(
                "{error:#}; Debian keeps most firmware in its non-free-firmware component, \
                 which apt must be set up for"
            ))
        })?;
        for dir in unpacked {
            command.arg("--firmware").arg(dir);
        }
    }
    if !variant.packages.is_empty() {
        let names: Vec<&str> = variant.packages.iter().map(String::as_str).collect();
        let named = archive.fetch(&names)?;
        let libraries = libraries(&archive, &named)?;
        add_packages(&mut command, &named, &libraries);
    }
    run(&mut command)
}

/// Fetches packages until every library that the programs of `named` ask for
/// is there: the dependencies of the package that asks, then theirs.
fn libraries(archive: &Archive, named: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut fetched: BTreeMap<String, PathBuf> = BTreeMap::new();
    let mut dependencies: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    loop {
        let libraries: Vec<PathBuf> = fetched.values().cloned().collect();
        let mut ask = program();
        add_packages(ask.arg("missing"), named, &libraries);
        let said = output(&mut ask)?;
        let lines: Vec<(&str, &str)> = said.lines().filter_map(|l| l.split_once('\t')).collect();
        if lines.is_empty() {
            return Ok(libraries);
        }
        let mut wanted = BTreeSet::new();
        for (library, folder) in lines {
            let package = debs::package_of(Path::new(folder)).context("a folder of no package")?;
            let next = next_level(archive, &mut dependencies, package, &fetched)?;
            if next.is_empty() {
                bail!("{package} needs {library}, which none of its dependencies has");
            }
            wanted.extend(next);
        }
        let names: Vec<&str> = wanted.iter().map(String::as_str).collect();
        for (name, dir) in names.iter().zip(archive.fetch(&names)?) {
            fetched.insert((*name).to_owned(), dir);
        }
    }
}

/// The nearest dependencies of `package` with libraries that were not fetched
/// yet.
fn next_level(
    archive: &Archive,
    dependencies: &mut BTreeMap<String, BTreeSet<String>>,
    package: &str,
    fetched: &BTreeMap<String, PathBuf>,
) -> Result<BTreeSet<String>> {
    let mut seen = BTreeSet::from([package.to_owned()]);
    let mut level = seen.clone();
    while !level.is_empty() {
        let mut below = BTreeSet::new();
        for name in &level {
            if !dependencies.contains_key(name) {
                let mut found = archive.dependencies(name)?;
                found.retain(|name| LIBRARIES.iter().any(|begin| name.starts_with(begin)));
                dependencies.insert(name.clone(), found);
            }
            below.extend(dependencies.get(name).into_iter().flatten().cloned());
        }
        below.retain(|name| !seen.contains(name));
        let new: BTreeSet<String> = below
            .iter()
            .filter(|name| !fetched.contains_key(*name))
            .cloned()
            .collect();
        if !new.is_empty() {
            return Ok(new);
        }
        seen.extend(below.iter().cloned());
        level = below;
    }
    Ok(BTreeSet::new())
}

fn add_packages(command: &mut Command, named: &[PathBuf], libraries: &[PathBuf]) {
    for dir in named {
        command.arg("--package").arg(dir);
    }
    for dir in libraries {
        command.arg("--library").arg(dir);
    }
}

/// The program that builds ramdisks.
fn program() -> Command {
    let mut command = cargo();
    command.args(["run", "--quiet", "-p", "wrought-ramdisk", "--"]);
    command
}

fn list_firmware() -> Result<()> {
    let archive = Archive::of(Arch::host())?;
    for (name, package) in FIRMWARE_SETS {
        let size = match archive.installed_kib(package) {
            Some(kib) => format!("{:.1} MB unpacked", kib as f64 * 1024.0 / 1e6),
            None => "not in the components that apt is set up for".to_owned(),
        };
        println!("{name:<12} {package:<24} {size}");
    }
    println!(
        "Of a set only those files go into a ramdisk that one of its drivers names; the build \
         says how many and how large."
    );
    Ok(())
}

fn firmware_package(name: &str) -> Result<&'static str> {
    let known = FIRMWARE_SETS.iter().find(|(set, _)| *set == name);
    known.map(|(_, package)| *package).ok_or_else(|| {
        let names: Vec<&str> = FIRMWARE_SETS.iter().map(|(set, _)| *set).collect();
        Exit::new(
            EX_USAGE,
            format!("no firmware set {name}; there are {}", names.join(", ")),
        )
        .into()
    })
}

fn unavailable(message: &str) -> anyhow::Error {
    Exit::new(EX_UNAVAILABLE, message).into()
}

#[cfg(test)]
mod tests {
    use super::parse;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn options_take_several_names() {
        let variant = parse(&words(
            "--package mdadm fio --firmware bnx2 --package stress-ng",
        ))
        .unwrap();
        assert_eq!(variant.packages, ["mdadm", "fio", "stress-ng"]);
        assert_eq!(variant.firmware, ["firmware-bnx2"]);
        assert!(variant.out.ends_with("target/ramdisk"));
        let variant = parse(&words("--firmware-set misc --out /x/y")).unwrap();
        assert_eq!(variant.out.to_str(), Some("/x/y"));
    }

    #[test]
    fn wrong_words_are_refused() {
        for text in ["--firmware none", "--arch sparc", "--out", "x"] {
            assert!(parse(&words(text)).is_err(), "{text}");
        }
    }
}

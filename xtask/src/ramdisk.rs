//! `cargo xtask ramdisk`: fetches what the ramdisk is made from and builds
//! it in `target/ramdisk`.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
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
usage: cargo xtask ramdisk [--firmware NAME…] [--package NAME…] [--add FILE:/PATH…]
                           [--rescue] [--arch x86_64|aarch64] [--out DIR]
                           [--param KEY=VALUE…] [--ca FILE] [--twice] [--list-firmware]
  --firmware NAME…     firmware sets of the distribution: files that a driver in
                       the ramdisk names (--firmware-set is the same)
  --package NAME…      programs of the distribution, with the libraries they need
  --add FILE:/PATH…    files of your own, such as hardware managers
  --rescue             with a shell and logins, into target/ramdisk-rescue
  --arch NAME          for another kind of machine, into target/ramdisk-NAME
  --out DIR            instead of these folders
  --param KEY=VALUE…   parameters of the agent on boot.iso
  --ca FILE            the CA of the API, for boot.iso
  --twice              and once more, to see that all files are equal
  --list-firmware      only says which firmware sets there are, and their sizes
DIR gets vmlinuz, initramfs, uki.efi, esp.img, boot.iso and manifest.json.";

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
/// For a shell, logins on consoles, and logins by SSH.
const RESCUE: [&str; 2] = ["busybox-static", "dropbear-bin"];
/// GRUB for discs that a BIOS boots: its modules, the program that puts them
/// together, and the library that it needs.
const GRUB: [&str; 3] = ["grub-pc-bin", "grub-common", "libdevmapper1.02.1"];
/// For software RAID and burn-in; and to make what tenants leave behind.
const TOOLS: [&str; 4] = ["mdadm", "stress-ng", "fio", "lvm2"];
/// Packages that the libraries of programs may be in begin with one of these.
const LIBRARIES: &[&str] = &["lib", "zlib1g"];

/// What a build makes.
const FILES: [&str; 6] = [
    "vmlinuz",
    "initramfs",
    "uki.efi",
    "esp.img",
    "boot.iso",
    "manifest.json",
];
/// For PCs alone.
const BIOS: &str = "bios.img";

/// What is built.
#[derive(Debug, Clone)]
pub(crate) struct Variant {
    /// For which kind of machine.
    pub(crate) arch: Arch,
    /// Packages with firmware.
    pub(crate) firmware: Vec<String>,
    /// Packages with programs.
    pub(crate) packages: Vec<String>,
    /// Files, `FILE:/PATH` each.
    pub(crate) added: Vec<String>,
    /// Whether somebody can log in.
    pub(crate) rescue: bool,
    /// Parameters on the disc, `KEY=VALUE` each.
    pub(crate) params: Vec<String>,
    /// The API's CA on the disc.
    pub(crate) ca: Option<PathBuf>,
    /// Where it goes, if not into the folder of its kind.
    pub(crate) out: Option<PathBuf>,
}

impl Default for Variant {
    fn default() -> Self {
        Self {
            arch: Arch::X86_64,
            firmware: Vec::new(),
            packages: Vec::new(),
            added: Vec::new(),
            rescue: false,
            params: Vec::new(),
            ca: None,
            out: None,
        }
    }
}

impl Variant {
    /// With the programs that some scenarios need, in a folder of its own.
    pub(crate) fn tools() -> Self {
        Self {
            packages: TOOLS.map(str::to_owned).to_vec(),
            out: Some(artefacts("ramdisk-tools")),
            ..Self::default()
        }
    }

    /// With logins.
    pub(crate) fn rescue() -> Self {
        Self {
            rescue: true,
            ..Self::default()
        }
    }

    /// For ARM machines.
    pub(crate) fn arm() -> Self {
        Self {
            arch: Arch::Aarch64,
            ..Self::default()
        }
    }

    /// Where it goes.
    fn folder(&self) -> PathBuf {
        if let Some(out) = &self.out {
            // The program that builds may have another working folder.
            return std::path::absolute(out).unwrap_or_else(|_| out.clone());
        }
        let mut name = "ramdisk".to_owned();
        if self.rescue {
            name.push_str("-rescue");
        }
        if self.arch != Arch::X86_64 {
            name = format!("{name}-{}", self.arch.name());
        }
        artefacts(&name)
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
    let (twice, args): (Vec<String>, Vec<String>) =
        args.iter().cloned().partition(|arg| arg == "--twice");
    let variant = parse(&args)?;
    build(&variant)?;
    if twice.is_empty() {
        return Ok(());
    }
    again(&variant)
}

fn parse(args: &[String]) -> Result<Variant> {
    let usage = || anyhow::Error::from(Exit::new(EX_USAGE, USAGE));
    let mut variant = Variant::default();
    let mut rest = args.iter().peekable();
    while let Some(arg) = rest.next() {
        let mut several = |list: &mut Vec<String>| {
            while let Some(word) = rest.next_if(|next| !next.starts_with("--")) {
                list.push(word.clone());
            }
        };
        match arg.as_str() {
            "--firmware" | "--firmware-set" => {
                let mut names = Vec::new();
                several(&mut names);
                for name in names {
                    variant.firmware.push(firmware_package(&name)?.to_owned());
                }
            }
            "--package" => several(&mut variant.packages),
            "--add" => several(&mut variant.added),
            "--param" => several(&mut variant.params),
            "--rescue" => variant.rescue = true,
            "--out" => variant.out = Some(rest.next().ok_or_else(usage)?.into()),
            "--ca" => variant.ca = Some(rest.next().ok_or_else(usage)?.into()),
            "--arch" => {
                let name = rest.next().ok_or_else(usage)?;
                variant.arch = Arch::parse(name).ok_or_else(usage)?;
            }
            _ => return Err(usage()),
        }
    }
    Ok(variant)
}

/// Builds a ramdisk; does nothing where it is there already.
pub(crate) fn build(variant: &Variant) -> Result<()> {
    let agent = toolchain::build_agent(variant.arch)?;
    let archive = Archive::of(variant.arch)?;
    let meta = format!("linux-image-{}", variant.arch.debian());
    let kernel = archive.behind(&meta, "linux-image-")?;
    let unpacked = archive.fetch(&[&kernel, "systemd-boot-efi"])?;
    let stub = unpacked[1]
        .join("usr/lib/systemd/boot/efi")
        .join(variant.arch.stub());
    let mut command = program();
    command.arg("--agent").arg(agent);
    command.arg("--kernel").arg(&unpacked[0]);
    command.arg("--stub").arg(stub);
    command.arg("--out").arg(variant.folder());
    if variant.arch == Arch::X86_64 {
        for dir in archive.fetch(&GRUB)? {
            command.arg("--grub").arg(dir);
        }
    }
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
    let mut names: Vec<&str> = variant.packages.iter().map(String::as_str).collect();
    if variant.rescue {
        names.extend(RESCUE);
        command.arg("--rescue");
    }
    if !names.is_empty() {
        let named = archive.fetch(&names)?;
        let libraries = libraries(&archive, &named)?;
        add_packages(&mut command, &named, &libraries);
    }
    for added in &variant.added {
        command.arg("--add").arg(from_here(added)?);
    }
    for param in &variant.params {
        command.arg("--param").arg(param);
    }
    if let Some(ca) = &variant.ca {
        command.arg("--ca").arg(std::path::absolute(ca)?);
    }
    run(&mut command)
}

/// Builds a ramdisk that is there once more, with nothing of an earlier build at
/// hand, and compares the two byte for byte.
pub(crate) fn again(variant: &Variant) -> Result<()> {
    let first = variant.folder();
    let second = artefacts("ramdisk-again");
    if second.exists() {
        fs::remove_dir_all(&second).with_context(|| format!("removing {}", second.display()))?;
    }
    build(&Variant {
        out: Some(second.clone()),
        ..variant.clone()
    })?;
    let bios = (variant.arch == Arch::X86_64).then_some(BIOS);
    for name in FILES.into_iter().chain(bios) {
        let [one, other] = [&first, &second].map(|folder| {
            let path = folder.join(name);
            fs::read(&path).with_context(|| format!("reading {}", path.display()))
        });
        if one? != other? {
            bail!(
                "two builds of {name} differ: {} and {}",
                first.display(),
                second.display()
            );
        }
    }
    println!("two builds of {} are equal, byte for byte", first.display());
    fs::remove_dir_all(&second).with_context(|| format!("removing {}", second.display()))
}

/// `FILE:/PATH` with the file's path made absolute.
fn from_here(added: &str) -> Result<String> {
    let (file, path) = added
        .rsplit_once(":/")
        .ok_or_else(|| Exit::new(EX_USAGE, format!("--add {added}: expected FILE:/PATH")))?;
    Ok(format!("{}:/{path}", std::path::absolute(file)?.display()))
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
    use super::from_here;
    use super::parse;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn options_take_several_names() {
        let variant = parse(&words(
            "--package mdadm fio --firmware bnx2 --package stress-ng --param a=b c=d --add x:/y",
        ))
        .unwrap();
        assert_eq!(variant.packages, ["mdadm", "fio", "stress-ng"]);
        assert_eq!(variant.firmware, ["firmware-bnx2"]);
        assert_eq!(variant.params, ["a=b", "c=d"]);
        assert_eq!(variant.added, ["x:/y"]);
        assert!(from_here("x:/y").unwrap().ends_with("/x:/y"));
    }

    #[test]
    fn each_kind_has_a_folder_of_its_own() {
        let folder = |text| parse(&words(text)).unwrap().folder();
        assert!(folder("").ends_with("target/ramdisk"));
        assert!(folder("--rescue").ends_with("target/ramdisk-rescue"));
        assert!(folder("--arch aarch64").ends_with("target/ramdisk-aarch64"));
        assert_eq!(
            folder("--firmware-set misc --out /x/y").to_str(),
            Some("/x/y")
        );
    }

    #[test]
    fn wrong_words_are_refused() {
        for text in ["--firmware none", "--arch sparc", "--out", "x"] {
            assert!(parse(&words(text)).is_err(), "{text}");
        }
        assert!(from_here("no-path").is_err());
    }
}

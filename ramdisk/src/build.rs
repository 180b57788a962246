//! From inputs to files, skipping work that is done.

use std::fs;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use sha2::Digest;
use sha2::Sha256;

use crate::disc;
use crate::disc::Disc;
use crate::esp;
use crate::grub;
use crate::initramfs;
use crate::modules::Modules;
use crate::packages::Packages;
use crate::pe;
use crate::select;

/// Largest kernel and initramfs that SPECIFICATION.md promises, in bytes.
const PROMISE: usize = 20_000_000;
/// Written last; says what the files beside it were made from.
const STAMP: &str = "stamp";

/// What a ramdisk is made from.
#[derive(Debug, Clone)]
pub struct Inputs {
    /// The agent, statically linked.
    pub agent: PathBuf,
    /// An unpacked kernel package: `boot/vmlinuz-*` and `lib/modules/*`.
    pub kernel: PathBuf,
    /// The UEFI stub (`linuxx64.efi.stub`).
    pub stub: PathBuf,
    /// Unpacked firmware packages; files are taken that a chosen module
    /// names.
    pub firmware: Vec<PathBuf>,
    /// Unpacked packages whose programs come along.
    pub packages: Vec<PathBuf>,
    /// Unpacked packages where those programs find their libraries.
    pub libraries: Vec<PathBuf>,
    /// Unpacked packages that GRUB's image for BIOS machines is made of; none
    /// where there are no such machines.
    pub grub: Vec<PathBuf>,
    /// Files of the one who builds, by path in the ramdisk.
    pub added: Vec<(String, PathBuf)>,
    /// Whether somebody can log in: a shell, accounts, a folder for the
    /// password. A program `busybox` must be among the packages.
    pub rescue: bool,
    /// What the disc has beside the ramdisk.
    pub disc: Disc,
}

/// Files that a build leaves, beside `bios.img` where there is a BIOS.
const FILES: [&str; 5] = ["vmlinuz", "initramfs", "uki.efi", "esp.img", "boot.iso"];

/// Builds `vmlinuz`, `initramfs`, `uki.efi`, `esp.img`, `boot.iso` and
/// `manifest.json` in `out`, unless they are there from the same inputs. Gives
/// a report in one line.
///
/// # Errors
/// An input that is missing or not what it should be, named with its path.
pub fn build(inputs: &Inputs, out: &Path) -> Result<String> {
    let (version, vmlinuz) = kernel(&inputs.kernel)?;
    let agent = read(&inputs.agent)?;
    let stub = read(&inputs.stub)?;
    let machine = Machine::of(&stub)?;
    let stamp = stamp(inputs, &version, &[&vmlinuz, &agent, &stub])?;
    fs::create_dir_all(out).with_context(|| format!("creating {}", out.display()))?;
    let lock = out.join("lock");
    let lock = fs::File::create(&lock).with_context(|| format!("creating {}", lock.display()))?;
    lock.lock()
        .context("waiting for another build of the ramdisk")?;
    let manifest = out.join("manifest.json");
    if fs::read_to_string(out.join(STAMP)).is_ok_and(|old| old == stamp)
        && let Ok(text) = fs::read_to_string(&manifest)
        && FILES.iter().all(|name| out.join(name).is_file())
    {
        let old: serde_json::Value = serde_json::from_str(&text)
            .with_context(|| format!("reading {}", manifest.display()))?;
        return Ok(format!("{} (unchanged)", report(&old)));
    }
    let artefacts = assemble(
        inputs,
        &version,
        vmlinuz,
        agent,
        &stub,
        select::names(machine.pc).collect(),
        out,
    )?;
    for stale in [STAMP, "bios.img"] {
        let _ = fs::remove_file(out.join(stale));
    }
    let text = format!("{:#}\n", artefacts.manifest);
    if let Some(bios) = &artefacts.bios {
        replace(&out.join("bios.img"), bios)?;
    }
    for (name, content) in [
        ("vmlinuz", &artefacts.vmlinuz[..]),
        ("initramfs", &artefacts.initramfs),
        ("uki.efi", &artefacts.uki),
        ("esp.img", &artefacts.esp),
        ("boot.iso", &artefacts.disc),
        ("manifest.json", text.as_bytes()),
        (STAMP, stamp.as_bytes()),
    ] {
        replace(&out.join(name), content)?;
    }
    Ok(report(&artefacts.manifest))
}

/// Everything that is built, before it is written.
struct Artefacts {
    vmlinuz: Vec<u8>,
    initramfs: Vec<u8>,
    uki: Vec<u8>,
    esp: Vec<u8>,
    bios: Option<Vec<u8>>,
    disc: Vec<u8>,
    manifest: serde_json::Value,
}

fn assemble(
    inputs: &Inputs,
    version: &str,
    vmlinuz: Vec<u8>,
    agent: Vec<u8>,
    stub: &[u8],
    mut wanted: Vec<&str>,
    out: &Path,
) -> Result<Artefacts> {
    let tree = inputs.kernel.join("lib/modules").join(version);
    if !inputs.firmware.is_empty() {
        for name in select::WITH_FIRMWARE {
            let alone = Modules::choose(&tree, [*name])?;
            if !firmware(&alone, &inputs.firmware).is_empty() {
                wanted.push(name);
            }
        }
    }
    let modules = Modules::choose(&tree, wanted)?;
    let firmware = firmware(&modules, &inputs.firmware);
    let agent_len = agent.len();
    let modules_archive = initramfs::modules(version, &modules, &firmware)?;
    let packages = Packages::gather(&inputs.packages, &inputs.libraries)?;
    let packages_archive = packages.archive()?;
    let shell = inputs.rescue.then(|| busybox(&packages)).transpose()?;
    let system_archive = initramfs::system(agent, shell, &inputs.added)?;
    let mut initramfs = cached("modules", &modules_archive, out)?;
    let mut packages_len = 0;
    if let Some(archive) = &packages_archive {
        let compressed = cached("packages", archive, out)?;
        packages_len = compressed.len();
        initramfs.extend_from_slice(&compressed);
    }
    initramfs.extend_from_slice(&initramfs::compress(&system_archive)?);
    let machine = Machine::of(stub)?;
    let uki = pe::append_sections(
        stub,
        &[
            (".osrel", initramfs::OS_RELEASE.as_bytes()),
            (".cmdline", machine.command_line.as_bytes()),
            (".uname", version.as_bytes()),
            (".initrd", &initramfs),
            (".linux", &vmlinuz),
        ],
    )?;
    let esp = esp::build(&uki, machine.boot_file)?;
    let bios = if inputs.grub.is_empty() {
        None
    } else {
        Some(grub::bios_image(&inputs.grub, out)?)
    };
    let mut image = Vec::new();
    let parts = disc::Parts {
        esp: &esp,
        uki: &uki,
        bios: bios.as_deref(),
        command_line: machine.command_line,
    };
    disc::write(&parts, &inputs.disc, &mut image)?;
    let manifest = serde_json::json!({
        "kernel_version": version,
        "kernel_bytes": vmlinuz.len(),
        "initramfs_bytes": initramfs.len(),
        "initramfs_unpacked_bytes": modules_archive.len()
            + packages_archive.as_ref().map_or(0, Vec::len)
            + system_archive.len(),
        "agent_bytes": agent_len,
        "modules": modules.len(),
        "firmware_files": firmware.len(),
        "firmware_bytes": firmware.iter().map(|(_, content)| content.len()).sum::<usize>(),
        "packages": inputs.packages.iter().map(|p| folder_name(p)).collect::<Vec<_>>(),
        "package_files": packages.len(),
        "package_bytes": packages_len,
        "uki_bytes": uki.len(),
        "esp_bytes": esp.len(),
        "disc_bytes": image.len(),
        "rescue": inputs.rescue,
        "promised_bytes": machine.pc.then_some(PROMISE),
        "sha256": {
            "vmlinuz": hex(&Sha256::digest(&vmlinuz)),
            "initramfs": hex(&Sha256::digest(&initramfs)),
            "uki.efi": hex(&Sha256::digest(&uki)),
            "boot.iso": hex(&Sha256::digest(&image)),
        },
    });
    Ok(Artefacts {
        vmlinuz,
        initramfs,
        uki,
        esp,
        bios,
        disc: image,
        manifest,
    })
}

/// What differs between kinds of machines.
struct Machine {
    /// Whether it is a PC.
    pc: bool,
    /// The UKI's own command line: the agent finds the rest on the medium.
    command_line: &'static str,
    /// What firmware looks for on a medium.
    boot_file: &'static str,
}

impl Machine {
    /// By the UEFI stub (`Machine` of the COFF header).
    fn of(stub: &[u8]) -> Result<Self> {
        match pe::machine(stub)? {
            0x8664 => Ok(Self {
                pc: true,
                command_line: "console=tty0 console=ttyS0,115200 boot_method=vmedia",
                boot_file: esp::X86_64,
            }),
            0xaa64 => Ok(Self {
                pc: false,
                command_line: "console=tty0 console=ttyAMA0,115200 boot_method=vmedia",
                boot_file: esp::AARCH64,
            }),
            other => bail!(
                "the UEFI stub is for machine {other:#x}, expected 0x8664 (x86-64) or 0xaa64 \
                 (AArch64)"
            ),
        }
    }
}

/// Where the shell's program lies.
fn busybox(packages: &Packages) -> Result<&'static str> {
    ["bin/busybox", "usr/bin/busybox"]
        .into_iter()
        .find(|path| packages.has(path))
        .context("a rescue ramdisk needs busybox, which no package given as --package has")
}

/// Writes the modules `names` and all they need, with the tables that a
/// loader reads, into `out/VERSION`: a `/lib/modules` of its own.
///
/// # Errors
/// A kernel package that is none, or a module that it lacks.
pub fn modules(package: &Path, names: &[String], out: &Path) -> Result<String> {
    let (version, _) = kernel(package)?;
    let tree = package.join("lib/modules").join(&version);
    let modules = Modules::choose(&tree, names.iter().map(String::as_str))?;
    let report = format!(
        "{} modules of {version} in {}",
        modules.len(),
        out.display()
    );
    let dir = out.join(&version);
    // Another command may be reading them right now.
    if modules
        .files()
        .all(|(path, content)| fs::read(dir.join(path)).is_ok_and(|c| c == *content))
    {
        return Ok(report);
    }
    // What another version left there would be taken for a part of it.
    let _ = fs::remove_dir_all(out);
    for (path, content) in modules.files() {
        let path = dir.join(path);
        let parent = path.parent().context("a module without a folder")?;
        fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
        fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(format!(
        "{} modules of {version} in {}",
        modules.len(),
        out.display()
    ))
}

/// Compresses an archive that seldom changes, or takes what an earlier build
/// made of the same one. There is one of each `kind`.
fn cached(kind: &str, archive: &[u8], out: &Path) -> Result<Vec<u8>> {
    let digest = hex(&Sha256::digest(archive));
    let begin = format!("{kind}-");
    let path = out.join(format!("{begin}{}-{digest}.zst", initramfs::compressor()));
    if let Ok(compressed) = fs::read(&path) {
        return Ok(compressed);
    }
    for entry in fs::read_dir(out)
        .with_context(|| format!("reading {}", out.display()))?
        .flatten()
    {
        let name = entry.file_name();
        if name
            .to_str()
            .is_some_and(|n| n.starts_with(&begin) && n.ends_with(".zst"))
        {
            let _ = fs::remove_file(entry.path());
        }
    }
    let compressed = initramfs::compress(archive)?;
    replace(&path, &compressed)?;
    Ok(compressed)
}

/// Sizes beside what is promised.
fn report(manifest: &serde_json::Value) -> String {
    let number = |name: &str| manifest[name].as_u64().unwrap_or(0) as usize;
    let (kernel, initramfs) = (number("kernel_bytes"), number("initramfs_bytes"));
    let sum = kernel + initramfs;
    let verdict = match (number("firmware_files"), number("package_files")) {
        // An ARM kernel's image is not compressed.
        _ if number("promised_bytes") == 0 => "for PCs".to_owned(),
        (0, 0) if sum <= PROMISE => "kept".to_owned(),
        (0, 0) => "BROKEN".to_owned(),
        (firmware, 0) => format!(
            "not applicable with {firmware} firmware files of {:.2} MB",
            mb(number("firmware_bytes"))
        ),
        (_, files) => format!(
            "not applicable with {files} files of packages, {:.2} MB compressed",
            mb(number("package_bytes"))
        ),
    };
    format!(
        "kernel {:.2} MB + initramfs {:.2} MB = {:.2} MB (promise: at most {} MB, {verdict}); \
         {} modules, agent {:.2} MB, UKI {:.2} MB",
        mb(kernel),
        mb(initramfs),
        mb(sum),
        PROMISE / 1_000_000,
        number("modules"),
        mb(number("agent_bytes")),
        mb(number("uki_bytes")),
    )
}

fn mb(bytes: usize) -> f64 {
    bytes as f64 / 1e6
}

/// The one kernel of an unpacked package: its version and image.
fn kernel(package: &Path) -> Result<(String, Vec<u8>)> {
    let boot = package.join("boot");
    let mut found = Vec::new();
    for entry in fs::read_dir(&boot).with_context(|| format!("reading {}", boot.display()))? {
        let entry = entry.with_context(|| format!("reading {}", boot.display()))?;
        if let Some(version) = entry
            .file_name()
            .to_str()
            .and_then(|n| n.strip_prefix("vmlinuz-"))
        {
            found.push((version.to_owned(), entry.path()));
        }
    }
    match found.as_slice() {
        [(version, path)] => Ok((version.clone(), read(path)?)),
        other => bail!(
            "{} holds {} kernels, expected one vmlinuz-*",
            boot.display(),
            other.len()
        ),
    }
}

/// Firmware files that the modules name and a package has.
fn firmware(modules: &Modules, packages: &[PathBuf]) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for name in modules.firmware() {
        let places = packages
            .iter()
            .flat_map(|dir| [dir.join("lib/firmware"), dir.join("usr/lib/firmware")]);
        if let Some(content) = places
            .map(|dir| dir.join(name))
            .find_map(|p| fs::read(p).ok())
        {
            found.push((name.to_owned(), content));
        }
    }
    found
}

/// Digest of everything that decides the outcome: the inputs and this
/// program.
fn stamp(inputs: &Inputs, version: &str, contents: &[&[u8]]) -> Result<String> {
    let own = std::env::current_exe().context("finding this program's own file")?;
    let mut hash = Sha256::new();
    hash.update(Sha256::digest(read(&own)?));
    hash.update(version);
    hash.update(inputs.kernel.as_os_str().as_encoded_bytes());
    for dir in [
        &inputs.firmware,
        &inputs.packages,
        &inputs.libraries,
        &inputs.grub,
    ]
    .into_iter()
    .flatten()
    {
        hash.update(dir.as_os_str().as_encoded_bytes());
        hash.update([0]);
    }
    for content in contents {
        hash.update(Sha256::digest(content));
    }
    for (path, file) in &inputs.added {
        hash.update(path);
        hash.update(Sha256::digest(read(file)?));
    }
    hash.update([u8::from(inputs.rescue)]);
    for param in &inputs.disc.params {
        hash.update(Sha256::digest(param));
    }
    hash.update(Sha256::digest(
        inputs.disc.ca.as_deref().unwrap_or_default(),
    ));
    Ok(hex(&hash.finalize()))
}

/// The last part of a path.
fn folder_name(path: &Path) -> String {
    path.file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// Writes a file so that nobody ever sees half of it.
fn replace(path: &Path, content: &[u8]) -> Result<()> {
    let partial = path.with_extension("partial");
    fs::write(&partial, content).with_context(|| format!("writing {}", partial.display()))?;
    fs::rename(&partial, path).with_context(|| format!("naming {}", path.display()))
}

/// A file's content; an error names it.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("reading {}", path.display()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::Disc;
    use super::Inputs;
    use super::assemble;
    use super::kernel;
    use crate::modules::tests::tree;
    use crate::pe::tests::stub;

    #[test]
    fn two_builds_in_two_places_are_equal() {
        let build = || {
            let dir = tempfile::tempdir().unwrap();
            let kernel_dir = dir.path().join("kernel");
            tree(&kernel_dir.join("lib/modules/6.1"));
            fs::create_dir_all(kernel_dir.join("boot")).unwrap();
            fs::write(kernel_dir.join("boot/vmlinuz-6.1"), b"a kernel").unwrap();
            let inputs = Inputs {
                agent: dir.path().join("agent"),
                kernel: kernel_dir.clone(),
                stub: dir.path().join("stub"),
                firmware: vec![],
                packages: vec![],
                libraries: vec![],
                grub: vec![],
                added: vec![],
                rescue: false,
                disc: Disc::default(),
            };
            let (version, vmlinuz) = kernel(&kernel_dir).unwrap();
            let wanted = vec!["net_a"];
            let out = tempfile::tempdir().unwrap();
            assemble(
                &inputs,
                &version,
                vmlinuz,
                b"agent".to_vec(),
                &stub(),
                wanted,
                out.path(),
            )
            .unwrap()
        };
        let (one, other) = (build(), build());
        assert_eq!(one.initramfs, other.initramfs);
        assert_eq!(one.uki, other.uki);
        assert_eq!(one.esp, other.esp);
        assert_eq!(one.disc, other.disc);
        assert_eq!(one.manifest, other.manifest);
        assert_eq!(one.manifest["modules"], 5);
    }

    #[test]
    fn a_package_without_a_kernel_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("boot")).unwrap();
        let error = kernel(dir.path()).unwrap_err().to_string();
        assert!(error.contains("holds 0 kernels"), "{error}");
    }
}

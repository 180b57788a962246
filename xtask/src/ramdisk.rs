//! `cargo xtask ramdisk`: fetches what the ramdisk is made from and builds
//! it in `target/ramdisk`.

use anyhow::Result;

use crate::command::EX_UNAVAILABLE;
use crate::command::EX_USAGE;
use crate::command::Exit;
use crate::command::artefacts;
use crate::command::cargo;
use crate::command::run;
use crate::debs;
use crate::toolchain;

const USAGE: &str =
    "usage: cargo xtask ramdisk [--firmware-set NAME…] [--rescue] [--arch x86_64|aarch64]";

/// Distribution packages with firmware, by the name given to
/// `--firmware-set`.
const FIRMWARE_SETS: &[(&str, &str)] = &[
    ("bnx2", "firmware-bnx2"),
    ("bnx2x", "firmware-bnx2x"),
    ("cavium", "firmware-cavium"),
    ("misc", "firmware-misc-nonfree"),
    ("netronome", "firmware-netronome"),
    ("netxen", "firmware-netxen"),
    ("qlogic", "firmware-qlogic"),
    ("realtek", "firmware-realtek"),
];

/// Runs the command.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let mut firmware = Vec::new();
    let mut rest = args.iter().peekable();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--firmware-set" => {
                while let Some(name) = rest.next_if(|next| !next.starts_with("--")) {
                    firmware.push(firmware_package(name)?);
                }
            }
            "--rescue" => return Err(unavailable("the rescue ramdisk is not built yet")),
            "--arch" => match rest.next().map(String::as_str) {
                Some("x86_64") => {}
                Some("aarch64") => {
                    return Err(unavailable("the ramdisk for aarch64 is not built yet"));
                }
                _ => return Err(Exit::new(EX_USAGE, USAGE).into()),
            },
            _ => return Err(Exit::new(EX_USAGE, USAGE).into()),
        }
    }
    build(&firmware)
}

/// Builds the ramdisk with the firmware of these packages; does nothing
/// where it is there already.
pub(crate) fn build(firmware: &[&str]) -> Result<()> {
    let agent = toolchain::build_agent()?;
    let kernel = debs::behind("linux-image-amd64", "linux-image-")?;
    let packages = debs::fetch(&[&kernel, "systemd-boot-efi"])?;
    let stub = packages[1].join("usr/lib/systemd/boot/efi/linuxx64.efi.stub");
    let mut command = cargo();
    command
        .args(["run", "--quiet", "-p", "wrought-ramdisk", "--"])
        .arg("--agent")
        .arg(agent)
        .arg("--kernel")
        .arg(&packages[0])
        .arg("--stub")
        .arg(stub)
        .arg("--out")
        .arg(artefacts("ramdisk"));
    if !firmware.is_empty() {
        let unpacked = debs::fetch(firmware).map_err(|error| {
            unavailable(&format!(
                "{error:#}; Debian keeps most firmware in its non-free-firmware component, \
                 which apt must be set up for"
            ))
        })?;
        for dir in unpacked {
            command.arg("--firmware").arg(dir);
        }
    }
    run(&mut command)
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

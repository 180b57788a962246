//! `cargo xtask bench`: the figures of SPECIFICATION.md.

use anyhow::Result;

use crate::arch::Arch;
use crate::command::EX_USAGE;
use crate::command::Exit;
use crate::command::cargo;
use crate::command::run;
use crate::harness;
use crate::ramdisk;
use crate::ramdisk::Variant;
use crate::setup;
use crate::toolchain;

/// Builds release binaries and hands over to the harness.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let kind = args.first().map_or("", String::as_str);
    match kind {
        "image" | "api" | "scale" | "boot" | "erase" => {}
        other => {
            let text = format!("no benchmark {other:?}: expected image, api, boot, scale or erase");
            return Err(Exit::new(EX_USAGE, text).into());
        }
    }
    setup::main(&[])?;
    let mut line = vec!["bench".to_owned()];
    line.extend_from_slice(args);
    let mut build = cargo();
    build.args([
        "build",
        "--quiet",
        "--release",
        "--package",
        "wrought-tests",
    ]);
    match kind {
        "image" => {
            setup::real_agent::install();
            toolchain::build_agent(Arch::host())?;
        }
        "erase" => drop(toolchain::build_agent(Arch::host())?),
        "api" => {
            setup::ironic::install();
            build.args(["--package", "wrought"]);
        }
        "boot" => ramdisk::build(&Variant::default())?,
        _ => drop(build.args(["--package", "wrought"])),
    }
    run(&mut build)?;
    harness::start_built("release", &line)
}

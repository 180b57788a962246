//! `cargo xtask bench`: the figures of SPECIFICATION.md.

use anyhow::Result;

use crate::command::EX_UNAVAILABLE;
use crate::command::EX_USAGE;
use crate::command::Exit;
use crate::command::cargo;
use crate::command::run;
use crate::harness;
use crate::setup;
use crate::toolchain;

/// Builds release binaries and hands over to the harness.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let kind = args.first().map_or("", String::as_str);
    match kind {
        "image" | "api" => {}
        "boot" | "scale" | "erase" => {
            let text = format!("cargo xtask bench {kind} is not built yet; image and api are");
            return Err(Exit::new(EX_UNAVAILABLE, text).into());
        }
        other => {
            let text = format!("no benchmark {other:?}: expected image, api, boot, scale or erase");
            return Err(Exit::new(EX_USAGE, text).into());
        }
    }
    setup::main(&[])?;
    run(cargo().args(["build", "--quiet", "--package", "wrought-tests"]))?;
    if kind == "image" {
        toolchain::build_agent()?;
    } else {
        run(cargo().args(["build", "--quiet", "--release", "--package", "wrought"]))?;
    }
    let mut line = vec!["bench".to_owned()];
    line.extend_from_slice(args);
    harness::start(&line)
}

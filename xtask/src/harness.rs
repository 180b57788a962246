//! Runs the harness (`wrought-harness` of the `tests` crate) on what it needs:
//! server, agent, ramdisk and images, each built when it is not up to date.

use std::process::Command;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;

use crate::command::Exit;
use crate::command::cargo;
use crate::command::cargo_target;
use crate::command::root;
use crate::command::run;
use crate::image;
use crate::ramdisk;

/// Builds the server, the harness, the agent, the ramdisk and the named images.
pub(crate) fn prepare(images: &[&str]) -> Result<()> {
    run(cargo().args(["build", "--quiet", "--workspace", "--bins"]))?;
    ramdisk::main(&[])?;
    for image in images {
        image::main(&[(*image).to_owned()])?;
    }
    Ok(())
}

/// Runs the harness with its output inherited; an exit code other than 0
/// becomes ours.
pub(crate) fn start<S: AsRef<std::ffi::OsStr>>(args: &[S]) -> Result<()> {
    start_built("debug", args)
}

/// The same with the harness of one of cargo's profile folders: where it makes
/// load, it must not be what is measured.
pub(crate) fn start_built<S: AsRef<std::ffi::OsStr>>(profile: &str, args: &[S]) -> Result<()> {
    let program = cargo_target().join(profile).join("wrought-harness");
    let status = Command::new(&program)
        .args(args)
        .current_dir(root())
        .status()
        .with_context(|| format!("starting {}", program.display()))?;
    match status.code() {
        Some(0) => Ok(()),
        Some(code) => {
            let code = u8::try_from(code).unwrap_or(crate::command::EX_SOFTWARE);
            Err(Exit::new(code, "the harness ended with an error; see above").into())
        }
        None => bail!("{} was ended by a signal ({status})", program.display()),
    }
}

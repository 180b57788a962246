//! Building the static agent for musl.
//!
//! Two routes. Where rustup has the target's standard library, plain cargo
//! with `musl-gcc` for the C in dependencies. Where it has not, the
//! distribution's compiler builds the standard library from its packaged
//! source, with zig as the C toolchain; see `setup`.

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;

use crate::command::EX_UNAVAILABLE;
use crate::command::Exit;
use crate::command::artefacts;
use crate::command::cargo;
use crate::command::cargo_target;
use crate::command::find_program;
use crate::command::output;
use crate::command::run;

/// The agent's target.
pub(crate) const MUSL: &str = "x86_64-unknown-linux-musl";
/// The distribution's compiler and the library source it comes with.
const DISTRIBUTION_RUSTC: &str = "/usr/bin/rustc";
const DISTRIBUTION_CARGO: &str = "/usr/bin/cargo";
const DISTRIBUTION_SOURCE: &str = "/usr/lib/rustlib/src/rust/library/std";

/// A way to build for musl on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// The toolchain has the target; the C compiler for it.
    Target(PathBuf),
    /// The standard library is built too; the virtual environment with zig.
    BuildStd(PathBuf),
}

/// The virtual environment that `setup` makes.
pub(crate) fn venv() -> PathBuf {
    artefacts("tools/venv")
}

/// Whether the toolchain in use has the standard library for musl.
pub(crate) fn has_target() -> bool {
    let mut rustc = Command::new("rustc");
    rustc.args(["--print", "target-libdir", "--target", MUSL]);
    let Ok(dir) = output(rustc.current_dir(crate::command::root())) else {
        return false;
    };
    let Ok(entries) = Path::new(dir.trim()).read_dir() else {
        return false;
    };
    entries
        .flatten()
        .any(|e| e.file_name().to_string_lossy().starts_with("libstd-"))
}

/// The distribution's compiler with library source is installed.
pub(crate) fn has_distribution_rust() -> bool {
    [DISTRIBUTION_RUSTC, DISTRIBUTION_CARGO, DISTRIBUTION_SOURCE]
        .iter()
        .all(|path| Path::new(path).exists())
}

/// A C compiler for musl.
pub(crate) fn musl_cc() -> Option<PathBuf> {
    let named = std::env::var_os("CC_x86_64_unknown_linux_musl").map(PathBuf::from);
    named.or_else(|| {
        ["musl-gcc", "x86_64-linux-musl-gcc"]
            .iter()
            .find_map(|n| find_program(n))
    })
}

/// The route that works here, if any.
pub(crate) fn route() -> Option<Route> {
    if has_target()
        && let Some(cc) = musl_cc()
    {
        return Some(Route::Target(cc));
    }
    let venv = venv();
    (has_distribution_rust() && venv.join("bin/cargo-zigbuild").is_file())
        .then_some(Route::BuildStd(venv))
}

/// Builds the agent where its sources changed and gives the binary's path.
pub(crate) fn build_agent() -> Result<PathBuf> {
    let Some(route) = route() else {
        let message = "no compiler for the static agent is set up: run `cargo xtask setup`";
        return Err(Exit::new(EX_UNAVAILABLE, message).into());
    };
    let build = [
        "--target",
        MUSL,
        "--profile",
        "agent",
        "-p",
        "wrought-agent",
        "--bin",
        "wrought-agent",
    ];
    match route {
        Route::Target(cc) => run(cargo()
            .args(["build", "--quiet"])
            .args(build)
            .env("CC_x86_64_unknown_linux_musl", cc))?,
        Route::BuildStd(venv) => {
            let own = std::env::var_os("PATH").unwrap_or_default();
            let path = std::iter::once(venv.join("bin")).chain(std::env::split_paths(&own));
            run(Command::new(venv.join("bin/cargo-zigbuild"))
                .args(["zigbuild", "--quiet", "-Zbuild-std=std,panic_unwind"])
                .args(build)
                .current_dir(crate::command::root())
                .env("PATH", std::env::join_paths(path)?)
                .env("RUSTC", DISTRIBUTION_RUSTC)
                .env("CARGO", DISTRIBUTION_CARGO)
                .env("RUSTC_BOOTSTRAP", "1")
                .env(
                    "CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUSTFLAGS",
                    "-Clink-self-contained=no",
                ))?;
        }
    }
    let target = cargo_target().join(MUSL);
    let agent = target.join("agent/wrought-agent");
    if !agent.is_file() {
        bail!("the build left no {}", agent.display());
    }
    publish(&agent, &target.join("release"))
}

/// Puts the agent where a plain release build would have left it: one place
/// for all who look for it.
fn publish(agent: &Path, dir: &Path) -> Result<PathBuf> {
    let path = dir.join("wrought-agent");
    let newer = |path: &Path| path.metadata().and_then(|m| m.modified()).ok();
    if path.is_file() && newer(&path) >= newer(agent) {
        return Ok(path);
    }
    let partial = dir.join("wrought-agent.partial");
    fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
    fs::copy(agent, &partial).with_context(|| format!("copying {}", agent.display()))?;
    fs::rename(&partial, &path).with_context(|| format!("naming {}", path.display()))?;
    Ok(path)
}

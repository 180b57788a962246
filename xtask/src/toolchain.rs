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

use crate::arch::Arch;
use crate::command::EX_UNAVAILABLE;
use crate::command::Exit;
use crate::command::artefacts;
use crate::command::cargo;
use crate::command::cargo_target;
use crate::command::find_program;
use crate::command::output;
use crate::command::run;

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
pub(crate) fn has_target(arch: Arch) -> bool {
    let mut rustc = Command::new("rustc");
    rustc.args(["--print", "target-libdir", "--target", arch.musl()]);
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
pub(crate) fn musl_cc(arch: Arch) -> Option<PathBuf> {
    let named = std::env::var_os(format!("CC_{}", arch.musl().replace('-', "_")));
    named.map(PathBuf::from).or_else(|| {
        let cross = format!("{}-linux-musl-gcc", arch.name());
        let native = (arch == Arch::host()).then(|| find_program("musl-gcc"));
        native.flatten().or_else(|| find_program(&cross))
    })
}

/// The route that works here, if any.
pub(crate) fn route(arch: Arch) -> Option<Route> {
    if has_target(arch)
        && let Some(cc) = musl_cc(arch)
    {
        return Some(Route::Target(cc));
    }
    let venv = venv();
    (has_distribution_rust() && venv.join("bin/cargo-zigbuild").is_file())
        .then_some(Route::BuildStd(venv))
}

/// Builds the agent where its sources changed and gives the binary's path.
pub(crate) fn build_agent(arch: Arch) -> Result<PathBuf> {
    let musl = arch.musl();
    let Some(route) = route(arch) else {
        let message = format!(
            "no compiler for the static agent ({musl}) is set up: run `cargo xtask setup`{}",
            if arch == Arch::host() { "" } else { " --all" }
        );
        return Err(Exit::new(EX_UNAVAILABLE, message).into());
    };
    let build = [
        "--target",
        musl,
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
            .env(format!("CC_{}", musl.replace('-', "_")), cc))?,
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
                    format!(
                        "CARGO_TARGET_{}_RUSTFLAGS",
                        musl.replace('-', "_").to_uppercase()
                    ),
                    "-Clink-self-contained=no",
                ))?;
        }
    }
    let target = cargo_target().join(musl);
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

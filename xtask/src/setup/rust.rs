//! A compiler for the static agent: rustup's target, or the distribution's
//! compiler with zig where rustup has none to give.

use std::process::Command;

use anyhow::Result;

use crate::arch::Arch;
use crate::command::EX_UNAVAILABLE;
use crate::command::Exit;
use crate::command::output;
use crate::command::root;
use crate::toolchain;
use crate::toolchain::Route;

/// Which way it goes on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plan {
    /// The target's standard library is there.
    Target,
    /// It is built from the distribution's source.
    BuildStd,
}

/// Looks for the target and asks rustup for it where it is missing.
pub(crate) fn plan() -> Plan {
    if toolchain::has_target(Arch::host()) {
        return Plan::Target;
    }
    let musl = Arch::host().musl();
    println!("adding the Rust target {musl}");
    let added = output(
        Command::new("rustup")
            .args(["target", "add", musl])
            .current_dir(root()),
    );
    match added {
        Ok(_) if toolchain::has_target(Arch::host()) => Plan::Target,
        Ok(_) => Plan::BuildStd,
        Err(error) => {
            println!("rustup cannot ({error:#}); the standard library will be built instead");
            Plan::BuildStd
        }
    }
}

/// The way for ARM machines' agent: what is there, or else all that building
/// the standard library needs.
pub(crate) fn cross() -> Plan {
    match toolchain::route(Arch::Aarch64) {
        Some(Route::Target(_)) => Plan::Target,
        Some(Route::BuildStd(_)) | None => Plan::BuildStd,
    }
}

impl Plan {
    /// Distribution packages that this way needs.
    pub(crate) fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Target if toolchain::musl_cc(Arch::host()).is_some() => &[],
            Self::Target => &["musl-tools"],
            Self::BuildStd => &["rustc-web", "cargo-web", "rust-web-src"],
        }
    }

    /// Python packages that this way needs.
    pub(crate) fn python(self) -> &'static [&'static str] {
        match self {
            Self::Target => &[],
            Self::BuildStd => &["ziglang", "cargo-zigbuild"],
        }
    }

    /// Makes sure that the agent can be built now.
    pub(crate) fn check(self) -> Result<()> {
        match toolchain::route(Arch::host()) {
            Some(_) => Ok(()),
            None => Err(Exit::new(
                EX_UNAVAILABLE,
                format!(
                    "after all this there is still no way to build for {} ({self:?})",
                    Arch::host().musl()
                ),
            )
            .into()),
        }
    }
}

//! Running other programs, exit codes, and where things lie.

use std::fmt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;

/// sysexits(3): the command line is wrong.
pub(crate) const EX_USAGE: u8 = 64;
/// sysexits(3): something that is needed is not there.
pub(crate) const EX_UNAVAILABLE: u8 = 69;
/// sysexits(3): anything else.
pub(crate) const EX_SOFTWARE: u8 = 70;

/// An error that asks for an exit code of its own.
#[derive(Debug)]
pub(crate) struct Exit {
    code: u8,
    message: String,
}

impl Exit {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    pub(crate) fn code(&self) -> u8 {
        self.code
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Exit {}

/// The workspace's folder.
pub(crate) fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_owned()
}

/// Where artefacts lie that are not cargo's: `target/NAME` in the workspace,
/// whatever `CARGO_TARGET_DIR` says, so that every tool finds them.
pub(crate) fn artefacts(name: &str) -> PathBuf {
    root().join("target").join(name)
}

/// Cargo's own target folder.
pub(crate) fn cargo_target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) if !dir.is_empty() => root().join(dir),
        _ => root().join("target"),
    }
}

/// The cargo that runs this program.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Runs `command` with this program's output; its failure is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    let status = command
        .status()
        .with_context(|| format!("starting {shown}"))?;
    if !status.success() {
        bail!("{shown} failed ({status})");
    }
    Ok(())
}

/// Runs `command` and gives what it printed; its failure is an error that
/// holds what it complained about.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let shown = shown(command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("starting {shown}"))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!("{shown} failed ({}): {}", output.status, complaint.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Tries `action` up to three times, a few seconds apart: archives and
/// networks have short failures.
pub(crate) fn retried<T>(what: &str, mut action: impl FnMut() -> Result<T>) -> Result<T> {
    for pause in [3, 10] {
        match action() {
            Ok(value) => return Ok(value),
            Err(error) => eprintln!("{what}: {error:#}; trying again in {pause} s"),
        }
        thread::sleep(Duration::from_secs(pause));
    }
    action()
}

/// The full path of a program, searched like a shell does, and in the
/// administrator's folders that a user's `PATH` may lack.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(more)
        .map(|dir| dir.join(name))
        .find(|p| p.is_file())
}

/// Whether this process is root.
pub(crate) fn is_root() -> bool {
    output(Command::new("id").arg("-u")).is_ok_and(|uid| uid.trim() == "0")
}

fn shown(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(
        command
            .get_args()
            .map(|arg| arg.to_string_lossy().into_owned()),
    );
    words.join(" ")
}

//! Running the tools that images are made with.

use std::path::Path;
use std::process::Command;
use std::process::Stdio;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;

/// Runs `command`; gives what it printed. Its failure is an error with the
/// end of what it complained about.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let name = Path::new(&name)
        .file_name()
        .map_or(name.clone(), |n| n.to_string_lossy().into());
    let output = command.stdin(Stdio::null()).output().with_context(|| {
        format!("starting {name}; `cargo xtask setup` installs what is missing")
    })?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = complaint.trim().lines().collect();
        let end = lines[lines.len().saturating_sub(12)..].join("\n");
        bail!("{name} failed ({}): {end}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

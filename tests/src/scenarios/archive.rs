//! Looking into archives of ramdisks' logs.

use std::path::Path;
use std::process::Command;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;

/// A file of a `tar.gz`, as the system's own tar reads it.
pub(super) fn member(archive: &Path, name: &str) -> Result<String> {
    let output = Command::new("tar")
        .arg("-xzOf")
        .arg(archive)
        .arg(name)
        .output()
        .context("starting tar")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{name} of {}: {}",
        archive.display(),
        said.trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

//! `cargo xtask image`.
use anyhow::Result;

/// Runs the command.
pub(crate) fn main(_args: &[String]) -> Result<()> {
    Ok(())
}

//! `cargo xtask ramdisk`.
use anyhow::Result;

/// Runs the command.
pub(crate) fn main(_args: &[String]) -> Result<()> {
    println!("{}", crate::toolchain::build_agent()?.display());
    let kernel = crate::debs::behind("linux-image-amd64", "linux-image-")?;
    println!("{}", crate::debs::fetch(&kernel)?.dir.display());
    Ok(())
}

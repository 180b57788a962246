//! Builds images from unpacked packages; `cargo xtask image` fetches them
//! and calls this.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use wrought_image_build::Kind;
use wrought_image_build::Parts;
use wrought_image_build::TINY_MODULES;
use wrought_image_build::build;
use wrought_image_build::raid_modules;

const USAGE: &str = "\
usage: wrought-image-build debian --out DIR --package DIR…
       wrought-image-build tiny --out DIR --modules DIR --package DIR…
       wrought-image-build raid --out DIR --modules DIR --package DIR…
       wrought-image-build tiny-modules    (prints which modules tiny needs)
       wrought-image-build raid-modules    (prints which modules raid needs)";

fn main() -> ExitCode {
    match run() {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("wrought-image-build: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<String> {
    let mut args = std::env::args_os().skip(1);
    let name = args.next().context(USAGE)?;
    let (mut out, mut modules, mut packages) = (None, None, Vec::new());
    while let Some(flag) = args.next() {
        let value = args.next().map(PathBuf::from).context(USAGE)?;
        match flag.to_str() {
            Some("--out") => out = Some(value),
            Some("--modules") => modules = Some(value),
            Some("--package") => packages.push(value),
            _ => bail!(USAGE),
        }
    }
    let kind = match name.to_str() {
        Some("debian") => Kind::Debian,
        Some("tiny") => Kind::Tiny(modules.context(USAGE)?),
        Some("raid") => Kind::Raid(modules.context(USAGE)?),
        Some("raid-modules") => return Ok(raid_modules().join("\n")),
        Some("tiny-modules") => return Ok(TINY_MODULES.join("\n")),
        _ => bail!(USAGE),
    };
    build(&kind, &Parts::new(packages), &out.context(USAGE)?)
}

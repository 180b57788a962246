//! Builds the ramdisk from unpacked packages; `cargo xtask ramdisk` fetches
//! them and calls this.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use wrought_ramdisk::Inputs;
use wrought_ramdisk::build;
use wrought_ramdisk::missing;
use wrought_ramdisk::modules;

const USAGE: &str = "\
usage: wrought-ramdisk --agent FILE --kernel DIR --stub FILE --out DIR
           [--firmware DIR…] [--package DIR…] [--library DIR…]
       wrought-ramdisk modules --kernel DIR --out DIR NAME…
       wrought-ramdisk missing [--package DIR…] [--library DIR…]
All DIRs but --out are unpacked distribution packages. `missing` prints, a line
each, the libraries that the packages ask for and nobody has, a tab, and who
asks.";

fn main() -> ExitCode {
    match run() {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("wrought-ramdisk: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<String> {
    let (mut agent, mut kernel, mut stub, mut out) = (None, None, None, None);
    let (mut firmware, mut names) = (Vec::new(), Vec::new());
    let (mut packages, mut libraries) = (Vec::new(), Vec::new());
    let mut args = std::env::args_os().skip(1).peekable();
    let only_modules = args.next_if(|word| word == "modules").is_some();
    let only_missing = args.next_if(|word| word == "missing").is_some();
    while let Some(flag) = args.next() {
        if only_modules && !flag.as_encoded_bytes().starts_with(b"--") {
            names.push(flag.into_string().ok().context(USAGE)?);
            continue;
        }
        let value = args.next().map(PathBuf::from).context(USAGE)?;
        match flag.to_str() {
            Some("--agent") => agent = Some(value),
            Some("--kernel") => kernel = Some(value),
            Some("--stub") => stub = Some(value),
            Some("--out") => out = Some(value),
            Some("--firmware") => firmware.push(value),
            Some("--package") => packages.push(value),
            Some("--library") => libraries.push(value),
            _ => bail!(USAGE),
        }
    }
    if only_missing {
        let lines: Vec<String> = missing(&packages, &libraries)?
            .iter()
            .map(|m| format!("{}\t{}", m.library, m.wanted_by.display()))
            .collect();
        return Ok(lines.join("\n"));
    }
    let (kernel, out) = (kernel.context(USAGE)?, out.context(USAGE)?);
    if only_modules {
        return modules(&kernel, &names, &out);
    }
    let inputs = Inputs {
        agent: agent.context(USAGE)?,
        kernel,
        stub: stub.context(USAGE)?,
        firmware,
        packages,
        libraries,
    };
    build(&inputs, &out)
}

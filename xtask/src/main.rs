//! The project's own commands: `cargo xtask COMMAND`.

mod arch;
mod bench;
mod command;
mod debs;
mod demo;
mod fuzz;
mod harness;
mod image;
mod peer;
mod ramdisk;
mod setup;
mod test;
mod tidy;
mod toolchain;

use std::process::ExitCode;

use crate::command::EX_SOFTWARE;
use crate::command::EX_USAGE;
use crate::command::Exit;

const USAGE: &str = "\
usage: cargo xtask COMMAND
  setup [--all]                      install what is missing (Debian, as root)
  ramdisk [--firmware NAME…] [--package NAME…] [--rescue] [--arch x86_64|aarch64]
          [--help]
                                     build the agent's ramdisk into target/ramdisk
  image [debian|tiny]                build deployable images into target/images
  demo [--firmware uefi|bios] [--boot ipxe|pxe|vmedia|http] [--image debian|tiny]
       [--memory MIB] [--keep] [--json]
                                     take a bare virtual machine to a running OS
  test [--fast|--all] [FILTER]       everything that must hold
  bench image|api|boot|scale|erase [--json]
                                     the figures of SPECIFICATION.md
  peer record|show [PART]            ask a real Ironic what it says; show where we
                                     answer otherwise
  fuzz [--seconds N] [--keep] [TARGET]
                                     hostile bytes for the image data path
  tidy                               import directions, panics, formatting";

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    if args.is_empty() {
        eprintln!("{USAGE}");
        return ExitCode::from(EX_USAGE);
    }
    let name = args.remove(0);
    let done = match name.as_str() {
        "setup" => setup::main(&args),
        "ramdisk" => ramdisk::main(&args),
        "image" => image::main(&args),
        "demo" => demo::main(&args),
        "test" => test::main(&args),
        "bench" => bench::main(&args),
        "peer" => peer::main(&args),
        "fuzz" => fuzz::main(&args),
        "tidy" => tidy::main(&args),
        "help" | "--help" | "-h" => {
            println!("{USAGE}");
            Ok(())
        }
        other => Err(Exit::new(EX_USAGE, format!("no command {other}\n{USAGE}")).into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask {name}: {error:#}");
            let code = error.downcast_ref::<Exit>().map_or(EX_SOFTWARE, Exit::code);
            ExitCode::from(code)
        }
    }
}

//! `write IMAGE CHECKSUM DEVICE [MEMORY_MIB]`: the data path by itself, for
//! profiling. The real command is `wrought-agent write`.

use std::process::ExitCode;

use wrought_image::cli::WriteArgs;
use wrought_image::cli::run_write;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let mut next = || args.next().unwrap_or_default();
    ExitCode::from(run_write(&WriteArgs {
        images: vec![next()],
        checksum: Some(next()),
        device: next().into(),
        memory_mib: next().parse().ok(),
        json: true,
        ..WriteArgs::default()
    }))
}

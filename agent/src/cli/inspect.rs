//! `wrought-agent inspect`: what an image is.

use std::process::ExitCode;

use clap::Args;
use wrought_image::cli::InspectArgs;
use wrought_image::cli::run_inspect;

use super::server::Server;

#[derive(Debug, Args)]
pub(super) struct Inspect {
    /// The image: http://, https://, oci://, file:// or a path.
    image: String,
    /// One JSON object on standard output.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

impl Inspect {
    pub(super) fn main(self) -> ExitCode {
        ExitCode::from(run_inspect(&InspectArgs {
            image: self.image,
            json: self.json,
            server: self.server.into(),
        }))
    }
}

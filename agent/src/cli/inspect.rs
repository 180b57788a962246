//! `wrought-agent inspect`: what an image is.

use std::process::ExitCode;

use clap::Args;
use wrought_image::cli::InspectArgs;
use wrought_image::cli::run_inspect;

use super::write::Trust;

#[derive(Debug, Args)]
pub(super) struct Inspect {
    /// The image: http://, https://, file:// or a path.
    image: String,
    /// One JSON object on standard output.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    trust: Trust,
}

impl Inspect {
    pub(super) fn main(self) -> ExitCode {
        ExitCode::from(run_inspect(&InspectArgs {
            image: self.image,
            json: self.json,
            trust: self.trust.into(),
        }))
    }
}

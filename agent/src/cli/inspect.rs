//! `wrought-agent inspect`.

use std::process::ExitCode;

use clap::Args;

use super::UNAVAILABLE;

#[derive(Debug, Args)]
pub(super) struct Inspect {
    /// The image: http://, https://, file:// or a path.
    image: String,
    /// One JSON object on standard output.
    #[arg(long)]
    json: bool,
}

impl Inspect {
    pub(super) fn main(self) -> ExitCode {
        eprintln!("error: {}: inspecting an image is not built yet (json: {})", self.image, self.json);
        ExitCode::from(UNAVAILABLE)
    }
}

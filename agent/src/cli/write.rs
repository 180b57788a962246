//! `wrought-agent write`: one image to one disk, without any API.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use nix::sys::signal::SigSet;
use nix::sys::signal::Signal;
use wrought_image::CancelToken;
use wrought_image::Layout;
use wrought_image::cli::WriteArgs;
use wrought_image::cli::run_write;

use super::server::Server;

#[derive(Debug, Args)]
pub(super) struct Write {
    /// The image: http://, https://, oci://, file:// or a path; repeatable,
    /// tried in order, also when one dies in the middle of the image.
    #[arg(long = "image", value_name = "URL", required = true)]
    images: Vec<String>,
    /// Expected digest: sha256:HEX, sha512:HEX, plain hex, or the URL of a
    /// sums file. Only an image in a registry that is named by its digest
    /// (oci://HOST/NAME@sha256:…) needs none.
    #[arg(long, value_name = "ALGO:HEX|URL")]
    checksum: Option<String>,
    /// Algorithm of the digest, where a sums file holds several.
    #[arg(long, value_name = "ALGO")]
    checksum_type: Option<String>,
    /// Block device or plain file to write to.
    #[arg(long, value_name = "PATH")]
    device: PathBuf,
    /// Format that the image must have, such as raw or qcow2.
    #[arg(long, value_name = "FORMAT")]
    disk_format: Option<String>,
    /// Whether the image fills the target as a whole disk or as one partition
    /// [default: what the kernel says the target is].
    #[arg(long, value_name = "disk|partition", value_parser = layout, default_value = "auto",
          hide_default_value = true)]
    layout: Layout,
    /// Progress as JSON lines on standard output, one final object last.
    #[arg(long)]
    json: bool,
    /// Read everything back from the disk before it is made bootable.
    #[arg(long)]
    verify_after_write: bool,
    /// Budget for buffers and decoders, in MiB.
    #[arg(long, value_name = "MIB")]
    memory: Option<u64>,
    /// Accept MD5 digests.
    #[arg(long)]
    allow_md5: bool,
    /// No progress bar and no report, only errors.
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    server: Server,
}

fn layout(text: &str) -> Result<Layout, String> {
    match text {
        "auto" => Ok(Layout::Auto),
        "disk" => Ok(Layout::Disk),
        "partition" => Ok(Layout::Partition),
        _ => Err("expected disk or partition".to_owned()),
    }
}

impl Write {
    pub(super) fn main(self) -> ExitCode {
        let cancel = CancelToken::new();
        cancel_on_signals(cancel.clone());
        ExitCode::from(run_write(&WriteArgs {
            images: self.images,
            checksum: self.checksum,
            checksum_type: self.checksum_type,
            device: self.device,
            disk_format: self.disk_format,
            layout: self.layout,
            json: self.json,
            verify_after_write: self.verify_after_write,
            memory_mib: self.memory,
            allow_md5: self.allow_md5,
            quiet: self.quiet,
            server: self.server.into(),
            cancel,
        }))
    }
}

/// An interrupted write still leaves both ends of the disk zero. Must be
/// called before any other thread starts.
fn cancel_on_signals(cancel: CancelToken) {
    let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]
        .into_iter()
        .collect();
    if signals.thread_block().is_err() {
        // The signals then end the process at once, as they always would.
        return;
    }
    std::thread::spawn(move || {
        if signals.wait().is_ok() {
            cancel.cancel();
        }
    });
}

//! `wrought-agent write --image URL --checksum … --device PATH`.

use std::io;
use std::io::IsTerminal;
use std::io::Write;
use std::path::PathBuf;

use wrought_formats::detect::Format;

use super::TrustArgs;
use super::failed;
use super::json;
use super::line;
use super::say;
use super::size;
use crate::cancel::CancelToken;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;
use crate::progress::Progress;
use crate::progress::ProgressFn;
use crate::report::WriteReport;
use crate::request::WriteRequest;

/// Arguments of `write`.
#[derive(Debug, Clone, Default)]
pub struct WriteArgs {
    /// URLs or paths, tried in order.
    pub images: Vec<String>,
    /// `ALGO:HEX`, hex, or the URL of a sums file.
    pub checksum: Option<String>,
    /// Block device or plain file.
    pub device: PathBuf,
    /// Declared format.
    pub disk_format: Option<String>,
    /// Print JSON lines.
    pub json: bool,
    /// Read the disk back.
    pub verify_after_write: bool,
    /// Memory budget in MiB; the default is 48.
    pub memory_mib: Option<u64>,
    /// Accept MD5.
    pub allow_md5: bool,
    /// Trust of image servers.
    pub trust: TrustArgs,
    /// Stops the write, from a signal handler.
    pub cancel: CancelToken,
}

impl WriteArgs {
    fn request(&self) -> Result<WriteRequest, Error> {
        let mut request = WriteRequest::new("", &self.device);
        request.sources.clone_from(&self.images);
        request.checksum.clone_from(&self.checksum);
        request.format = match self.disk_format.as_deref() {
            None | Some("" | "unknown") => None,
            Some(name) => Some(Format::from_name(name).ok_or_else(|| {
                let text = format!("the disk format {name:?} is not known, use raw or qcow2");
                Error::new(ErrorKind::Request, Stage::Check, text)
            })?),
        };
        if let Some(mib) = self.memory_mib {
            request.memory = mib.saturating_mul(1 << 20);
        }
        request.verify_after_write = self.verify_after_write;
        request.allow_md5 = self.allow_md5;
        request.http = self.trust.options()?;
        request.cancel = self.cancel.clone();
        let terminal = io::stderr().is_terminal();
        request.progress = if self.json {
            Some(ProgressFn::new(|progress| line(&json::progress(progress))))
        } else if terminal {
            Some(ProgressFn::new(bar))
        } else {
            None
        };
        Ok(request)
    }
}

/// Writes the image and prints how it goes; the exit code is 0 only when
/// everything is on the disk.
#[must_use]
pub fn run_write(args: &WriteArgs) -> u8 {
    let result = args.request().and_then(|request| crate::write(&request));
    if !args.json && io::stderr().is_terminal() {
        say("");
    }
    match result {
        Ok(report) if args.json => {
            line(&json::report(&report, peak_rss_bytes()));
            0
        }
        Ok(report) => {
            print(&report);
            0
        }
        Err(error) => failed(&error, args.json),
    }
}

/// Rewrites one line of the terminal.
fn bar(progress: &Progress) {
    const WIDTH: usize = 30;
    let percent = usize::from(progress.percent.unwrap_or(0));
    let full = percent * WIDTH / 100;
    let _ = write!(
        io::stderr().lock(),
        "\r{:>9} [{}{}] {percent:3} %  {}  {}/s   ",
        progress.stage.name(),
        "#".repeat(full),
        ".".repeat(WIDTH - full),
        size(progress.bytes_in),
        size(progress.rate)
    );
}

fn print(report: &WriteReport) {
    let seconds = report.elapsed.as_secs_f64();
    line(&format_args!(
        "wrote {} of {} ({}) in {seconds:.1} s; {} verified{}",
        size(report.bytes_out),
        report.source,
        report.format,
        report.algorithm,
        if report.read_back { ", read back" } else { "" }
    ));
    for partition in &report.table.partitions {
        line(&format_args!(
            "  partition {}: {} {}",
            partition.number,
            size(partition.size),
            partition.name
        ));
    }
}

/// Most memory this process ever had resident.
fn peak_rss_bytes() -> u64 {
    nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF)
        .ok()
        .and_then(|usage| u64::try_from(usage.max_rss()).ok())
        .map_or(0, |kib| kib * 1024)
}

//! `wrought-agent write --image URL --checksum … --device PATH`.

use std::io;
use std::io::IsTerminal;
use std::io::Write;
use std::path::PathBuf;

use wrought_formats::detect::Format;

use super::ServerArgs;
use super::failed;
use super::json;
use super::line;
use super::say;
use super::told;
use crate::cancel::CancelToken;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;
use crate::progress::Progress;
use crate::progress::ProgressFn;
use crate::report::WriteReport;
use crate::request::Algorithm;
use crate::request::Layout;
use crate::request::WriteRequest;
use crate::size::size;

/// Arguments of `write`.
#[derive(Debug, Clone, Default)]
pub struct WriteArgs {
    /// URLs or paths, tried in order.
    pub images: Vec<String>,
    /// `ALGO:HEX`, hex, or the URL of a sums file.
    pub checksum: Option<String>,
    /// Block device or plain file.
    pub device: PathBuf,
    /// Algorithm of the checksum, where its length does not tell or a sums
    /// file holds several.
    pub checksum_type: Option<String>,
    /// Declared format.
    pub disk_format: Option<String>,
    /// The target is a partition although the kernel does not call it one, or
    /// a disk although it does.
    pub layout: Layout,
    /// Print JSON lines.
    pub json: bool,
    /// Read the disk back.
    pub verify_after_write: bool,
    /// Memory budget in MiB; the default is 48.
    pub memory_mib: Option<u64>,
    /// Accept MD5.
    pub allow_md5: bool,
    /// Print nothing but errors.
    pub quiet: bool,
    /// How to talk to image servers.
    pub server: ServerArgs,
    /// Stops the write, from a signal handler.
    pub cancel: CancelToken,
}

impl WriteArgs {
    fn request(&self) -> Result<WriteRequest, Error> {
        let mut request = WriteRequest::new("", &self.device);
        request.sources.clone_from(&self.images);
        request.checksum.clone_from(&self.checksum);
        request.checksum_algorithm = match self.checksum_type.as_deref() {
            None => None,
            Some(name) => Some(Algorithm::from_name(name).ok_or_else(|| {
                let text = format!("the checksum type {name:?} is not known, use sha256 or sha512");
                Error::new(ErrorKind::Request, Stage::Check, text)
            })?),
        };
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
        request.layout = self.layout;
        request.verify_after_write = self.verify_after_write;
        // By hand, a mistake must not cost the disk its content.
        request.zero_on_refusal = false;
        request.allow_md5 = self.allow_md5;
        request.http = self.server.options()?;
        request.cancel = self.cancel.clone();
        request.progress = if self.json {
            Some(ProgressFn::new(|progress| {
                // What is lost of it changes nothing; the result is checked.
                let _ = line(&json::progress(progress));
            }))
        } else if self.shows_bar() {
            Some(ProgressFn::new(bar))
        } else {
            None
        };
        Ok(request)
    }

    fn shows_bar(&self) -> bool {
        !self.json && !self.quiet && io::stderr().is_terminal()
    }
}

/// Writes the image and prints how it goes; the exit code is 0 only when
/// everything is on the disk.
#[must_use]
pub fn run_write(args: &WriteArgs) -> u8 {
    let result = args.request().and_then(|request| crate::write(&request));
    if args.shows_bar() {
        say("");
    }
    match result {
        Ok(report) if args.json => told(line(&json::report(&report, peak_rss_bytes())), 0),
        Ok(_) if args.quiet => 0,
        Ok(report) => told(print(&report), 0),
        Err(error) => failed(&error, args.json),
    }
}

/// Rewrites one line of the terminal.
fn bar(progress: &Progress) {
    // A closed terminal is its owner's business.
    let _ = write!(io::stderr().lock(), "\r{}\x1b[K", bar_text(progress));
}

fn bar_text(progress: &Progress) -> String {
    const WIDTH: usize = 30;
    let mut text = format!("{:>9} ", progress.stage.name());
    if let Some(percent) = progress.percent {
        let full = usize::from(percent) * WIDTH / 100;
        let (full, rest) = ("#".repeat(full), ".".repeat(WIDTH - full));
        text += &format!("[{full}{rest}] {percent:3} %  ");
    }
    let (read, rate) = (size(progress.bytes_in), size(progress.rate));
    text += &format!("{read}  {rate}/s");
    if let Some(eta) = progress.eta {
        text += &format!("  {}:{:02} left", eta / 60, eta % 60);
    }
    text
}

fn print(report: &WriteReport) -> io::Result<()> {
    let seconds = report.elapsed.as_secs_f64();
    line(&format_args!(
        "wrote {} of {} ({}) in {seconds:.1} s; {} verified{}",
        size(report.bytes_out),
        report.source,
        report.format,
        report.algorithm,
        if report.read_back { ", read back" } else { "" }
    ))?;
    for partition in &report.table.partitions {
        line(&format_args!(
            "  partition {}: {} {}",
            partition.number,
            size(partition.size),
            partition.name
        ))?;
    }
    Ok(())
}

/// Most memory this process ever had resident.
fn peak_rss_bytes() -> u64 {
    nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF)
        .ok()
        .and_then(|usage| u64::try_from(usage.max_rss()).ok())
        .map_or(0, |kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_shows_what_is_known() {
        let mut progress = Progress {
            stage: Stage::Write,
            bytes_in: 512 << 20,
            bytes_total: Some(1 << 30),
            bytes_out: 1,
            rate: 4 << 20,
            percent: Some(50),
            eta: Some(128),
        };
        assert_eq!(
            bar_text(&progress),
            "    write [###############...............]  50 %  512.0 MiB  4.0 MiB/s  2:08 left"
        );
        (progress.percent, progress.eta) = (None, None);
        assert_eq!(bar_text(&progress), "    write 512.0 MiB  4.0 MiB/s");
    }

    #[test]
    fn unknown_names_are_usage_errors() {
        let wrong = [
            WriteArgs {
                checksum_type: Some("crc".to_owned()),
                ..WriteArgs::default()
            },
            WriteArgs {
                disk_format: Some("tar".to_owned()),
                ..WriteArgs::default()
            },
        ];
        for args in wrong {
            assert_eq!(args.request().unwrap_err().kind().exit_code(), 64);
        }
    }
}

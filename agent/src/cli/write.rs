//! `wrought-agent write`: one image to one disk, without any API.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;
use serde_json::json;
use wrought_image::Error;
use wrought_image::Format;
use wrought_image::HttpOptions;
use wrought_image::Progress;
use wrought_image::ProgressFn;
use wrought_image::WriteReport;
use wrought_image::WriteRequest;

use super::USAGE;
use super::fail;
use crate::system::peak_rss_bytes;

/// Bytes of a CA file.
const CA_LIMIT: u64 = 1 << 20;

#[derive(Debug, Args)]
pub(super) struct Write {
    /// The image: http://, https://, file:// or a path.
    #[arg(long, value_name = "URL")]
    image: String,
    /// Expected digest: sha256:HEX, sha512:HEX, plain hex, or the URL of a
    /// sums file.
    #[arg(long, value_name = "ALGO:HEX|URL")]
    checksum: String,
    /// Block device or plain file to write to.
    #[arg(long, value_name = "PATH")]
    device: PathBuf,
    /// Format that the image must have, such as raw or qcow2.
    #[arg(long, value_name = "FORMAT")]
    disk_format: Option<String>,
    /// Progress as JSON lines on standard output, one final object last.
    #[arg(long)]
    json: bool,
    /// Read everything back from the disk before it is made bootable.
    #[arg(long)]
    verify_after_write: bool,
    /// Budget for buffers and decoders, in MiB.
    #[arg(long, value_name = "MIB")]
    memory: Option<u64>,
    /// PEM file with a CA to trust for the image server, repeatable.
    #[arg(long, value_name = "PATH")]
    ca_file: Vec<PathBuf>,
    /// Do not check the image server's certificate; the digest still decides.
    #[arg(long)]
    insecure: bool,
    /// Accept MD5 digests.
    #[arg(long)]
    allow_md5: bool,
}

impl Write {
    pub(super) fn main(self) -> ExitCode {
        let json = self.json;
        let request = match self.request() {
            Ok(request) => request,
            Err(problem) => {
                eprintln!("error: {problem}");
                return ExitCode::from(USAGE);
            }
        };
        match wrought_image::write(&request) {
            Ok(report) => {
                if json {
                    println!("{}", report_json(&report));
                } else {
                    println!("{}", report_text(&report));
                }
                ExitCode::SUCCESS
            }
            Err(error) => {
                if json {
                    println!("{}", error_json(&error));
                }
                fail(&error, error.kind().exit_code())
            }
        }
    }

    fn request(self) -> Result<WriteRequest, String> {
        let mut request = WriteRequest::new(self.image, self.device);
        request.checksum = Some(self.checksum);
        if let Some(name) = &self.disk_format {
            let format = Format::from_name(name);
            request.format = Some(format.ok_or_else(|| format!("--disk-format {name} is not known"))?);
        }
        if let Some(mib) = self.memory {
            request.memory = mib.saturating_mul(1 << 20);
        }
        request.verify_after_write = self.verify_after_write;
        request.allow_md5 = self.allow_md5;
        let mut extra_ca_pem = Vec::new();
        for path in &self.ca_file {
            let mut pem = Vec::new();
            File::open(path)
                .and_then(|file| file.take(CA_LIMIT).read_to_end(&mut pem))
                .map_err(|error| format!("--ca-file {}: {error}", path.display()))?;
            extra_ca_pem.push(pem);
        }
        request.http = HttpOptions { extra_ca_pem, insecure: self.insecure, ..HttpOptions::default() };
        request.progress = Some(if self.json {
            ProgressFn::new(|progress| println!("{}", progress_json(progress)))
        } else {
            ProgressFn::new(|progress| eprintln!("{}", progress_text(progress)))
        });
        Ok(request)
    }
}

fn progress_json(progress: &Progress) -> Value {
    json!({
        "stage": progress.stage.name(),
        "bytes_in": progress.bytes_in,
        "bytes_total": progress.bytes_total,
        "bytes_out": progress.bytes_out,
        "rate": progress.rate,
        "percent": progress.percent,
    })
}

fn progress_text(progress: &Progress) -> String {
    let percent = progress.percent.map_or_else(String::new, |percent| format!(" {percent} %,"));
    format!(
        "{}:{percent} {} MiB in, {} MiB out, {} MiB/s",
        progress.stage,
        progress.bytes_in >> 20,
        progress.bytes_out >> 20,
        progress.rate >> 20
    )
}


fn report_json(report: &WriteReport) -> Value {
    let partitions: Vec<Value> = report
        .table
        .partitions
        .iter()
        .map(|partition| {
            json!({
                "number": partition.number,
                "start": partition.start,
                "size": partition.size,
                "type": partition.type_id,
                "partuuid": partition.partuuid,
                "name": partition.name,
                "esp": partition.is_esp,
            })
        })
        .collect();
    json!({
        "result": "written",
        "format": report.format.name(),
        "source": report.source,
        "bytes_in": report.bytes_in,
        "bytes_out": report.bytes_out,
        "bytes_zeroed": report.bytes_zeroed,
        "bytes_refetched": report.bytes_refetched,
        "digest": format!("{}:{}", report.algorithm.name(), report.digest),
        "checksum_source": report.checksum_source,
        "read_back": report.read_back,
        "disk_bytes": report.disk_bytes,
        "sector_size": report.sector_size,
        "table": report.table.kind.name(),
        "disk_id": report.table.disk_id,
        "partitions": partitions,
        "seconds": report.elapsed.as_secs_f64(),
        "connections": report.connections,
        "peak_rss_bytes": peak_rss_bytes(),
    })
}

fn report_text(report: &WriteReport) -> String {
    format!(
        "written: {} image of {} bytes to {} bytes of the disk, {}:{}, in {:.1} s",
        report.format.name(),
        report.bytes_in,
        report.bytes_out,
        report.algorithm.name(),
        report.digest,
        report.elapsed.as_secs_f64()
    )
}

fn error_json(error: &Error) -> Value {
    json!({
        "result": "failed",
        "kind": error.kind().name(),
        "stage": error.stage().name(),
        "offset": error.offset(),
        "disk": format!("{:?}", error.disk()),
        "error": crate::command::CommandFailure::chain(error),
        "peak_rss_bytes": peak_rss_bytes(),
    })
}

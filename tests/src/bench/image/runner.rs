//! Those who take part: ours, what one would type instead, the agent that
//! others use, and the parts by themselves.

use std::fs;
use std::fs::File;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use serde_json::Value;

use super::plan::Hash;
use super::plan::Kind;
use super::plan::Place;
use super::plan::Row;
use crate::bench::part::Part;
use crate::bench::process::Usage;
use crate::bench::process::measure;
use crate::bench::process::run;
use crate::bench::stop::Stop;

/// Into the target past the page cache, as fast as `dd` can, flushed at the
/// end like everybody else's writing.
const DD: &str =
    "dd of=\"$DISK\" bs=4M iflag=fullblock oflag=direct conv=notrunc,fsync status=none";

/// Who runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Runner {
    /// `wrought-agent write`.
    Ours,
    /// `curl | dd`, for raw images: nothing is checked.
    Dd,
    /// Download, check, then convert or unpack.
    Download,
    /// The data path of ironic-python-agent.
    RealAgent,
    /// `qemu-img convert` alone, from a local file.
    Convert,
    /// Our hash alone, on one core.
    Hash,
    /// `sha256sum` or `sha512sum` alone.
    HashTool,
    /// Unpacking alone, to nowhere: zlib-rs for gz, else the usual program.
    Unpack,
}

impl Runner {
    /// Name in JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Dd => "curl_dd",
            Self::Download => "download_check_convert",
            Self::RealAgent => "real_agent",
            Self::Convert => "convert_alone",
            Self::Hash => "hash_alone",
            Self::HashTool => "hash_tool_alone",
            Self::Unpack => "unpack_alone",
        }
    }

    /// Whether it writes to the target.
    pub(super) fn writes(self) -> bool {
        !matches!(self, Self::Hash | Self::HashTool | Self::Unpack)
    }

    /// Those of a row, in the order of the first round.
    pub(super) fn of(row: &Row, has_real_agent: bool) -> Vec<Self> {
        let mut runners = vec![Self::Ours];
        if row.kind == Kind::Raw {
            runners.push(Self::Dd);
        }
        runners.push(Self::Download);
        // The real agent writes to block devices only and leaves unpacking to
        // others; a sparse image it would write out in full. To keep the whole
        // short it takes part with one hash only.
        let can = row.place == Place::Loop && row.kind.unpacker().is_none();
        let usual = row.hash == Hash::Sha256 && row.kind != Kind::Sparse;
        if has_real_agent && can && usual {
            runners.push(Self::RealAgent);
        }
        if row.kind.is_qcow2() {
            runners.push(Self::Convert);
        }
        // Nothing is promised beside `xz`, which takes long.
        if row.kind.unpacker().is_some() && row.kind != Kind::RawXz {
            runners.push(Self::Unpack);
        }
        runners.push(Self::Hash);
        if row.kind == Kind::Raw && row.place == Place::Loop {
            runners.push(Self::HashTool);
        }
        runners
    }
}

/// What the runners need.
#[derive(Debug)]
pub(super) struct Tools {
    /// The shipped agent.
    pub(super) agent: PathBuf,
    /// This program, which can do the parts by themselves.
    pub(super) harness: PathBuf,
    /// Python with ironic-python-agent, where it could be installed.
    pub(super) python: Option<PathBuf>,
    /// Our driver of it.
    pub(super) driver: PathBuf,
    /// Where downloads go: memory, as in a ramdisk.
    pub(super) downloads: PathBuf,
    pub(super) stop: Stop,
}

/// One image on its way to one target.
#[derive(Debug)]
pub(super) struct Job<'a> {
    pub(super) row: Row,
    pub(super) url: String,
    pub(super) file: PathBuf,
    pub(super) digest: &'a str,
    pub(super) disk: &'a Path,
}

impl Tools {
    /// Runs one of them once.
    pub(super) fn run(&self, runner: Runner, job: &Job<'_>) -> Result<Usage> {
        let result = self.run_and_leave(runner, job);
        // Downloads are not kept from one run to the next.
        for entry in fs::read_dir(&self.downloads)?.flatten() {
            fs::remove_file(entry.path()).ok();
        }
        result.with_context(|| format!("{} with {}", runner.name(), job.row))
    }

    fn run_and_leave(&self, runner: Runner, job: &Job<'_>) -> Result<Usage> {
        let hash = job.row.hash.name();
        match runner {
            Runner::Ours => self.ours(job),
            Runner::RealAgent => self.real_agent(job),
            Runner::Hash if job.row.hash == Hash::Sha256 => self.part(Part::Sha256, job),
            Runner::Hash => self.part(Part::Sha512, job),
            Runner::Unpack if job.row.kind == Kind::RawGz => self.part(Part::Gzip, job),
            Runner::Dd => self.shell(&format!("curl -sf \"$URL\" | {DD}"), job),
            Runner::Download => {
                let write = match job.row.kind.unpacker() {
                    Some(program) => format!("{program} -dc download | {DD}"),
                    None => convert(job.row.kind, "download"),
                };
                let script = format!(
                    "cd \"$DOWNLOADS\" && curl -sf -o download \"$URL\" && \
                     echo \"$DIGEST  download\" | {hash}sum -c --status && {write}"
                );
                self.shell(&script, job)
            }
            Runner::Convert => self.shell(&convert(job.row.kind, "\"$FILE\""), job),
            Runner::HashTool => self.shell(&format!("{hash}sum \"$FILE\" > /dev/null"), job),
            Runner::Unpack => {
                let program = job.row.kind.unpacker().unwrap_or("cat");
                self.shell(&format!("{program} -dc \"$FILE\" > /dev/null"), job)
            }
        }
    }

    /// Ours; what it complains about becomes the error.
    fn ours(&self, job: &Job<'_>) -> Result<Usage> {
        let said = self.downloads.join("stderr");
        let mut command = Command::new(&self.agent);
        command
            .args(["write", "--json", "--image", &job.url, "--checksum"])
            .arg(format!("{}:{}", job.row.hash.name(), job.digest))
            .arg("--device")
            .arg(job.disk)
            .stdout(File::create(self.downloads.join("stdout"))?)
            .stderr(File::create(&said)?);
        let (status, usage) = run(&mut command, &self.stop)?;
        if !status.success() {
            let said = fs::read_to_string(&said).unwrap_or_default();
            bail!("{status}: {}", said.lines().last().unwrap_or_default());
        }
        Ok(usage)
    }

    /// The real agent, by its own clock: it is running long before a deploy.
    fn real_agent(&self, job: &Job<'_>) -> Result<Usage> {
        let python = self.python.as_ref().context("it is not installed")?;
        let format = if job.row.kind == Kind::Raw {
            "raw"
        } else {
            "qcow2"
        };
        let (out, log) = (self.downloads.join("stdout"), self.downloads.join("log"));
        let mut command = Command::new(python);
        command
            .arg(&self.driver)
            .args([&job.url, format, job.row.hash.name(), job.digest])
            .arg(job.disk)
            .env("TMPDIR", &self.downloads)
            .stdout(File::create(&out)?)
            .stderr(File::create(&log)?);
        let (status, usage) = run(&mut command, &self.stop)?;
        if !status.success() {
            let log = fs::read_to_string(&log).unwrap_or_default();
            bail!("{status}: {}", log.lines().last().unwrap_or_default());
        }
        let told: Value = serde_json::from_str(&fs::read_to_string(&out)?)?;
        let of = |name: &str| told[name].as_f64().context("the driver told no times");
        Ok(Usage {
            wall: of("seconds")?,
            cpu: of("cpu_seconds")?,
            ..usage
        })
    }

    /// A part of ours by itself, on one core.
    fn part(&self, part: Part, job: &Job<'_>) -> Result<Usage> {
        let mut command = Command::new(&self.harness);
        command.args(["part", part.name()]).arg(&job.file);
        measure(&mut command, &self.stop)
    }

    fn shell(&self, script: &str, job: &Job<'_>) -> Result<Usage> {
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .env("URL", &job.url)
            .env("FILE", &job.file)
            .env("DISK", job.disk)
            .env("DIGEST", job.digest)
            .env("DOWNLOADS", &self.downloads);
        measure(&mut command, &self.stop)
    }
}

/// Writes `from` to the target without making the target anew.
fn convert(kind: Kind, from: &str) -> String {
    let format = if kind.is_qcow2() { "qcow2" } else { "raw" };
    format!("qemu-img convert -n -W -t none -f {format} -O raw {from} \"$DISK\"")
}

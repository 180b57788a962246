//! `bench image`: the data path against what an operator would type instead.
//!
//! A mixed image of 1 GiB (a quarter random, a quarter zero, half program
//! files) as raw and as compressed qcow2, from a local HTTP server to a file.

use std::fs::File;
use std::io::Read;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use serde_json::Value;
use serde_json::json;
use sha2::Digest;
use sha2::Sha256;

use super::files::FileServer;
use super::process::Usage;
use super::process::measure;
use super::process::median;

const SIZE: u64 = 1 << 30;
const MIB: usize = 1 << 20;
/// Counted runs of each row; their median is shown.
const RUNS: usize = 5;

/// Runs the rows; `agent` is the release binary.
pub fn run(work: &Path, agent: &Path) -> Result<Value> {
    let raw = work.join("mixed.raw");
    make_mixed(&raw)?;
    let qcow2 = work.join("mixed.qcow2");
    convert(&raw, &qcow2)?;
    let server = FileServer::start(work)?;
    let mut rows = Vec::new();
    for image in [&raw, &qcow2] {
        rows.push(row(work, agent, &server, image)?);
    }
    Ok(json!({ "bench": "image", "runs": RUNS, "image_bytes": SIZE, "rows": rows }))
}

/// One image: ours and the peer in turn, so that a drifting machine slows both.
fn row(work: &Path, agent: &Path, server: &FileServer, image: &Path) -> Result<Value> {
    let name = image
        .file_name()
        .and_then(|name| name.to_str())
        .context("image name")?;
    let url = server.url(name);
    let digest = sha256_of(image)?;
    let target = work.join("target.img");
    let mut ours = Vec::new();
    let mut peers = Vec::new();
    for _ in 0..=RUNS {
        fresh(&target)?;
        ours.push(measure(
            Command::new(agent)
                .args(["write", "--json", "--image", &url, "--checksum"])
                .arg(format!("sha256:{digest}"))
                .arg("--device")
                .arg(&target)
                .stdout(Stdio::null()),
        )?);
        fresh(&target)?;
        peers.push(peer(work, &url, name, &digest, &target)?);
    }
    let hash = one_core_hash(image)?;
    // The first run of each warms the caches and does not count.
    Ok(summary(name, &ours[1..], &peers[1..], hash))
}

/// What one types without us: raw by `curl | dd`, qcow2 by download, check and
/// `qemu-img convert`.
fn peer(work: &Path, url: &str, name: &str, digest: &str, target: &Path) -> Result<Usage> {
    let script = if name.ends_with(".raw") {
        "curl -sf \"$1\" | dd of=\"$2\" bs=4M iflag=fullblock oflag=direct conv=notrunc,fsync status=none"
    } else {
        "curl -sf -o \"$3\" \"$1\" && echo \"$4  $3\" | sha256sum -c --status && \
         qemu-img convert -n -W -t none -f qcow2 -O raw \"$3\" \"$2\""
    };
    let cached = work.join("download");
    measure(
        Command::new("sh")
            .args(["-c", script, "sh", url])
            .arg(target)
            .arg(cached)
            .arg(digest),
    )
}

fn summary(name: &str, ours: &[Usage], peers: &[Usage], hash_seconds: f64) -> Value {
    let of = |runs: &[Usage], field: fn(&Usage) -> f64| {
        median(&mut runs.iter().map(field).collect::<Vec<_>>())
    };
    let ratios: Vec<f64> = ours
        .iter()
        .zip(peers)
        .map(|(a, b)| a.wall / b.wall)
        .collect();
    json!({
        "image": name,
        "ours_seconds": of(ours, |u| u.wall),
        "ours_cpu_seconds": of(ours, |u| u.cpu),
        "ours_peak_rss_bytes": ours.iter().map(|u| u.peak_rss).max(),
        "peer_seconds": of(peers, |u| u.wall),
        "peer_cpu_seconds": of(peers, |u| u.cpu),
        "ratio_to_peer": median(&mut ratios.clone()),
        "one_core_hash_seconds": hash_seconds,
    })
}

/// Seconds that one core needs to hash the file from the page cache.
fn one_core_hash(path: &Path) -> Result<f64> {
    let mut seconds = Vec::new();
    for _ in 0..RUNS {
        let started = std::time::Instant::now();
        sha256_of(path)?;
        seconds.push(started.elapsed().as_secs_f64());
    }
    Ok(median(&mut seconds))
}

/// An empty sparse target of 2 GiB.
fn fresh(target: &Path) -> Result<()> {
    let file = File::create(target).with_context(|| format!("making {}", target.display()))?;
    file.set_len(2 * SIZE)?;
    Ok(())
}

/// Writes the mixed image: a valid GPT disk, so that the table check passes.
fn make_mixed(path: &Path) -> Result<()> {
    let mut file = File::create(path).with_context(|| format!("making {}", path.display()))?;
    let mut programs = Programs::open()?;
    let mut random = File::open("/dev/urandom")?;
    let mut block = vec![0_u8; MIB];
    for index in 0..SIZE / MIB as u64 {
        match index % 4 {
            0 => random.read_exact(&mut block)?,
            1 => block.fill(0),
            _ => programs.fill(&mut block)?,
        }
        file.write_all(&block)?;
    }
    drop(file);
    let status = Command::new("sgdisk")
        .args(["--clear", "--new=1:2048:0", "--change-name=1:root"])
        .arg(path)
        .stdout(Stdio::null())
        .status()
        .context("running sgdisk")?;
    if !status.success() {
        bail!(
            "sgdisk could not make a table on {} ({status})",
            path.display()
        );
    }
    Ok(())
}

fn convert(raw: &Path, qcow2: &Path) -> Result<()> {
    let status = Command::new("qemu-img")
        .args(["convert", "-f", "raw", "-O", "qcow2", "-c"])
        .arg(raw)
        .arg(qcow2)
        .status()
        .context("running qemu-img")?;
    if !status.success() {
        bail!("qemu-img could not convert {} ({status})", raw.display());
    }
    Ok(())
}

fn sha256_of(path: &Path) -> Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut block = vec![0_u8; MIB];
    loop {
        let count = file.read(&mut block)?;
        if count == 0 {
            return Ok(hash
                .finalize()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect());
        }
        hash.update(&block[..count]);
    }
}

/// An endless stream of this machine's programs, as filling.
struct Programs {
    files: Vec<PathBuf>,
    next: usize,
    open: Option<File>,
}

impl Programs {
    fn open() -> Result<Self> {
        let mut files: Vec<PathBuf> = std::fs::read_dir("/usr/bin")?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.is_file())
            .collect();
        files.sort();
        Ok(Self {
            files,
            next: 0,
            open: None,
        })
    }

    fn fill(&mut self, block: &mut [u8]) -> Result<()> {
        let mut filled = 0;
        while filled < block.len() {
            let Some(file) = &mut self.open else {
                let path = &self.files[self.next % self.files.len()];
                self.open = File::open(path).ok();
                self.next += 1;
                continue;
            };
            match file.read(&mut block[filled..])? {
                0 => self.open = None,
                count => filled += count,
            }
        }
        Ok(())
    }
}

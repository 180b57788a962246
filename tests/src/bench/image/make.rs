//! The images: one mixed disk of 1 GiB (a quarter random, a quarter zero, half
//! program files of this machine) in every form, and a large sparse one. Made
//! once, kept below the target folder.

use std::collections::BTreeMap;
use std::fs;
use std::fs::File;
use std::io::Read;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;
use std::thread;

use anyhow::Context;
use anyhow::Result;
use anyhow::anyhow;
use serde::Deserialize;
use serde::Serialize;

use super::plan::Kind;
use crate::bench::process::measure;
use crate::bench::stop::Stop;

/// Bytes of the mixed disk.
pub(super) const SIZE: u64 = 1 << 30;
/// Bytes of the sparse disk.
pub(super) const SPARSE: u64 = 20 << 30;
const MIB: usize = 1 << 20;
/// The sparse disk holds one MiB of program files in every so many.
const SPARSE_STEP: u64 = 80 << 20;
/// Counts up when the images become other ones.
const VERSION: u32 = 1;
const LISTING: &str = "listing.json";

/// What the images folder holds.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Images {
    version: u32,
    #[serde(skip)]
    pub(super) folder: PathBuf,
    digests: BTreeMap<String, Digests>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Digests {
    sha256: String,
    sha512: String,
    bytes: u64,
}

impl Images {
    /// Those of `folder`; makes them where they are missing, which takes
    /// minutes.
    pub(super) fn get(folder: &Path, stop: &Stop) -> Result<Self> {
        if let Ok(text) = fs::read_to_string(folder.join(LISTING))
            && let Ok(mut images) = serde_json::from_str::<Self>(&text)
            && images.version == VERSION
        {
            images.folder = folder.to_owned();
            if Kind::ALL.iter().all(|kind| images.path(*kind).exists()) {
                return Ok(images);
            }
        }
        eprintln!("making the images in {} (once, minutes)", folder.display());
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        make(folder, stop)?;
        let mut digests = BTreeMap::new();
        for kind in Kind::ALL {
            let name = kind.file_name();
            digests.insert(name.to_owned(), digests_of(&folder.join(name), stop)?);
        }
        let images = Self {
            version: VERSION,
            folder: folder.to_owned(),
            digests,
        };
        fs::write(folder.join(LISTING), serde_json::to_string_pretty(&images)?)?;
        Ok(images)
    }

    /// The file of an image.
    pub(super) fn path(&self, kind: Kind) -> PathBuf {
        self.folder.join(kind.file_name())
    }

    /// Its digest in hex, `sha256` or `sha512`.
    pub(super) fn digest(&self, kind: Kind, algorithm: &str) -> Result<&str> {
        let found = self.digests.get(kind.file_name()).context("not listed")?;
        Ok(if algorithm == "sha256" {
            &found.sha256
        } else {
            &found.sha512
        })
    }

    /// Its length.
    pub(super) fn bytes(&self, kind: Kind) -> u64 {
        self.digests
            .get(kind.file_name())
            .map_or(0, |found| found.bytes)
    }
}

/// Makes the two disks, then all other forms of them side by side. Forms that
/// an interrupted run finished are kept.
fn make(folder: &Path, stop: &Stop) -> Result<()> {
    let raw = Kind::Raw.file_name();
    let sparse = "sparse.raw";
    if !folder.join(raw).exists() {
        for kind in Kind::ALL {
            fs::remove_file(folder.join(kind.file_name())).ok();
        }
        let partial = folder.join("mixed.partial");
        mixed(&partial)?;
        table(&partial, stop)?;
        fs::rename(partial, folder.join(raw))?;
    }
    stop.check()?;
    scattered(&folder.join(sparse))?;
    table(&folder.join(sparse), stop)?;
    let finished = |name: &str, script: String| {
        format!("[ -e {name} ] || {{ {script} {name}.partial && mv {name}.partial {name}; }}")
    };
    let qcow2 = |from: &str, options: &str, to: Kind| {
        let script = format!("qemu-img convert -f raw -O qcow2 {options} {from}");
        finished(to.file_name(), script)
    };
    let packed = |program: &str, to: Kind| {
        let script = format!("{program} -c {raw} >");
        finished(to.file_name(), script)
    };
    let scripts = [
        // The slowest ones first.
        packed("xz -T0 -1", Kind::RawXz),
        qcow2(raw, "-c -o compression_type=zlib", Kind::Qcow2Zlib),
        packed("gzip -n", Kind::RawGz),
        qcow2(raw, "-c -o compression_type=zstd", Kind::Qcow2Zstd),
        packed("zstd -q", Kind::RawZst),
        qcow2(raw, "", Kind::Qcow2),
        qcow2(sparse, "-c", Kind::Sparse),
    ];
    thread::scope(|scope| {
        let running: Vec<_> = scripts
            .iter()
            .map(|script| {
                let mut command = Command::new("sh");
                command.args(["-c", script]).current_dir(folder);
                scope.spawn(move || measure(&mut command, stop).map(drop))
            })
            .collect();
        running.into_iter().try_for_each(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| Err(anyhow!("a thread panicked")))
        })
    })?;
    fs::remove_file(folder.join(sparse))?;
    Ok(())
}

/// Writes the mixed disk, MiB by MiB.
fn mixed(path: &Path) -> Result<()> {
    let mut file = File::create(path).with_context(|| format!("making {}", path.display()))?;
    let mut programs = Programs::open()?;
    let mut random = Random(1);
    let mut block = vec![0_u8; MIB];
    for index in 0..SIZE / MIB as u64 {
        match index % 4 {
            0 => random.fill(&mut block),
            1 => block.fill(0),
            _ => programs.fill(&mut block)?,
        }
        file.write_all(&block)?;
    }
    Ok(())
}

/// Writes the sparse disk: holes with some program files between them.
fn scattered(path: &Path) -> Result<()> {
    let file = File::create(path).with_context(|| format!("making {}", path.display()))?;
    file.set_len(SPARSE)?;
    let mut programs = Programs::open()?;
    let mut block = vec![0_u8; MIB];
    let mut at = MIB as u64;
    while at + MIB as u64 <= SPARSE {
        programs.fill(&mut block)?;
        file.write_all_at(&block, at)?;
        at += SPARSE_STEP;
    }
    Ok(())
}

/// Gives the disk a partition table: nothing else would be taken for a disk.
fn table(path: &Path, stop: &Stop) -> Result<()> {
    let mut command = Command::new("sgdisk");
    command
        .args(["--clear", "--new=1:2048:0", "--change-name=1:root"])
        .arg(path)
        .stdout(Stdio::null());
    measure(&mut command, stop).map(drop)
}

fn digests_of(path: &Path, stop: &Stop) -> Result<Digests> {
    let of = |tool: &str| -> Result<String> {
        stop.check()?;
        let output = Command::new(tool).arg("--").arg(path).output()?;
        let text = String::from_utf8(output.stdout)?;
        let digest = text.split_whitespace().next();
        Ok(digest
            .with_context(|| format!("{tool} printed nothing"))?
            .to_owned())
    };
    Ok(Digests {
        sha256: of("sha256sum")?,
        sha512: of("sha512sum")?,
        bytes: path.metadata()?.len(),
    })
}

/// Bytes that nothing compresses, the same ones in every run (SplitMix64).
struct Random(u64);

impl Random {
    fn fill(&mut self, block: &mut [u8]) {
        for place in block.chunks_mut(8) {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut word = self.0;
            word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            word ^= word >> 31;
            place.copy_from_slice(&word.to_le_bytes()[..place.len()]);
        }
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
        let mut files: Vec<PathBuf> = fs::read_dir("/usr/bin")?
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

//! One image from inputs to the finished file, skipping work that is done.

use std::fs;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;
use sha2::Digest;
use sha2::Sha256;

use crate::debian;
use crate::disk;
use crate::parts::Parts;
use crate::raid;
use crate::tiny;

/// Which image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Debian 12.
    Debian,
    /// Kernel and busybox; the folder that becomes `/lib/modules`.
    Tiny(PathBuf),
    /// The same on an md array.
    Raid(PathBuf),
}

impl Kind {
    fn name(&self) -> &'static str {
        match self {
            Self::Debian => "debian",
            Self::Tiny(_) => "tiny",
            Self::Raid(_) => "raid",
        }
    }
}

/// Builds `NAME.qcow2` and `NAME.qcow2.sha256` in `out`, unless they are
/// there from the same inputs. Gives a report in one line.
///
/// # Errors
/// A tool that failed or a part that is missing, named.
pub fn build(kind: &Kind, parts: &Parts, out: &Path) -> Result<String> {
    let name = kind.name();
    let image = out.join(format!("{name}.qcow2"));
    let sums = out.join(format!("{name}.qcow2.sha256"));
    let stamp = out.join(format!("{name}.stamp"));
    let digest = inputs(kind, parts);
    let key = hex(&digest);
    fs::create_dir_all(out).with_context(|| format!("creating {}", out.display()))?;
    let lock = out.join("lock");
    let lock = File::create(&lock).with_context(|| format!("creating {}", lock.display()))?;
    lock.lock().context("waiting for another build of images")?;
    if image.is_file() && sums.is_file() && fs::read_to_string(&stamp).is_ok_and(|old| old == key) {
        return Ok(format!(
            "{} is up to date, {}",
            image.display(),
            size(&image)?
        ));
    }
    let _ = fs::remove_file(&stamp);
    let work = out.join(format!("{name}.work"));
    let _ = fs::remove_dir_all(&work);
    fs::create_dir_all(&work).with_context(|| format!("creating {}", work.display()))?;
    let raw = work.join("disk.raw");
    let mut seed = [0; 16];
    seed.copy_from_slice(&digest[..16]);
    match kind {
        Kind::Debian => debian::build(parts, seed, &work, &raw)?,
        Kind::Tiny(modules) => tiny::build(parts, modules, seed, &work, &raw)?,
        Kind::Raid(modules) => raid::build(parts, modules, seed, &work, &raw)?,
    }
    let partial = work.join("image.qcow2");
    disk::to_qcow2(&raw, &partial)?;
    let sum = file_digest(&partial)?;
    fs::rename(&partial, &image).with_context(|| format!("naming {}", image.display()))?;
    fs::write(&sums, format!("{sum}  {name}.qcow2\n"))
        .with_context(|| format!("writing {}", sums.display()))?;
    fs::write(&stamp, key).with_context(|| format!("writing {}", stamp.display()))?;
    fs::remove_dir_all(&work).with_context(|| format!("removing {}", work.display()))?;
    Ok(format!("{}, {}", image.display(), size(&image)?))
}

/// Digest of all that decides what comes out: packages' versions, our files,
/// and the sources that put them together.
fn inputs(kind: &Kind, parts: &Parts) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut add = |text: &str| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    for version in parts.versions() {
        add(&version);
    }
    for source in [
        include_str!("disk.rs"),
        include_str!("grub.rs"),
        kind.name(),
    ] {
        add(source);
    }
    match kind {
        Kind::Debian => {
            add(include_str!("debian.rs"));
            debian::FILES
                .iter()
                .for_each(|(_, _, content)| add(content));
        }
        Kind::Tiny(_) => {
            add(include_str!("tiny.rs"));
            add(tiny::INIT);
        }
        Kind::Raid(_) => {
            add(include_str!("tiny.rs"));
            add(include_str!("raid.rs"));
            add(tiny::INIT);
            add(raid::INIT);
        }
    }
    hash.finalize().into()
}

fn file_digest(path: &Path) -> Result<String> {
    let mut file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let len = file
            .read(&mut buffer)
            .with_context(|| format!("reading {}", path.display()))?;
        if len == 0 {
            return Ok(hex(&hash.finalize()));
        }
        hash.update(&buffer[..len]);
    }
}

fn size(path: &Path) -> Result<String> {
    let len = fs::metadata(path)
        .with_context(|| path.display().to_string())?
        .len();
    Ok(format!("{:.1} MB", len as f64 / 1e6))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

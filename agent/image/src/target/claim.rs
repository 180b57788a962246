//! Taking a disk for this write alone, or refusing with the reason.

use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::AtomicU64;

use super::Target;
use super::TargetKind;
use super::ioctl;
use crate::buffer::ALIGN;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;

impl Target {
    /// Claims the block device or plain file at `path`.
    ///
    /// A device that is mounted, swapped to, held by RAID, LVM or multipath,
    /// read-only or claimed by another program is refused untouched.
    pub(crate) fn claim(path: &Path) -> Result<Self, Error> {
        let refuse = |text: String| Error::new(ErrorKind::Target, Stage::Check, text);
        let shown = path.display();
        match fs::metadata(path) {
            Ok(metadata) if metadata.file_type().is_block_device() => {
                let users = users_of(metadata.rdev());
                if !users.is_empty() {
                    return Err(refuse(format!(
                        "the disk {shown} is in use and will not be written: {}",
                        users.join(", ")
                    )));
                }
                Self::claim_block(path)
            }
            Ok(metadata) if metadata.is_file() => {
                let kind = if metadata.len() == 0 {
                    TargetKind::NewFile
                } else {
                    TargetKind::File
                };
                Self::claim_file(path, kind, metadata.len())
            }
            Ok(_) => Err(refuse(format!(
                "{shown} is neither a block device nor a plain file"
            ))),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !in_dev(path) => {
                Self::claim_file(path, TargetKind::NewFile, 0)
            }
            Err(error) => Err(refuse(format!("look at the disk {shown}")).caused_by(error)),
        }
    }

    fn claim_block(path: &Path) -> Result<Self, Error> {
        let shown = path.display();
        let refuse = |text: String| Error::new(ErrorKind::Target, Stage::Check, text);
        let open = |flags| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(flags)
                .open(path)
        };
        // udev lets go of a disk that it was just looking at.
        let mut tries = 0;
        let file = loop {
            match open(libc::O_EXCL) {
                Ok(file) => break file,
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) && tries < 20 => {
                    tries += 1;
                    std::thread::sleep(std::time::Duration::from_millis(100));
                }
                Err(error) => {
                    let text = match error.raw_os_error() {
                        Some(libc::EBUSY) => "is claimed by another program",
                        Some(libc::EROFS | libc::EACCES) => "cannot be opened for writing",
                        _ => "cannot be opened",
                    };
                    return Err(refuse(format!("the disk {shown} {text}")).caused_by(error));
                }
            }
        };
        let ask =
            |error: io::Error| refuse(format!("ask the kernel about {shown}")).caused_by(error);
        if ioctl::is_read_only(&file).map_err(ask)? {
            return Err(refuse(format!("the disk {shown} is read-only")));
        }
        let size = ioctl::size(&file).map_err(ask)?;
        let sector_size = ioctl::sector_size(&file).map_err(ask)?;
        if size == 0 {
            return Err(refuse(format!(
                "the disk {shown} has no medium: its size is 0"
            )));
        }
        lock(&file, path)?;
        // Not exclusive: the claim is on the other descriptor.
        let direct = open(libc::O_DIRECT).ok();
        Ok(Self::new(
            path,
            TargetKind::Block,
            file,
            direct,
            size,
            sector_size,
        ))
    }

    fn claim_file(path: &Path, kind: TargetKind, size: u64) -> Result<Self, Error> {
        let fail = |error| {
            let text = format!("open the target file {}", path.display());
            Error::new(ErrorKind::Target, Stage::Check, text).caused_by(error)
        };
        let open = |flags| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .custom_flags(flags)
                .open(path)
        };
        let file = open(0).map_err(fail)?;
        lock(&file, path)?;
        let direct = open(libc::O_DIRECT).ok();
        Ok(Self::new(path, kind, file, direct, size, 512))
    }

    fn new(
        path: &Path,
        kind: TargetKind,
        file: File,
        direct: Option<File>,
        size: u64,
        sector_size: u32,
    ) -> Self {
        let unit = match kind {
            TargetKind::Block => usize::try_from(sector_size)
                .unwrap_or(ALIGN)
                .clamp(512, ALIGN),
            // The filesystem below may want whole pages.
            TargetKind::File | TargetKind::NewFile => ALIGN,
        };
        Self {
            path: path.to_owned(),
            kind,
            file,
            use_direct: AtomicBool::new(direct.is_some()),
            use_ring: AtomicBool::new(true),
            direct,
            size: AtomicU64::new(size),
            sector_size,
            unit,
            zeroing: AtomicU8::new(0),
            #[cfg(test)]
            faults: super::fault::Faults::default(),
        }
    }
}

/// A missing node below /dev is a missing disk, not a file to be made.
fn in_dev(path: &Path) -> bool {
    path.starts_with("/dev")
}

/// Keeps udev and a second write away (systemd's block device locking).
fn lock(file: &File, path: &Path) -> Result<(), Error> {
    // SAFETY: a valid descriptor; the call touches no memory of ours.
    let result = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
    if result == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() != Some(libc::EWOULDBLOCK) {
        return Ok(());
    }
    let text = format!("{} is being written by another program", path.display());
    Err(Error::new(ErrorKind::Target, Stage::Check, text).caused_by(error))
}

/// Who uses the disk `rdev` or one of its partitions.
fn users_of(rdev: u64) -> Vec<String> {
    let (major, minor) = (nix::sys::stat::major(rdev), nix::sys::stat::minor(rdev));
    let whole = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let mut parts = vec![whole.clone()];
    if let Ok(entries) = fs::read_dir(&whole) {
        parts.extend(
            entries
                .flatten()
                .map(|entry| entry.path())
                .filter(|p| p.join("partition").exists()),
        );
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let mut users = Vec::new();
    for part in parts {
        let Ok(number) = fs::read_to_string(part.join("dev")) else {
            continue;
        };
        let number = number.trim();
        let name = fs::canonicalize(&part)
            .ok()
            .and_then(|real| Some(real.file_name()?.to_string_lossy().into_owned()))
            .unwrap_or_else(|| number.to_owned());
        for mount in mounts.lines() {
            let mut fields = mount.split(' ').skip(2);
            if fields.next() == Some(number) {
                let place = fields.nth(1).unwrap_or("?");
                users.push(format!("{name} is mounted on {place}"));
            }
        }
        for swap in swaps.lines().skip(1) {
            let device = swap.split_whitespace().next().unwrap_or_default();
            if fs::metadata(device).is_ok_and(|found| device_number(found.rdev()) == number) {
                users.push(format!("{name} is swap space"));
            }
        }
        for holder in fs::read_dir(part.join("holders"))
            .into_iter()
            .flatten()
            .flatten()
        {
            users.push(format!(
                "{name} is held by {}",
                holder.file_name().to_string_lossy()
            ));
        }
    }
    users.truncate(8);
    users
}

fn device_number(rdev: u64) -> String {
    format!(
        "{}:{}",
        nix::sys::stat::major(rdev),
        nix::sys::stat::minor(rdev)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_disk_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        for path in [
            dir.path(),
            Path::new("/dev/null"),
            Path::new("/dev/no-such-disk"),
        ] {
            let error = Target::claim(path).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Target, "{}", path.display());
        }
        assert!(!Path::new("/dev/no-such-disk").exists());
    }

    #[test]
    fn a_file_is_claimed_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk with space");
        let first = Target::claim(&path).unwrap();
        assert_eq!(first.kind(), TargetKind::NewFile);
        assert!(
            Target::claim(&path)
                .unwrap_err()
                .to_string()
                .contains("another program")
        );
        drop(first);
        assert!(Target::claim(&path).is_ok());
    }

    #[test]
    fn the_disk_below_the_root_is_in_use() {
        // Whatever is mounted on / here, if it is a disk at all.
        let device = fs::metadata("/").unwrap().dev();
        if Path::new(&format!("/sys/dev/block/{}", device_number(device))).exists() {
            assert!(
                users_of(device)
                    .iter()
                    .any(|user| user.contains("is mounted on /"))
            );
        }
    }
}

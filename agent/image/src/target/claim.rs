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
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::AtomicU64;

use super::Target;
use super::TargetKind;
use super::ioctl;
use super::users::System;
use crate::buffer::ALIGN;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;
use crate::source;

impl Target {
    /// Claims the block device or plain file at `path`.
    ///
    /// A device that is mounted, swapped to, held by RAID, LVM or multipath,
    /// read-only or claimed by another program is refused untouched.
    pub(crate) fn claim(path: &Path) -> Result<Self, Error> {
        let refuse = |text: String| Error::new(ErrorKind::Target, Stage::Check, text);
        let shown = path.display();
        let system = System::read();
        let in_use = |kind: &str, users: Vec<String>| {
            if users.is_empty() {
                return Ok(());
            }
            Err(refuse(format!(
                "the {kind} {shown} is in use and will not be written: {}",
                users.join(", ")
            )))
        };
        match fs::metadata(path) {
            Ok(metadata) if metadata.file_type().is_block_device() => {
                in_use("disk", system.users_of_device(metadata.rdev()))?;
                let mut target = Self::claim_block(path)?;
                target.is_partition = system.is_partition(metadata.rdev());
                target.check_partitions()?;
                Ok(target)
            }
            Ok(metadata) if metadata.is_file() => {
                let kind = if metadata.len() == 0 {
                    TargetKind::NewFile
                } else {
                    TargetKind::File
                };
                in_use("file", system.users_of_file(&metadata))?;
                Self::claim_file(path, kind, metadata.len())
            }
            Ok(_) => Err(refuse(format!(
                "{shown} is neither a block device nor a plain file"
            ))),
            Err(error) if error.kind() == io::ErrorKind::NotFound && may_be_made(path) => {
                let mut target = Self::claim_file(path, TargetKind::NewFile, 0)?;
                target.made = true;
                Ok(target)
            }
            Err(error) => Err(refuse(format!("look at the disk {shown}")).caused_by(error)),
        }
    }

    /// Refuses a target that holds one of the images to be written to it.
    pub(crate) fn check_sources(&self, locations: &[String]) -> Result<(), Error> {
        let Ok(target) = self.file.metadata() else {
            return Ok(());
        };
        let system = System::read();
        for path in locations.iter().filter_map(|l| source::local_path(l)) {
            if fs::metadata(&path).is_ok_and(|found| system.same_storage(&found, &target)) {
                let text = format!(
                    "the image {} lies on the target {} itself and would be overwritten",
                    path.display(),
                    self.path.display()
                );
                return Err(Error::new(ErrorKind::Request, Stage::Check, text));
            }
        }
        Ok(())
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

    /// Refuses a disk of which a partition is held open: the kernel would go
    /// on with the old table after the write.
    fn check_partitions(&self) -> Result<(), Error> {
        if self.is_partition {
            return Ok(());
        }
        match ioctl::reread_partitions(&self.file) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                let shown = self.path.display();
                let text = format!(
                    "a program holds a partition of the disk {shown} open; it must be closed \
                     first ('fuser -v {shown}?*' names it)"
                );
                Err(Error::new(ErrorKind::Target, Stage::Check, text).caused_by(error))
            }
            // Other trouble with the old table is no reason to keep it.
            _ => Ok(()),
        }
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
            is_partition: false,
            made: false,
            unit,
            zeroing: AtomicU8::new(0),
            #[cfg(test)]
            faults: super::fault::Faults::default(),
        }
    }
}

/// Whether a missing path stands for a file to be made: below /dev it is a
/// missing disk, and a link that leads nowhere is a mistake.
fn may_be_made(path: &Path) -> bool {
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    let folder = fs::canonicalize(parent.unwrap_or(Path::new(".")));
    let in_dev = path.starts_with("/dev") || folder.is_ok_and(|real| real.starts_with("/dev"));
    // /dev/shm is for files.
    let a_file = !in_dev || path.starts_with("/dev/shm");
    a_file && fs::symlink_metadata(path).is_err()
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
        // A link that leads nowhere makes no file there.
        let link = dir.path().join("link");
        let place = dir.path().join("nowhere");
        std::os::unix::fs::symlink(&place, &link).unwrap();
        assert!(Target::claim(&link).is_err());
        assert!(!place.exists());
        // One that leads to a file is that file.
        fs::write(&place, [1; 8192]).unwrap();
        let target = Target::claim(&link).unwrap();
        assert_eq!((target.kind(), target.size()), (TargetKind::File, 8192));
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
}

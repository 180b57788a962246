//! A loop device that goes with its owner.

use std::fs;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;

/// A loop device over a file without a name. The kernel releases both when
/// this descriptor closes, however this process ends.
#[derive(Debug)]
pub(super) struct Loop {
    path: PathBuf,
    device: File,
    backing: File,
}

/// The kernel's calls and records; linux/loop.h and linux/fs.h.
mod raw {
    nix::ioctl_none_bad!(get_free, 0x4c82);
    nix::ioctl_write_ptr_bad!(configure, 0x4c0a, Config);
    nix::ioctl_write_ptr_bad!(discard, nix::request_code_none!(0x12, 119), [u64; 2]);

    pub(super) const AUTOCLEAR: u32 = 4;
    pub(super) const DIRECT_IO: u32 = 16;

    /// `struct loop_config` with the `struct loop_info64` in it.
    #[repr(C)]
    pub(super) struct Config {
        pub(super) fd: u32,
        pub(super) block_size: u32,
        /// Device, inode, rdevice, offset and size limit.
        pub(super) places: [u64; 5],
        /// Number, encryption type and key size.
        pub(super) numbers: [u32; 3],
        pub(super) flags: u32,
        /// File name, encryption name and key.
        pub(super) names: [u8; 160],
        /// Encryption's, then reserved.
        pub(super) rest: [u64; 10],
    }
}

impl Loop {
    /// Over a new file of `size` bytes at `path`, which loses its name at once.
    pub(super) fn new(path: &Path, size: u64) -> Result<Self> {
        let backing = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)
            .with_context(|| format!("making {}", path.display()))?;
        fs::remove_file(path)?;
        backing.set_len(size)?;
        let control = File::options()
            .read(true)
            .write(true)
            .open("/dev/loop-control")
            .context("opening /dev/loop-control")?;
        let config = raw::Config {
            fd: backing.as_raw_fd().cast_unsigned(),
            block_size: 0,
            places: [0; 5],
            numbers: [0; 3],
            flags: raw::AUTOCLEAR | raw::DIRECT_IO,
            names: [0; 160],
            rest: [0; 10],
        };
        let mut tries = 0;
        loop {
            // SAFETY: a valid descriptor; the call takes no argument.
            let number = unsafe { raw::get_free(control.as_raw_fd()) }
                .context("asking for a free loop device")?;
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let device = File::options()
                .read(true)
                .write(true)
                .open(&path)
                .with_context(|| format!("opening {}", path.display()))?;
            // SAFETY: a valid descriptor; the call reads one `Config`.
            match unsafe { raw::configure(device.as_raw_fd(), &config) } {
                Ok(_) => {
                    return Ok(Self {
                        path,
                        device,
                        backing,
                    });
                }
                // Somebody else was faster.
                Err(nix::errno::Errno::EBUSY) if tries < 20 => tries += 1,
                Err(error) => {
                    return Err(error).with_context(|| format!("setting up {}", path.display()));
                }
            }
        }
    }

    /// The device.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The file behind it.
    pub(super) fn backing(&self) -> &File {
        &self.backing
    }

    /// Empties it; earlier writes are on the disk afterwards.
    pub(super) fn reset(&self) -> Result<()> {
        let size = self.backing.metadata()?.len();
        // SAFETY: a valid descriptor; the call reads two u64 values.
        unsafe { raw::discard(self.device.as_raw_fd(), &[0, size]) }
            .with_context(|| format!("discarding {}", self.path.display()))?;
        settle(&self.backing)
    }
}

/// Writes the filesystem's caches out: nobody's run pays for an earlier one.
pub(super) fn settle(file: &File) -> Result<()> {
    // SAFETY: a valid descriptor; the call touches no memory of ours.
    if unsafe { libc::syncfs(file.as_raw_fd()) } != 0 {
        return Err(std::io::Error::last_os_error()).context("syncfs");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_configuration_has_the_size_the_kernel_expects() {
        assert_eq!(std::mem::size_of::<raw::Config>(), 304);
    }

    #[test]
    fn a_loop_device_goes_with_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        // Where this machine has none, there is nothing to see.
        let Ok(target) = Loop::new(&folder.path().join("target"), 8 << 20) else {
            return;
        };
        target.reset().unwrap();
        let name = target.path().file_name().unwrap().to_owned();
        let backing = Path::new("/sys/block").join(name).join("loop/backing_file");
        let ours = |path: &Path| {
            fs::read_to_string(path)
                .is_ok_and(|text| text.contains(&*folder.path().to_string_lossy()))
        };
        assert!(ours(&backing));
        drop(target);
        assert!(!ours(&backing));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

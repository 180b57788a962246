//! Stopping arrays and removing mappings.

use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::os::fd::RawFd;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Where the device mapper listens.
const DM_CONTROL: &str = "/dev/mapper/control";
/// Somebody may still have a device open that was just looked at.
const ATTEMPTS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(300);

/// Who stops what stands on disks. The double of tests has no kernel.
pub(crate) trait Kernel: Sync {
    /// Stops a md array.
    fn stop_md(&self, node: &Path) -> io::Result<()>;

    /// Removes a device mapping by its name.
    fn remove_dm(&self, name: &str) -> io::Result<()>;
}

/// The kernel that we run on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Real;

mod raw {
    //! Numbers from `linux/raid/md_u.h` and `linux/dm-ioctl.h`.
    #![allow(missing_docs)]

    // STOP_ARRAY: _IO(MD_MAJOR, 0x32), the major being 9.
    nix::ioctl_none!(stop_array, 9, 0x32);
    // DM_DEV_REMOVE: _IOWR(DM_IOCTL, 4, struct dm_ioctl).
    nix::ioctl_readwrite!(dm_dev_remove, 0xfd, 4, super::DmIoctl);
}

/// `struct dm_ioctl`.
#[repr(C)]
#[derive(Debug)]
pub(super) struct DmIoctl {
    version: [u32; 3],
    data_size: u32,
    data_start: u32,
    target_count: u32,
    open_count: i32,
    flags: u32,
    event_nr: u32,
    padding: u32,
    dev: u64,
    name: [u8; 128],
    uuid: [u8; 129],
    data: [u8; 7],
}

impl DmIoctl {
    fn named(name: &str) -> io::Result<Self> {
        // The kernel wants a zero at the end.
        if name.len() >= 128 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let size = u32::try_from(size_of::<Self>()).map_err(io::Error::other)?;
        let mut request = Self {
            // Every 4.x driver takes it.
            version: [4, 0, 0],
            data_size: size,
            data_start: size,
            target_count: 0,
            open_count: 0,
            flags: 0,
            event_nr: 0,
            padding: 0,
            dev: 0,
            name: [0; 128],
            uuid: [0; 129],
            data: [0; 7],
        };
        request.name[..name.len()].copy_from_slice(name.as_bytes());
        Ok(request)
    }
}

/// Tries again while the device is busy.
fn patiently(mut action: impl FnMut() -> nix::Result<libc::c_int>) -> io::Result<()> {
    let mut attempt = 1;
    loop {
        match action() {
            Err(nix::errno::Errno::EBUSY) if attempt < ATTEMPTS => {
                attempt += 1;
                thread::sleep(PAUSE);
            }
            result => return result.map(drop).map_err(io::Error::from),
        }
    }
}

impl Kernel for Real {
    fn stop_md(&self, node: &Path) -> io::Result<()> {
        let array = File::open(node)?;
        let fd: RawFd = array.as_raw_fd();
        // SAFETY: STOP_ARRAY takes no argument.
        patiently(|| unsafe { raw::stop_array(fd) })
    }

    fn remove_dm(&self, name: &str) -> io::Result<()> {
        let control = OpenOptions::new().read(true).write(true).open(DM_CONTROL)?;
        let fd: RawFd = control.as_raw_fd();
        patiently(|| {
            let mut request = DmIoctl::named(name).map_err(|_| nix::errno::Errno::EINVAL)?;
            // SAFETY: the request has the kernel's layout and says how long it
            // is; it lives through the call, which writes no more than that.
            unsafe { raw::dm_dev_remove(fd, &raw mut request) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::DmIoctl;

    #[test]
    fn the_request_has_the_kernels_layout() {
        assert_eq!(size_of::<DmIoctl>(), 312);
        let request = DmIoctl::named("vg-lv").unwrap();
        assert_eq!(&request.name[..6], b"vg-lv\0");
        assert!(DmIoctl::named(&"x".repeat(128)).is_err());
    }
}

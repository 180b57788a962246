//! The block device calls that the data path needs.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// The calls themselves; the macros make public functions.
mod raw {
    // Kernel header linux/fs.h.
    nix::ioctl_read!(get_size64, 0x12, 114, u64);
    nix::ioctl_read_bad!(get_sector_size, libc::BLKSSZGET, libc::c_int);
    nix::ioctl_read_bad!(
        get_read_only,
        nix::request_code_none!(0x12, 94),
        libc::c_int
    );
    nix::ioctl_none!(reread, 0x12, 95);
    nix::ioctl_write_ptr_bad!(zero_out, nix::request_code_none!(0x12, 127), [u64; 2]);
}

/// Size of a block device in bytes.
pub(super) fn size(file: &File) -> io::Result<u64> {
    let mut size = 0;
    // SAFETY: BLKGETSIZE64 stores one u64.
    unsafe { raw::get_size64(file.as_raw_fd(), &mut size) }?;
    Ok(size)
}

/// Logical sector size in bytes.
pub(super) fn sector_size(file: &File) -> io::Result<u32> {
    let mut size = 0;
    // SAFETY: BLKSSZGET stores one int.
    unsafe { raw::get_sector_size(file.as_raw_fd(), &mut size) }?;
    u32::try_from(size).map_err(io::Error::other)
}

/// Whether the device is read-only.
pub(super) fn is_read_only(file: &File) -> io::Result<bool> {
    let mut flag = 0;
    // SAFETY: BLKROGET stores one int.
    unsafe { raw::get_read_only(file.as_raw_fd(), &mut flag) }?;
    Ok(flag != 0)
}

/// BLKZEROOUT: zeroes a range, by writing where the device cannot do better.
pub(super) fn zero_out(file: &File, offset: u64, len: u64) -> io::Result<()> {
    // SAFETY: BLKZEROOUT reads two u64 values.
    unsafe { raw::zero_out(file.as_raw_fd(), &[offset, len]) }?;
    Ok(())
}

/// BLKRRPART; udev may hold a partition open for a moment.
pub(super) fn reread_partitions(file: &File) -> io::Result<()> {
    let mut tries = 0;
    loop {
        // SAFETY: BLKRRPART takes no argument.
        match unsafe { raw::reread(file.as_raw_fd()) } {
            Ok(_) => return Ok(()),
            Err(nix::errno::Errno::EBUSY) if tries < 50 => {
                tries += 1;
                std::thread::sleep(Duration::from_millis(100));
            }
            // Partition devices, and loop devices made without partitions.
            Err(nix::errno::Errno::EINVAL | nix::errno::Errno::ENOTTY) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

//! The block device ioctls that the agent uses, safe to call.

use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::os::fd::BorrowedFd;

use libc::c_int;
use libc::c_long;
use libc::c_uint;
use libc::c_void;

mod raw {
    //! Numbers from `linux/fs.h` and `linux/blkpg.h`.
    #![allow(missing_docs)]

    use libc::c_int;
    use libc::c_uint;

    nix::ioctl_read!(blkgetsize64, 0x12, 114, u64);
    nix::ioctl_read_bad!(blksszget, 0x1268, c_int);
    nix::ioctl_read_bad!(blkpbszget, 0x127b, c_uint);
    nix::ioctl_none_bad!(blkrrpart, 0x125f);
    nix::ioctl_none_bad!(blkflsbuf, 0x1261);
    nix::ioctl_write_ptr_bad!(blksecdiscard, 0x127d, [u64; 2]);
    nix::ioctl_write_ptr_bad!(blkzeroout, 0x127f, [u64; 2]);
    nix::ioctl_write_ptr_bad!(blkpg, 0x1269, super::BlkpgArg);
    nix::ioctl_read!(fs_getflags, b'f', 1, libc::c_long);
    nix::ioctl_write_ptr!(fs_setflags, b'f', 2, libc::c_long);
}

/// `FS_IMMUTABLE_FL` of `linux/fs.h`.
const FS_IMMUTABLE: c_long = 0x10;
const BLKPG_ADD_PARTITION: c_int = 1;

/// `struct blkpg_ioctl_arg`.
#[repr(C)]
#[derive(Debug)]
pub(super) struct BlkpgArg {
    op: c_int,
    flags: c_int,
    length: c_int,
    data: *mut c_void,
}

/// `struct blkpg_partition`.
#[repr(C)]
struct BlkpgPartition {
    start: i64,
    length: i64,
    number: c_int,
    devname: [u8; 64],
    volname: [u8; 64],
}

fn done(result: nix::Result<c_int>) -> io::Result<()> {
    result.map(drop).map_err(io::Error::from)
}

/// Size of a block device in bytes.
pub(crate) fn size(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes = 0_u64;
    // SAFETY: the pointer is to a u64 that lives through the call, as
    // BLKGETSIZE64 wants it.
    done(unsafe { raw::blkgetsize64(fd.as_raw_fd(), &raw mut bytes) })?;
    Ok(bytes)
}

/// Logical and physical sector size in bytes.
pub(crate) fn sector_sizes(fd: BorrowedFd<'_>) -> io::Result<(u32, u32)> {
    let mut logical: c_int = 0;
    let mut physical: c_uint = 0;
    // SAFETY: BLKSSZGET writes one int, BLKPBSZGET one unsigned int, to
    // variables that live through the calls.
    unsafe {
        done(raw::blksszget(fd.as_raw_fd(), &raw mut logical))?;
        done(raw::blkpbszget(fd.as_raw_fd(), &raw mut physical))?;
    }
    let logical = u32::try_from(logical).map_err(io::Error::other)?;
    Ok((logical, physical.max(logical)))
}

/// Writes zeroes through the driver, offloaded where the device can.
pub(crate) fn zero_out(fd: BorrowedFd<'_>, offset: u64, length: u64) -> io::Result<()> {
    // SAFETY: BLKZEROOUT reads two u64 from an array that lives through the
    // call; it touches no memory of ours.
    done(unsafe { raw::blkzeroout(fd.as_raw_fd(), &raw const *&[offset, length]) })
}

/// Discards a range with all its copies. `EOPNOTSUPP` where the device has
/// no such command, before the range is looked at.
pub(crate) fn secure_discard(fd: BorrowedFd<'_>, offset: u64, length: u64) -> io::Result<()> {
    // SAFETY: BLKSECDISCARD reads two u64 from an array that lives through
    // the call; it touches no memory of ours.
    done(unsafe { raw::blksecdiscard(fd.as_raw_fd(), &raw const *&[offset, length]) })
}

/// Makes the kernel read the partition table again. `EBUSY` while any
/// partition is open.
pub(crate) fn reread_table(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: BLKRRPART takes no argument.
    done(unsafe { raw::blkrrpart(fd.as_raw_fd()) })
}

/// Writes dirty pages of the device back and drops its cache.
pub(crate) fn flush_cache(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: BLKFLSBUF takes no argument.
    done(unsafe { raw::blkflsbuf(fd.as_raw_fd()) })
}

/// Tells the kernel of one more partition, without a look at the table.
/// `start` and `length` in bytes.
pub(crate) fn add_partition(
    fd: BorrowedFd<'_>,
    number: u32,
    start: u64,
    length: u64,
) -> io::Result<()> {
    let mut partition = BlkpgPartition {
        start: i64::try_from(start).map_err(io::Error::other)?,
        length: i64::try_from(length).map_err(io::Error::other)?,
        number: c_int::try_from(number).map_err(io::Error::other)?,
        devname: [0; 64],
        volname: [0; 64],
    };
    let size = c_int::try_from(mem::size_of::<BlkpgPartition>()).map_err(io::Error::other)?;
    let argument = BlkpgArg {
        op: BLKPG_ADD_PARTITION,
        flags: 0,
        length: size,
        data: (&raw mut partition).cast(),
    };
    // SAFETY: the argument and the partition it points to have the kernel's
    // layout and live through the call.
    done(unsafe { raw::blkpg(fd.as_raw_fd(), &raw const argument) })
}

/// Clears or sets the immutable flag of a file. `false` when the file system
/// has no such flag.
pub(crate) fn set_immutable(fd: BorrowedFd<'_>, immutable: bool) -> io::Result<bool> {
    let mut flags: c_long = 0;
    // SAFETY: the kernel writes an int into the long, which was zeroed.
    let read = done(unsafe { raw::fs_getflags(fd.as_raw_fd(), &raw mut flags) });
    match read.as_ref().map_err(io::Error::raw_os_error) {
        Ok(()) => {}
        Err(Some(libc::ENOTTY | libc::EOPNOTSUPP | libc::ENOSYS)) => return Ok(false),
        Err(_) => return read.map(|()| false),
    }
    let wanted = if immutable {
        flags | FS_IMMUTABLE
    } else {
        flags & !FS_IMMUTABLE
    };
    if wanted != flags {
        // SAFETY: the kernel reads an int from the long, which lives through
        // the call.
        done(unsafe { raw::fs_setflags(fd.as_raw_fd(), &raw const wanted) })?;
    }
    Ok(true)
}

//! Commands to real drives, by ioctls.

use std::io;
use std::os::fd::AsRawFd;
use std::ptr;
use std::thread;
use std::time::Duration;

use libc::c_int;
use libc::c_uint;
use libc::c_ushort;
use libc::c_void;

use crate::disk::block::BlockFile;
use crate::disk::drive::Passthrough;
use crate::disk::drive::ScsiReply;
use crate::disk::drive::Transfer;
use crate::disk::drive::nvme::Admin;
use crate::disk::ioctl;

/// Room for sense data; SPC-5 §4.5.1 has at most 252 bytes.
const SENSE_BYTES: u8 = 252;
/// `dxfer_direction` values of `scsi/sg.h`.
const NO_DATA: c_int = -1;
const TO_DRIVE: c_int = -2;
const FROM_DRIVE: c_int = -3;

/// `struct nvme_passthru_cmd` of `linux/nvme_ioctl.h`.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct NvmeCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    nsid: u32,
    cdw2: u32,
    cdw3: u32,
    metadata: u64,
    addr: u64,
    metadata_len: u32,
    data_len: u32,
    cdw10: u32,
    cdw11: u32,
    cdw12: u32,
    cdw13: u32,
    cdw14: u32,
    cdw15: u32,
    timeout_ms: u32,
    result: u32,
}

/// `struct sg_io_hdr` of `scsi/sg.h`.
#[repr(C)]
#[derive(Debug)]
pub(super) struct SgHeader {
    interface_id: c_int,
    dxfer_direction: c_int,
    cmd_len: u8,
    mx_sb_len: u8,
    iovec_count: c_ushort,
    dxfer_len: c_uint,
    dxferp: *mut c_void,
    cmdp: *const u8,
    sbp: *mut u8,
    timeout: c_uint,
    flags: c_uint,
    pack_id: c_int,
    usr_ptr: *mut c_void,
    status: u8,
    masked_status: u8,
    msg_status: u8,
    sb_len_wr: u8,
    host_status: c_ushort,
    driver_status: c_ushort,
    resid: c_int,
    duration: c_uint,
    info: c_uint,
}

mod raw {
    //! Numbers from `linux/nvme_ioctl.h` and `scsi/sg.h`.

    nix::ioctl_readwrite!(nvme_admin, b'N', 0x41, super::NvmeCommand);
    nix::ioctl_none!(nvme_id, b'N', 0x40);
    nix::ioctl_readwrite_bad!(sg_io, 0x2285, super::SgHeader);
}

/// An open block device.
#[derive(Debug)]
pub(crate) struct Kernel<'a>(pub(crate) &'a BlockFile);

fn millis(limit: Duration) -> u32 {
    u32::try_from(limit.as_millis()).unwrap_or(u32::MAX)
}

impl Passthrough for Kernel<'_> {
    fn nvme(&self, command: &Admin, data: &mut [u8]) -> io::Result<u32> {
        let mut raw = NvmeCommand {
            opcode: command.opcode,
            nsid: command.nsid,
            addr: data.as_mut_ptr() as u64,
            data_len: u32::try_from(data.len()).map_err(io::Error::other)?,
            cdw10: command.cdw10,
            cdw11: command.cdw11,
            timeout_ms: millis(command.limit),
            ..NvmeCommand::default()
        };
        // SAFETY: the command has the kernel's layout; the buffer that it
        // points to has data_len bytes and outlives the call.
        let status = unsafe { raw::nvme_admin(self.0.fd().as_raw_fd(), &raw mut raw) };
        u32::try_from(status?).map_err(io::Error::other)
    }

    fn namespace(&self) -> io::Result<u32> {
        // SAFETY: NVME_IOCTL_ID takes no argument and touches no memory.
        let id = unsafe { raw::nvme_id(self.0.fd().as_raw_fd()) };
        u32::try_from(id?).map_err(io::Error::other)
    }

    fn scsi(&self, cdb: &[u8], transfer: Transfer<'_>, limit: Duration) -> io::Result<ScsiReply> {
        let mut sense = vec![0_u8; usize::from(SENSE_BYTES)];
        let (direction, data, length) = match transfer {
            Transfer::None => (NO_DATA, ptr::null_mut(), 0),
            Transfer::In(buffer) => (FROM_DRIVE, buffer.as_mut_ptr(), buffer.len()),
            Transfer::Out(buffer) => (TO_DRIVE, buffer.as_ptr().cast_mut(), buffer.len()),
        };
        let mut header = SgHeader {
            interface_id: c_int::from(b'S'),
            dxfer_direction: direction,
            cmd_len: u8::try_from(cdb.len()).map_err(io::Error::other)?,
            mx_sb_len: SENSE_BYTES,
            iovec_count: 0,
            dxfer_len: c_uint::try_from(length).map_err(io::Error::other)?,
            dxferp: data.cast(),
            cmdp: cdb.as_ptr(),
            sbp: sense.as_mut_ptr(),
            timeout: millis(limit),
            flags: 0,
            pack_id: 0,
            usr_ptr: ptr::null_mut(),
            status: 0,
            masked_status: 0,
            msg_status: 0,
            sb_len_wr: 0,
            host_status: 0,
            driver_status: 0,
            resid: 0,
            duration: 0,
            info: 0,
        };
        // SAFETY: the header has the kernel's layout; command, data and sense
        // buffers have the lengths that it says and outlive the call. The
        // kernel writes to data only when the direction is from the drive,
        // and then the buffer was borrowed mutably.
        let result = unsafe { raw::sg_io(self.0.fd().as_raw_fd(), &raw mut header) };
        result?;
        if header.host_status != 0 {
            return Err(io::Error::other(format!(
                "the host adapter reports {:#04x}",
                header.host_status
            )));
        }
        sense.truncate(usize::from(header.sb_len_wr));
        Ok(ScsiReply {
            status: header.status,
            sense,
        })
    }

    fn secure_discard(&self, offset: u64, length: u64) -> io::Result<()> {
        ioctl::secure_discard(self.0.fd(), offset, length)
    }

    fn pause(&self, time: Duration) {
        thread::sleep(time);
    }
}

#[cfg(test)]
mod tests {
    use super::NvmeCommand;
    use super::SgHeader;

    #[test]
    fn the_kernels_layouts() {
        assert_eq!(std::mem::size_of::<NvmeCommand>(), 72);
        assert_eq!(std::mem::offset_of!(NvmeCommand, addr), 24);
        assert_eq!(std::mem::size_of::<SgHeader>(), 88);
        assert_eq!(std::mem::offset_of!(SgHeader, status), 64);
    }
}

//! The kernel's messages about hardware that comes and goes
//! (`NETLINK_KOBJECT_UEVENT`).

use std::io;
use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;

use nix::sys::socket::AddressFamily;
use nix::sys::socket::MsgFlags;
use nix::sys::socket::NetlinkAddr;
use nix::sys::socket::SockFlag;
use nix::sys::socket::SockProtocol;
use nix::sys::socket::SockType;
use nix::sys::socket::bind;
use nix::sys::socket::recv;
use nix::sys::socket::setsockopt;
use nix::sys::socket::socket;
use nix::sys::socket::sockopt::RcvBuf;

/// The multicast group of the kernel's own messages.
const KERNEL: u32 = 1;
/// The kernel's messages have at most 2 KiB of variables.
const MESSAGE: usize = 8192;

/// Hears of hardware.
#[derive(Debug)]
pub(super) struct Listener(OwnedFd);

impl Listener {
    pub(super) fn open() -> io::Result<Self> {
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkKObjectUEvent,
        )?;
        setsockopt(&socket, RcvBuf, &(1 << 20))?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, KERNEL))?;
        Ok(Self(socket))
    }

    /// Waits for hardware that asks for a module.
    pub(super) fn next_modalias(&self) -> io::Result<String> {
        let mut buffer = vec![0; MESSAGE];
        loop {
            let length = recv(self.0.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
            if let Some(modalias) = modalias(&buffer[..length]) {
                return Ok(modalias);
            }
        }
    }
}

/// The `MODALIAS` of an `add` message.
fn modalias(message: &[u8]) -> Option<String> {
    let mut fields = message.split(|byte| *byte == 0);
    if !fields.next()?.starts_with(b"add@") {
        return None;
    }
    let value = fields.find_map(|field| field.strip_prefix(b"MODALIAS="))?;
    String::from_utf8(value.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::modalias;

    #[test]
    fn reads_messages() {
        let add = b"add@/devices/pci0/0000:00:03.0\0ACTION=add\0SUBSYSTEM=pci\0MODALIAS=pci:v1AF4\0SEQNUM=1\0";
        assert_eq!(modalias(add).as_deref(), Some("pci:v1AF4"));
        let bind = b"bind@/devices/x\0ACTION=bind\0MODALIAS=pci:v1AF4\0";
        assert_eq!(modalias(bind), None);
        assert_eq!(modalias(b"add@/devices/x\0ACTION=add\0"), None);
        assert_eq!(modalias(b""), None);
    }
}

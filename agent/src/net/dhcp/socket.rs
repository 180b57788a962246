//! The raw socket of one interface.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::AsRawFd;
use std::os::fd::FromRawFd;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::UdpSocket;

use super::client::Transport;
use super::frame;
use super::machine::To;

const ETH_P_IP: u16 = 0x0800;
/// Larger than any DHCP message on an Ethernet.
const FRAME: usize = 2048;

/// Sends and receives DHCP on one interface. The packet socket is open only
/// while answers are awaited, and lets nothing but UDP to port 68 through.
#[derive(Debug)]
pub struct RawTransport {
    index: u32,
    socket: Option<AsyncFd<OwnedFd>>,
}

impl RawTransport {
    /// A transport for the interface with this index.
    pub fn new(index: u32) -> Self {
        Self {
            index,
            socket: None,
        }
    }

    fn address(&self) -> io::Result<libc::sockaddr_ll> {
        // SAFETY: an all-zero sockaddr_ll is a valid value of that plain C
        // struct.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = ETH_P_IP.to_be();
        address.sll_ifindex = i32::try_from(self.index).map_err(io::Error::other)?;
        address.sll_halen = 6;
        address.sll_addr[..6].fill(0xff);
        Ok(address)
    }

    fn socket(&mut self) -> io::Result<&AsyncFd<OwnedFd>> {
        let socket = match self.socket.take() {
            Some(socket) => socket,
            // SAFETY: the descriptor is owned by the AsyncFd from here on and
            // neither replaced nor closed while it is registered.
            None => unsafe { AsyncFd::register(self.open()?)? },
        };
        Ok(self.socket.insert(socket))
    }

    fn open(&self) -> io::Result<OwnedFd> {
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // Protocol 0: nothing comes in before the filter is there.
        // SAFETY: a plain system call without pointers.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and belongs to nobody else.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        attach_filter(&socket)?;
        let address = self.address()?;
        // SAFETY: the pointer and the length are those of a live sockaddr_ll.
        let result = unsafe {
            libc::bind(
                socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of_val(&address) as u32,
            )
        };
        if result == 0 {
            Ok(socket)
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

/// Lets only unfragmented UDP to port 68 through (offsets from the start of
/// the IPv4 header, as an `AF_PACKET` datagram socket sees it).
fn attach_filter(socket: &OwnedFd) -> io::Result<()> {
    const LOAD_BYTE: u16 = 0x30;
    const LOAD_HALF: u16 = 0x28;
    const LOAD_HALF_INDEXED: u16 = 0x48;
    const LOAD_HEADER_LENGTH: u16 = 0xb1;
    const JUMP_EQUAL: u16 = 0x15;
    const JUMP_SET: u16 = 0x45;
    const RETURN: u16 = 0x06;
    let op = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut program = [
        op(LOAD_BYTE, 0, 0, 9),
        op(JUMP_EQUAL, 0, 6, 17),
        op(LOAD_HALF, 0, 0, 6),
        op(JUMP_SET, 4, 0, 0x1fff),
        op(LOAD_HEADER_LENGTH, 0, 0, 0),
        op(LOAD_HALF_INDEXED, 0, 0, 2),
        op(JUMP_EQUAL, 0, 1, u32::from(frame::CLIENT)),
        op(RETURN, 0, 0, FRAME as u32),
        op(RETURN, 0, 0, 0),
    ];
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the program and its length live until the call returns; the
    // kernel copies and checks it.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const filter).cast(),
            size_of_val(&filter) as u32,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

impl Transport for RawTransport {
    async fn send(&mut self, message: &[u8], to: To) -> io::Result<()> {
        match to {
            To::Broadcast => {
                let (packet, address) = (frame::build(message), self.address()?);
                let socket = self.socket()?;
                // SAFETY: both pointers and lengths are those of live values.
                let sent = unsafe {
                    libc::sendto(
                        socket.as_raw_fd(),
                        packet.as_ptr().cast(),
                        packet.len(),
                        0,
                        (&raw const address).cast(),
                        size_of_val(&address) as u32,
                    )
                };
                if sent < 0 {
                    Err(io::Error::last_os_error())
                } else {
                    Ok(())
                }
            }
            To::Server { from, to } => {
                self.socket()?;
                let socket = UdpSocket::bind(SocketAddrV4::new(from, frame::CLIENT)).await?;
                socket
                    .send_to(message, SocketAddrV4::new(to, frame::SERVER))
                    .await
                    .map(drop)
            }
        }
    }

    async fn receive(&mut self) -> io::Result<Vec<u8>> {
        let socket = self.socket()?;
        loop {
            let mut packet = vec![0; FRAME];
            let length = socket
                .async_io(Interest::READABLE, |socket| {
                    nix::unistd::read(socket, &mut packet).map_err(io::Error::from)
                })
                .await?;
            packet.truncate(length);
            if let Some(payload) = frame::payload(&packet) {
                return Ok(payload.to_vec());
            }
        }
    }

    fn rest(&mut self) {
        self.socket = None;
    }
}

#[cfg(test)]
mod tests {
    use super::RawTransport;
    use crate::net::dhcp::Transport;

    /// Needs the right to open packet sockets; without it there is nothing to
    /// test.
    #[tokio::test]
    async fn the_kernel_takes_the_filter() {
        let mut transport = RawTransport::new(1);
        match transport.open() {
            Ok(_) => transport.rest(),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied),
        }
    }
}

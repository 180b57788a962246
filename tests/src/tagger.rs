//! A switch port that carries one VLAN, tagged: frames go between a machine,
//! from which QEMU hands them over as datagrams, and the bridge, where they have
//! no tag. The host's kernel need not know VLANs.

use std::fs::File;
use std::io::Read;
use std::io::Write;
use std::net::Ipv4Addr;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use anyhow::Context;
use anyhow::Result;

use crate::netns;

/// Larger than any frame here.
const LARGEST: usize = 4096;
/// Target and source, after which a tag stands (IEEE 802.1Q §9.3).
const ADDRESSES: usize = 12;
const TAGGED: [u8; 2] = [0x81, 0x00];

/// UDP ports on loopback of the wire between machine and switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wire {
    /// The machine's end.
    pub machine: u16,
    /// The switch's end.
    pub switch: u16,
}

mod ioctl {
    //! `TUNSETIFF` of `linux/if_tun.h`.
    #![allow(missing_docs, reason = "made by a macro")]
    nix::ioctl_write_int!(set_interface, b'T', 202);
}

/// Makes the port: a tap named `tap` on the bridge, and the wire. Its threads
/// end with the process.
pub fn start(tap: &str, vlan: u16) -> Result<Wire> {
    netns::add_tap(tap)?;
    let bridge = attach(tap).with_context(|| format!("attaching to the tap {tap}"))?;
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let free = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let wire = Wire {
        machine: free.local_addr()?.port(),
        switch: socket.local_addr()?.port(),
    };
    drop(free);
    let (mut from_bridge, mut to_bridge) = (bridge.try_clone()?, bridge);
    let to_machine = socket.try_clone()?;
    std::thread::spawn(move || {
        let mut frame = vec![0; LARGEST];
        while let Ok(length) = from_bridge.read(&mut frame) {
            if let Some(tagged) = frame.get(..length).and_then(|frame| tag(frame, vlan)) {
                // A machine that is off hears nothing.
                to_machine
                    .send_to(&tagged, (Ipv4Addr::LOCALHOST, wire.machine))
                    .ok();
            }
        }
    });
    std::thread::spawn(move || {
        let mut frame = vec![0; LARGEST];
        loop {
            // The last datagram to a machine that is off comes back as an error.
            let Ok((length, _)) = socket.recv_from(&mut frame) else {
                continue;
            };
            if let Some(plain) = frame.get(..length).and_then(|frame| untag(frame, vlan)) {
                to_bridge.write_all(&plain).ok();
            }
        }
    });
    Ok(wire)
}

/// The user's end of a tap that is there.
fn attach(tap: &str) -> Result<File> {
    /// `struct ifreq` with flags: 16 bytes of name, then as much as a union has.
    #[repr(C)]
    struct Request {
        name: [u8; 16],
        flags: u16,
        rest: [u8; 22],
    }
    /// `IFF_TAP | IFF_NO_PI`
    const FLAGS: u16 = 0x0002 | 0x1000;
    let file = File::options()
        .read(true)
        .write(true)
        .open("/dev/net/tun")?;
    let mut request = Request {
        name: [0; 16],
        flags: FLAGS,
        rest: [0; 22],
    };
    // The last byte stays zero: the kernel wants a C string.
    for (to, from) in request.name.iter_mut().take(15).zip(tap.bytes()) {
        *to = from;
    }
    // SAFETY: TUNSETIFF reads and writes a struct ifreq, which lives through the
    // call.
    unsafe { ioctl::set_interface(file.as_raw_fd(), (&raw mut request).addr() as u64) }?;
    Ok(file)
}

fn tag(frame: &[u8], vlan: u16) -> Option<Vec<u8>> {
    let (addresses, rest) = frame.split_at_checked(ADDRESSES)?;
    Some([addresses, &TAGGED, &vlan.to_be_bytes(), rest].concat())
}

/// Without its tag; none of another VLAN or of none.
fn untag(frame: &[u8], vlan: u16) -> Option<Vec<u8>> {
    let (addresses, rest) = frame.split_at_checked(ADDRESSES)?;
    let (head, rest) = rest.split_at_checked(4)?;
    let number = u16::from_be_bytes([*head.get(2)?, *head.get(3)?]) & 0x0fff;
    (head.starts_with(&TAGGED) && number == vlan).then(|| [addresses, rest].concat())
}

#[cfg(test)]
mod tests {
    use super::tag;
    use super::untag;

    #[test]
    fn tags_come_and_go() {
        let frame: Vec<u8> = (0..64).collect();
        let tagged = tag(&frame, 7).unwrap();
        assert_eq!(tagged[12..16], [0x81, 0, 0, 7]);
        assert_eq!(untag(&tagged, 7).unwrap(), frame);
        assert_eq!(untag(&tagged, 8), None);
        assert_eq!(untag(&frame, 7), None);
        assert_eq!(untag(&tagged[..14], 7), None);
        assert_eq!(tag(&frame[..11], 7), None);
    }
}

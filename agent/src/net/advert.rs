//! Router advertisements (RFC 4861 §4.2, DNS options of RFC 8106). The kernel
//! makes addresses and routes of them; what it does not do is told here: whether
//! there is DHCPv6, and DNS.

use std::io;
use std::net::IpAddr;
use std::net::Ipv6Addr;
use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;
use std::time::Duration;

use nix::sys::socket::AddressFamily;
use nix::sys::socket::SockFlag;
use nix::sys::socket::SockType;
use nix::sys::socket::setsockopt;
use nix::sys::socket::socket;
use nix::sys::socket::sockopt;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::resolv::Dns;
use super::resolv::clean_domain;

const SOLICITATION: u8 = 133;
const ADVERTISEMENT: u8 = 134;
const ICMPV6: i32 = 58;
/// `ICMPV6_FILTER` of `linux/icmpv6.h`: one bit for each type, set: blocked.
const FILTER: i32 = 1;
/// Options.
const RDNSS: u8 = 25;
const DNSSL: u8 = 31;
/// Larger than any advertisement.
const LARGEST: usize = 4096;
/// Between solicitations that nobody answers (RFC 4861 §10), then seldom: the
/// router may come later.
const PAUSES: [u64; 4] = [4, 4, 8, 30];

/// What an advertisement says beside what the kernel reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Advert {
    /// Addresses are given out by DHCPv6.
    pub managed: bool,
    /// Other things are, such as DNS.
    pub other: bool,
    /// DNS by the router itself.
    pub dns: Dns,
}

/// Reads the ICMPv6 message; none if it is no advertisement.
pub fn parse(packet: &[u8]) -> Option<Advert> {
    const HEADER: usize = 16;
    let (header, mut options) = packet.split_at_checked(HEADER)?;
    if header.first() != Some(&ADVERTISEMENT) || header.get(1) != Some(&0) {
        return None;
    }
    let flags = *header.get(5)?;
    let mut advert = Advert {
        managed: flags & 0x80 != 0,
        other: flags & 0x40 != 0,
        dns: Dns::default(),
    };
    // Type, length in units of eight bytes, content.
    while let [kind, units, ..] = *options {
        let length = usize::from(units) * 8;
        if length == 0 {
            break;
        }
        let Some((option, rest)) = options.split_at_checked(length) else {
            break;
        };
        // Two bytes are reserved, four are a lifetime; 0: not any more.
        let alive = option.get(4..8).is_some_and(|life| life != [0; 4]);
        let content = option.get(8..).unwrap_or_default();
        match kind {
            RDNSS if alive => {
                let addresses = content.as_chunks::<16>().0.iter();
                let addresses = addresses.map(|bytes| IpAddr::V6(Ipv6Addr::from(*bytes)));
                advert.dns.servers.extend(addresses);
            }
            DNSSL if alive => advert.dns.domains.extend(names(content)),
            _ => {}
        }
        options = rest;
    }
    Some(advert)
}

/// Names in labels (RFC 1035 §3.1, never compressed here), padded with zeroes.
fn names(mut content: &[u8]) -> Vec<String> {
    let (mut names, mut labels) = (Vec::new(), Vec::new());
    while let Some((length, rest)) = content.split_first() {
        let Some((label, rest)) = rest.split_at_checked(usize::from(*length)) else {
            break;
        };
        match label.is_empty() {
            true => {
                let name: String = std::mem::take(&mut labels).join(".");
                names.extend(clean_domain(&name));
            }
            false => labels.push(String::from_utf8_lossy(label).into_owned()),
        }
        content = rest;
    }
    names
}

/// Hears the advertisements of one interface.
#[derive(Debug)]
pub struct Listener {
    socket: AsyncFd<OwnedFd>,
    index: u32,
    asked: usize,
    heard: bool,
}

impl Listener {
    /// Listens on the interface; needs the right to raw sockets.
    pub fn open(name: &str, index: u32) -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        // SAFETY: a plain system call without pointers.
        let fd = unsafe { libc::socket(libc::AF_INET6, libc::SOCK_RAW | flags.bits(), ICMPV6) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and belongs to nobody else.
        let socket = unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(fd) };
        let mut filter = [u32::MAX; 8];
        let (word, bit) = (usize::from(ADVERTISEMENT) >> 5, ADVERTISEMENT & 31);
        if let Some(word) = filter.get_mut(word) {
            *word &= !(1 << bit);
        }
        // Neighbours take solicitations from one hop away only.
        let hops: i32 = 255;
        let options: [(i32, i32, *const libc::c_void, usize); 2] = [
            (ICMPV6, FILTER, filter.as_ptr().cast(), size_of_val(&filter)),
            (
                libc::IPPROTO_IPV6,
                libc::IPV6_MULTICAST_HOPS,
                (&raw const hops).cast(),
                size_of_val(&hops),
            ),
        ];
        for (level, option, value, length) in options {
            // SAFETY: the pointer and the length are those of a live value.
            let set = unsafe {
                libc::setsockopt(socket.as_raw_fd(), level, option, value, length as u32)
            };
            if set != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        setsockopt(&socket, sockopt::BindToDevice, &name.into())?;
        // SAFETY: the descriptor is owned by the AsyncFd from here on and
        // neither replaced nor closed while it is registered.
        let socket = unsafe { AsyncFd::register(socket)? };
        Ok(Self {
            socket,
            index,
            asked: 0,
            heard: false,
        })
    }

    /// The next advertisement. Routers are asked for one until the first comes.
    pub async fn next(&mut self) -> io::Result<Advert> {
        loop {
            if self.heard {
                let advert = self.receive().await?;
                return Ok(advert);
            }
            // Without an address yet it cannot be sent: the next one is.
            self.solicit().ok();
            let last = PAUSES.len() - 1;
            let pause = PAUSES.get(self.asked.min(last)).copied().unwrap_or(30);
            self.asked += 1;
            let wait = tokio::time::timeout(Duration::from_secs(pause), self.receive());
            if let Ok(advert) = wait.await {
                self.heard = true;
                return advert;
            }
        }
    }

    fn solicit(&self) -> io::Result<()> {
        // Checksum: the kernel's for such sockets.
        let message = [SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
        let to = address(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2), 0, self.index);
        // SAFETY: both pointers and lengths are those of live values.
        let sent = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                message.as_ptr().cast(),
                message.len(),
                0,
                (&raw const to).cast(),
                size_of_val(&to) as u32,
            )
        };
        match sent < 0 {
            true => Err(io::Error::last_os_error()),
            false => Ok(()),
        }
    }

    async fn receive(&self) -> io::Result<Advert> {
        loop {
            let mut packet = vec![0; LARGEST];
            let got = self
                .socket
                .async_io(Interest::READABLE, |socket| receive(socket, &mut packet))
                .await?;
            let (length, from) = got;
            packet.truncate(length);
            // Nobody who is not on the link has such an address.
            if from.is_unicast_link_local()
                && let Some(advert) = parse(&packet)
            {
                return Ok(advert);
            }
        }
    }
}

fn receive(socket: &OwnedFd, packet: &mut [u8]) -> io::Result<(usize, Ipv6Addr)> {
    let mut from = address(Ipv6Addr::UNSPECIFIED, 0, 0);
    let mut length = size_of_val(&from) as u32;
    // SAFETY: both buffers live through the call, with their lengths.
    let got = unsafe {
        libc::recvfrom(
            socket.as_raw_fd(),
            packet.as_mut_ptr().cast(),
            packet.len(),
            0,
            (&raw mut from).cast(),
            &raw mut length,
        )
    };
    let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
    Ok((got, Ipv6Addr::from(from.sin6_addr.s6_addr)))
}

/// An address as system calls want it.
pub(super) fn address(address: Ipv6Addr, port: u16, scope: u32) -> libc::sockaddr_in6 {
    // SAFETY: an all-zero sockaddr_in6 is a valid value of that plain C struct.
    let mut raw: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
    raw.sin6_family = libc::AF_INET6 as u16;
    raw.sin6_port = port.to_be();
    raw.sin6_addr.s6_addr = address.octets();
    raw.sin6_scope_id = scope;
    raw
}

/// A UDP socket of one interface only, on a port of it.
pub(super) fn udp(name: &str, port: u16) -> io::Result<tokio::net::UdpSocket> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Inet6, SockType::Datagram, flags, None)?;
    // Before it is bound: each interface has this port.
    setsockopt(&socket, sockopt::BindToDevice, &name.into())?;
    setsockopt(&socket, sockopt::Ipv6V6Only, &true)?;
    let any = nix::sys::socket::SockaddrIn6::from(std::net::SocketAddrV6::new(
        Ipv6Addr::UNSPECIFIED,
        port,
        0,
        0,
    ));
    nix::sys::socket::bind(socket.as_raw_fd(), &any)?;
    tokio::net::UdpSocket::from_std(std::net::UdpSocket::from(socket))
}

#[cfg(test)]
mod tests {
    use super::parse;

    fn advert(flags: u8, options: &[u8]) -> Vec<u8> {
        let mut packet = vec![134, 0, 0, 0, 64, flags, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0];
        packet.extend(options);
        packet
    }

    #[test]
    fn advertisements_tell_of_dhcp_and_dns() {
        let plain = parse(&advert(0, &[])).unwrap();
        assert!(!plain.managed && !plain.other);
        // RDNSS with one server, DNSSL with two names, an MTU, a dead RDNSS.
        let mut options = vec![25, 3, 0, 0, 0, 0, 2, 88];
        options.extend(
            "2001:db8::53"
                .parse::<std::net::Ipv6Addr>()
                .unwrap()
                .octets(),
        );
        options.extend([
            31, 3, 0, 0, 0, 0, 0, 9, 1, b'a', 4, b't', b'e', b's', b't', 0,
        ]);
        options.extend([1, b'b', 0, 0, 0, 0, 0, 0]);
        options.extend([5, 1, 0, 0, 0, 0, 5, 0]);
        options.extend([25, 3, 0, 0, 0, 0, 0, 0]);
        options.extend([0x20; 16]);
        let found = parse(&advert(0xc0, &options)).unwrap();
        assert!(found.managed && found.other);
        assert_eq!(
            found.dns.servers,
            ["2001:db8::53".parse::<std::net::IpAddr>().unwrap()]
        );
        assert_eq!(found.dns.domains, ["a.test", "b"]);
        let whole = advert(0, &options);
        for end in 0..whole.len() {
            parse(&whole[..end]);
        }
        assert_eq!(parse(&[135; 24]), None);
        assert!(
            parse(&advert(0, &[25, 0, 0, 0])).is_some(),
            "a length of nothing"
        );
    }
}

//! What switches say of themselves: LLDP (IEEE 802.1AB), as ironic-python-agent
//! collects it. One frame of each NIC is read, raw; nothing is sent.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::fd::FromRawFd;
use std::os::fd::OwnedFd;
use std::time::Duration;
use std::time::Instant;

use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::PollTimeout;
use nix::poll::poll;
use tracing::info;
use tracing::warn;

use crate::net::nic::Nic;
use crate::params::Params;

/// A type (0 to 127) and its value as hex digits, in the order of the frame.
pub type Tlvs = Vec<(u8, String)>;
/// What was heard on each NIC, by its name; empty where nothing was.
pub type Heard = BTreeMap<String, Tlvs>;

const ETH_P_LLDP: u16 = 0x88cc;
/// An Ethernet header: target, source, type.
const HEADER: usize = 14;
/// Larger than any frame that is not jumbo.
const FRAME: usize = 2048;
/// Switches send every 30 s unless they are told otherwise.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long at most, whatever is asked for.
const LONGEST: Duration = Duration::from_secs(600);

/// How long to listen: `ipa-lldp-timeout`, seconds.
pub fn patience(params: &Params) -> Duration {
    let Some(text) = params.get("ipa-lldp-timeout") else {
        return PATIENCE;
    };
    match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds).min(LONGEST),
        Err(_) => {
            warn!("parameter ipa-lldp-timeout={text}: expected a number of seconds; taking 30");
            PATIENCE
        }
    }
}

/// Whether the inventory shall have it: `ipa-collect-lldp`.
pub fn is_wanted(params: &Params) -> bool {
    params
        .flag("ipa-collect-lldp")
        .unwrap_or_else(|error| {
            warn!("{error}");
            None
        })
        .unwrap_or(false)
}

/// Whether an inventory or an inspection of this machine shall have it.
pub fn is_collected(params: &Params) -> bool {
    let collectors = params.get("ipa-inspection-collectors");
    let mut names = collectors.into_iter().flat_map(|names| names.split(','));
    is_wanted(params) || names.any(|name| name.trim() == "lldp")
}

/// Listens on all of them at once, until each has heard a frame or `patience`
/// is over. Blocks. A NIC that cannot be listened on hears nothing.
pub fn listen(nics: &[Nic], patience: Duration) -> Heard {
    let mut heard: Heard = nics
        .iter()
        .map(|nic| (nic.name.clone(), Vec::new()))
        .collect();
    let mut open: Vec<(&Nic, OwnedFd)> = Vec::new();
    for nic in nics {
        match socket(nic.index) {
            Ok(socket) => open.push((nic, socket)),
            Err(error) => warn!("lldp: {} cannot be listened on: {error}", nic.name),
        }
    }
    let end = Instant::now() + patience;
    info!(
        "lldp: listening on {} NICs for {} s at most",
        open.len(),
        patience.as_secs()
    );
    while !open.is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        let mut polled: Vec<PollFd<'_>> = open
            .iter()
            .map(|(_, socket)| PollFd::new(socket.as_fd(), PollFlags::POLLIN))
            .collect();
        // Rounded up, so that the last wait does not spin.
        let wait = PollTimeout::try_from(left + Duration::from_millis(1));
        match poll(&mut polled, wait.unwrap_or(PollTimeout::MAX)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => {
                warn!("lldp: cannot wait: {error}");
                break;
            }
        }
        let ready: Vec<bool> = polled.iter().map(|fd| fd.any().unwrap_or(false)).collect();
        let mut ready = ready.into_iter();
        open.retain(|(nic, socket)| {
            if ready.next() != Some(true) {
                return true;
            }
            match receive(socket) {
                Ok(Some(tlvs)) => {
                    heard.insert(nic.name.clone(), tlvs);
                    false
                }
                Ok(None) => true,
                Err(error) => {
                    warn!("lldp: {}: {error}", nic.name);
                    false
                }
            }
        });
    }
    for (nic, _) in &open {
        info!("lldp: nothing heard on {}", nic.name);
    }
    heard
}

/// A socket that gets the LLDP frames of one NIC, whatever they are addressed
/// to. The NIC leaves promiscuous mode when it is closed.
fn socket(index: u32) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // Protocol 0: nothing comes in before the socket is bound to its NIC.
    // SAFETY: a plain system call without pointers.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and belongs to nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let index = i32::try_from(index).map_err(io::Error::other)?;
    // SAFETY: an all-zero sockaddr_ll is a valid value of that plain C struct.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = ETH_P_LLDP.to_be();
    address.sll_ifindex = index;
    // SAFETY: the pointer and the length are those of a live sockaddr_ll.
    let bound = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of_val(&address) as u32,
        )
    };
    if bound != 0 {
        return Err(io::Error::last_os_error());
    }
    let membership = libc::packet_mreq {
        mr_ifindex: index,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    // SAFETY: the pointer and the length are those of a live packet_mreq.
    let joined = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_ADD_MEMBERSHIP,
            (&raw const membership).cast(),
            size_of_val(&membership) as u32,
        )
    };
    if joined != 0 {
        // Most NICs let the multicast address through anyway.
        warn!("lldp: no promiscuous mode: {}", io::Error::last_os_error());
    }
    Ok(socket)
}

/// One frame from outside; none if it was our own or no LLDP.
fn receive(socket: &OwnedFd) -> io::Result<Option<Tlvs>> {
    let mut frame = vec![0u8; FRAME];
    // SAFETY: an all-zero sockaddr_ll is a valid value of that plain C struct.
    let mut from: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    let mut length = size_of_val(&from) as u32;
    // SAFETY: both buffers live through the call, with their lengths.
    let got = unsafe {
        libc::recvfrom(
            socket.as_raw_fd(),
            frame.as_mut_ptr().cast(),
            frame.len(),
            0,
            (&raw mut from).cast(),
            &raw mut length,
        )
    };
    let Ok(got) = usize::try_from(got) else {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
            _ => Err(error),
        };
    };
    if from.sll_pkttype == libc::PACKET_OUTGOING {
        return Ok(None);
    }
    let tlvs = frame.get(HEADER..got).map(tlvs).unwrap_or_default();
    Ok(Some(tlvs).filter(|tlvs| !tlvs.is_empty()))
}

/// The TLVs of an LLDPDU (802.1AB §8.4: seven bits of type, nine of length),
/// to the end TLV or to the first that is cut off.
pub fn tlvs(mut data: &[u8]) -> Tlvs {
    let mut found = Vec::new();
    while let Some((head, rest)) = data.split_first_chunk::<2>() {
        let head = u16::from_be_bytes(*head);
        let (kind, length) = ((head >> 9) as u8, usize::from(head & 0x1ff));
        let Some((value, rest)) = rest.split_at_checked(length) else {
            break;
        };
        found.push((kind, hex(value)));
        if kind == 0 {
            break;
        }
        data = rest;
    }
    found
}

/// VLANs that a switch names (802.1Q annex D, VLAN Name TLV: OUI 00-80-C2,
/// subtype 3, the VLAN's number).
pub fn vlans(tlvs: &Tlvs) -> Vec<u16> {
    let mut found = Vec::new();
    for (kind, value) in tlvs {
        let number = value
            .strip_prefix("0080c203")
            .and_then(|rest| rest.get(..4));
        let Some(number) = number.filter(|_| *kind == 127) else {
            continue;
        };
        match u16::from_str_radix(number, 16) {
            Ok(number @ 1..=4094) if !found.contains(&number) => found.push(number),
            _ => {}
        }
    }
    found
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        write!(text, "{byte:02x}").ok();
        text
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::is_collected;
    use super::is_wanted;
    use super::patience;
    use super::tlvs;
    use super::vlans;
    use crate::params::Params;
    use crate::params::Words;

    fn params(line: &str) -> Params {
        Params::from_words(Words::from_cmdline(line)).unwrap()
    }

    #[test]
    fn lldp_frames_become_types_and_hex() {
        // Chassis by MAC, port by name, TTL 120, a VLAN called "a", the end,
        // padding of a short frame.
        let mut data = vec![0x02, 7, 4, 0x52, 0x54, 0, 0, 0, 1];
        data.extend([0x04, 3, 5, b'p', b'1', 0x06, 2, 0, 120]);
        data.extend([0xfe, 8, 0, 0x80, 0xc2, 3, 0, 100, 1, b'a', 0, 0, 0, 0, 0]);
        let found = tlvs(&data);
        let expected = [
            (1, "04525400000001"),
            (2, "057031"),
            (3, "0078"),
            (127, "0080c20300640161"),
            (0, ""),
        ];
        let expected: Vec<(u8, String)> = expected
            .iter()
            .map(|(t, v)| (*t, (*v).to_owned()))
            .collect();
        assert_eq!(found, expected);
        assert_eq!(vlans(&found), [100]);
        // Cut anywhere, it gives what is whole.
        for end in 0..data.len() {
            assert!(expected.starts_with(&tlvs(&data[..end])), "{end}");
        }
        assert!(
            vlans(&vec![
                (127, "0080c203ffff".to_owned()),
                (127, "0080".to_owned())
            ])
            .is_empty()
        );
    }

    #[test]
    fn lldp_is_asked_for_by_parameters() {
        assert!(!is_wanted(&params("")));
        assert!(is_wanted(&params("ipa-collect-lldp=1")));
        assert!(is_collected(&params("ipa-collect-lldp=1")));
        let by_name = |names: &str| {
            let line = format!("ipa-inspection-collectors={names}");
            is_collected(&params(&line))
        };
        assert!(by_name("default,lldp") && !by_name("default,logs"));
        assert_eq!(patience(&params("")), Duration::from_secs(30));
        assert_eq!(
            patience(&params("ipa-lldp-timeout=3")),
            Duration::from_secs(3)
        );
        assert_eq!(
            patience(&params("ipa-lldp-timeout=x")),
            Duration::from_secs(30)
        );
    }
}

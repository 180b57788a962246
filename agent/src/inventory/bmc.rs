//! The BMC's own addresses, asked over the system interface (`/dev/ipmi0`) by
//! `Get LAN Configuration Parameters` (IPMI 2.0 §23.2).

use std::fs::File;
use std::fs::OpenOptions;
use std::net::Ipv4Addr;
use std::net::Ipv6Addr;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;

use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::PollTimeout;
use nix::poll::poll;

use crate::net::mac::Mac;

/// Names under which drivers put it.
const DEVICES: [&str; 3] = ["/dev/ipmi0", "/dev/ipmi/0", "/dev/ipmidev/0"];
/// Channels that may be a LAN (§6.3).
const CHANNELS: std::ops::RangeInclusive<u8> = 1..=11;
/// Parameters of table 23-4.
const IP_ADDRESS: u8 = 3;
const MAC_ADDRESS: u8 = 5;
const ADDRESSING_ENABLES: u8 = 51;
const IPV6_STATIC: u8 = 56;
const IPV6_DYNAMIC: u8 = 59;
/// For an answer of the BMC, in ms.
const PATIENCE: u16 = 5000;

/// The addresses that were found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    v4: Option<Ipv4Addr>,
    v6: Option<Ipv6Addr>,
    mac: Option<Mac>,
}

impl Found {
    /// As ironic-python-agent says it: all zeroes where there is none.
    pub(super) fn address(&self) -> String {
        self.v4.unwrap_or(Ipv4Addr::UNSPECIFIED).to_string()
    }

    /// The same for IPv6, with the length of its prefix.
    pub(super) fn address_v6(&self) -> String {
        self.v6
            .map_or_else(|| "::/0".to_owned(), |v6| v6.to_string())
    }

    /// The MAC address, when known.
    pub(super) fn mac(&self) -> Option<String> {
        self.mac.map(|mac| mac.to_string())
    }
}

/// Asks this machine's BMC.
pub(super) fn find() -> Found {
    let opened = DEVICES
        .iter()
        .find_map(|path| OpenOptions::new().read(true).write(true).open(path).ok());
    match opened {
        Some(device) => search(|netfn, command, data| ask(&device, netfn, command, data)),
        None => Found::default(),
    }
}

/// Looks through the LAN channels; `ask` sends a command and gives the data of
/// an answer without error.
fn search(mut ask: impl FnMut(u8, u8, &[u8]) -> Option<Vec<u8>>) -> Found {
    let mut found = Found::default();
    for channel in CHANNELS {
        // The first byte of the data is the parameter's revision.
        let mut parameter = |number: u8, set: u8| {
            let data = ask(0x0C, 0x02, &[channel, number, set, 0])?;
            data.get(1..).map(<[u8]>::to_vec)
        };
        let v4 = parameter(IP_ADDRESS, 0)
            .and_then(|data| <[u8; 4]>::try_from(data.get(..4)?).ok())
            .map(Ipv4Addr::from)
            .filter(|v4| !v4.is_unspecified());
        // 0: IPv6 is off; BMCs before IPMI 2.0 E4 do not know the parameter.
        let enables = parameter(ADDRESSING_ENABLES, 0).and_then(|data| data.first().copied());
        let v6 = match enables {
            Some(0) => None,
            // What the network gave is what the network knows.
            _ => [IPV6_DYNAMIC, IPV6_STATIC]
                .into_iter()
                .flat_map(|number| (0..4).map(move |set| (number, set)))
                .filter_map(|(number, set)| address_v6(number, &parameter(number, set)?))
                .next(),
        };
        if v4.is_none() && v6.is_none() {
            continue;
        }
        let mac = parameter(MAC_ADDRESS, 0)
            .and_then(|data| <[u8; 6]>::try_from(data.get(..6)?).ok())
            .map(Mac)
            .filter(|mac| mac.is_usable());
        found.v4 = found.v4.or(v4);
        found.v6 = found.v6.or(v6);
        found.mac = found.mac.or(mac);
    }
    found
}

/// Set selector, source or type, address, prefix, status: an active address
/// that others can reach. A static one has a bit of its own that switches it on.
fn address_v6(parameter: u8, data: &[u8]) -> Option<Ipv6Addr> {
    const ENABLED: u8 = 0x80;
    let enabled = parameter != IPV6_STATIC || data.get(1)? & ENABLED != 0;
    let bytes: [u8; 16] = data.get(2..18)?.try_into().ok()?;
    let active = *data.get(19)? == 0;
    let address = Ipv6Addr::from(bytes);
    let reachable = !address.is_unspecified() && !address.is_unicast_link_local();
    (enabled && active && reachable).then_some(address)
}

/// `struct ipmi_system_interface_addr` of `linux/ipmi.h`.
#[repr(C)]
struct SystemInterface {
    kind: i32,
    channel: i16,
    lun: u8,
}

/// `struct ipmi_msg`.
#[repr(C)]
struct Message {
    netfn: u8,
    command: u8,
    length: u16,
    data: *mut u8,
}

/// `struct ipmi_req`.
#[repr(C)]
struct Request {
    address: *mut SystemInterface,
    address_length: u32,
    id: libc::c_long,
    message: Message,
}

/// `struct ipmi_recv`.
#[repr(C)]
struct Received {
    kind: i32,
    address: *mut SystemInterface,
    address_length: u32,
    id: libc::c_long,
    message: Message,
}

nix::ioctl_read!(send_command, b'i', 13, Request);
nix::ioctl_readwrite!(receive_message, b'i', 11, Received);

fn ask(device: &File, netfn: u8, command: u8, data: &[u8]) -> Option<Vec<u8>> {
    // IPMI_SYSTEM_INTERFACE_ADDR_TYPE, IPMI_BMC_CHANNEL.
    let mut address = SystemInterface {
        kind: 0x0C,
        channel: 0x0F,
        lun: 0,
    };
    let mut sent = data.to_vec();
    let length = u32::try_from(size_of::<SystemInterface>()).ok()?;
    let mut request = Request {
        address: &raw mut address,
        address_length: length,
        id: 1,
        message: Message {
            netfn,
            command,
            length: u16::try_from(sent.len()).ok()?,
            data: sent.as_mut_ptr(),
        },
    };
    // SAFETY: the request points to an address and data that outlive the call,
    // with their lengths.
    unsafe { send_command(device.as_raw_fd(), &raw mut request) }.ok()?;
    let mut ready = [PollFd::new(device.as_fd(), PollFlags::POLLIN)];
    if poll(&mut ready, PollTimeout::from(PATIENCE)).ok()? != 1 {
        return None;
    }
    let mut buffer = [0u8; 272];
    let mut received = Received {
        kind: 0,
        address: &raw mut address,
        address_length: length,
        id: 0,
        message: Message {
            netfn: 0,
            command: 0,
            length: 272,
            data: buffer.as_mut_ptr(),
        },
    };
    // SAFETY: as above; the kernel writes at most 272 bytes (it cuts what is
    // longer) and says how many.
    unsafe { receive_message(device.as_raw_fd(), &raw mut received) }.ok()?;
    let answer = buffer.get(..usize::from(received.message.length))?;
    let (completion, data) = answer.split_first()?;
    (*completion == 0 && received.message.command == command).then(|| data.to_vec())
}

#[cfg(test)]
mod tests {
    use super::Found;
    use super::search;
    use crate::net::mac::Mac;

    #[test]
    fn looks_on_every_lan_channel() {
        let found = search(|netfn, command, data| {
            assert_eq!((netfn, command), (0x0C, 0x02));
            match data {
                [8, 3, 0, 0] => Some(vec![0x11, 192, 0, 2, 7]),
                [8, 5, 0, 0] => Some(vec![0x11, 0x52, 0x54, 0, 1, 2, 3]),
                [8, 56, 1, 0] => {
                    let mut data = vec![0x11, 1, 0x80];
                    data.extend(
                        "2001:db8::7"
                            .parse::<std::net::Ipv6Addr>()
                            .unwrap()
                            .octets(),
                    );
                    data.extend([64, 0]);
                    Some(data)
                }
                // A channel without an address.
                [1, 3, 0, 0] => Some(vec![0x11, 0, 0, 0, 0]),
                _ => None,
            }
        });
        assert_eq!(found.address(), "192.0.2.7");
        assert_eq!(found.address_v6(), "2001:db8::7");
        assert_eq!(found.mac, Some(Mac([0x52, 0x54, 0, 1, 2, 3])));
    }

    fn v6(source: u8, address: &str, status: u8) -> Vec<u8> {
        let address: std::net::Ipv6Addr = address.parse().unwrap();
        let mut data = vec![0x11, 0, source];
        data.extend(address.octets());
        data.extend([64, status]);
        data
    }

    #[test]
    fn of_ipv6_addresses_the_active_and_enabled_count() {
        let with = |enables: Option<u8>, fixed: Vec<u8>, dynamic: Vec<u8>| {
            let found = search(|_, _, data| match data {
                [3, 51, 0, 0] => enables.map(|byte| vec![0x11, byte]),
                [3, 56, 0, 0] => Some(fixed.clone()),
                [3, 59, 0, 0] => Some(dynamic.clone()),
                _ => None,
            });
            found.address_v6()
        };
        let (fixed, dynamic) = (v6(0x80, "2001:db8::1", 0), v6(2, "2001:db8::2", 0));
        let both = |enables| with(enables, fixed.clone(), dynamic.clone());
        assert_eq!(both(Some(2)), "2001:db8::2");
        assert_eq!(both(None), "2001:db8::2");
        assert_eq!(both(Some(0)), "::/0");
        let pending = v6(2, "2001:db8::2", 1);
        assert_eq!(with(Some(1), fixed, pending.clone()), "2001:db8::1");
        assert_eq!(with(Some(1), v6(0, "2001:db8::1", 0), pending), "::/0");
        assert_eq!(
            with(Some(1), v6(0x80, "fe80::1", 0), v6(1, "::", 0)),
            "::/0"
        );
    }

    #[test]
    fn short_answers_are_no_addresses() {
        let found = search(|_, _, _| Some(vec![0x11, 1]));
        assert_eq!(found, Found::default());
        assert_eq!(
            (found.address(), found.address_v6()),
            ("0.0.0.0".into(), "::/0".into())
        );
        assert_eq!(found.mac(), None);
    }
}

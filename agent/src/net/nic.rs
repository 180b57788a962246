//! Network interfaces as the kernel lists them in `/sys/class/net`.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::Path;

use nix::sys::socket::AddressFamily;
use nix::sys::socket::SockFlag;
use nix::sys::socket::SockType;
use nix::sys::socket::socket;
use tracing::warn;

use crate::net::mac::Mac;
use crate::params::Params;
use crate::system::read_line;

const SYS_CLASS_NET: &str = "/sys/class/net";
/// `ARPHRD_ETHER` in `type`.
const ETHERNET: &str = "1";

/// One Ethernet interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nic {
    /// Name, such as `eth0`.
    pub name: String,
    /// Index for netlink.
    pub index: u32,
    /// The address it uses.
    pub mac: Mac,
    /// The address it was made with, where the driver knows it: it stays the
    /// same under bonds and changed addresses.
    pub permanent_mac: Option<Mac>,
    /// Whether there is a device behind it; bridges, veth pairs and the like
    /// have none.
    pub physical: bool,
    /// Whether it is a VLAN or a bond, made of others.
    pub stacked: bool,
}

impl Nic {
    /// Whether there is a signal on the wire. The interface must be up.
    pub fn has_carrier(&self) -> bool {
        read_line(format!("{SYS_CLASS_NET}/{}/carrier", self.name)).as_deref() == Some("1")
    }

    /// The address to be known by.
    pub fn identity(&self) -> Mac {
        self.permanent_mac.unwrap_or(self.mac)
    }
}

/// All Ethernet interfaces with a usable address, by index.
pub fn list() -> Vec<Nic> {
    let mut nics = Vec::new();
    let Ok(entries) = fs::read_dir(SYS_CLASS_NET) else {
        return nics;
    };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(nic) = read(&entry.path(), name) {
            nics.push(nic);
        }
    }
    nics.sort_by_key(|nic| nic.index);
    nics
}

fn read(path: &Path, name: String) -> Option<Nic> {
    if read_line(path.join("type"))? != ETHERNET {
        return None;
    }
    let mac: Mac = read_line(path.join("address"))?.parse().ok()?;
    if !mac.is_usable() {
        return None;
    }
    let index = read_line(path.join("ifindex"))?.parse().ok()?;
    let physical = path.join("device").exists();
    let kind = fs::read_to_string(path.join("uevent")).unwrap_or_default();
    let stacked = kind
        .lines()
        .any(|line| matches!(line, "DEVTYPE=vlan" | "DEVTYPE=bond"));
    let permanent_mac = permanent_mac(&name);
    Some(Nic {
        name,
        index,
        mac,
        permanent_mac,
        physical,
        stacked,
    })
}

/// `ETHTOOL_GPERMADDR`: the address that is burnt in.
fn permanent_mac(name: &str) -> Option<Mac> {
    const ETHTOOL_GPERMADDR: u32 = 0x20;

    /// `struct ethtool_perm_addr` with room for one address.
    #[repr(C)]
    struct PermAddr {
        cmd: u32,
        size: u32,
        data: [u8; 32],
    }

    let socket = socket(
        AddressFamily::Inet,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        None,
    )
    .ok()?;
    let mut answer = PermAddr {
        cmd: ETHTOOL_GPERMADDR,
        size: 32,
        data: [0; 32],
    };
    // SAFETY: an all-zero ifreq is a valid value of that plain C struct.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let bytes = name.as_bytes();
    // The last byte stays zero: the kernel wants a C string.
    if bytes.len() >= request.ifr_name.len() {
        return None;
    }
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut answer).cast();
    // SAFETY: the ifreq names an interface and points to an ethtool structure
    // with room for 32 bytes, as its `size` says; both outlive the call.
    let result =
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    if result != 0 || answer.size != 6 {
        return None;
    }
    let mut mac = [0; 6];
    mac.copy_from_slice(&answer.data[..6]);
    Some(Mac(mac)).filter(|mac| mac.is_usable())
}

/// The addresses to look ourselves up with: those of `wrought-addresses`, or
/// all real NICs' (permanent ones first, then those in use where they
/// differ), or, where there is none, all interfaces'.
pub fn lookup_addresses(params: &Params) -> Vec<Mac> {
    if let Some(list) = params.get("wrought-addresses") {
        let parse = |text: &str| {
            text.parse::<Mac>()
                .inspect_err(|error| warn!("wrought-addresses: {error}"))
                .ok()
        };
        return list.split(',').filter_map(parse).collect();
    }
    let nics = list();
    let some_physical = nics.iter().any(|nic| nic.physical);
    let mut macs = Vec::new();
    for nic in nics.iter().filter(|nic| nic.physical || !some_physical) {
        macs.push(nic.identity());
    }
    for nic in nics.iter().filter(|nic| nic.physical || !some_physical) {
        if !macs.contains(&nic.mac) {
            macs.push(nic.mac);
        }
    }
    macs.dedup();
    macs
}

#[cfg(test)]
mod tests {
    use super::list;
    use super::lookup_addresses;
    use crate::params::Params;
    use crate::params::Words;

    #[test]
    fn lists_interfaces_of_this_machine() {
        for nic in list() {
            assert!(nic.index > 0 && nic.mac.is_usable());
            assert_ne!(nic.name, "lo");
        }
    }

    #[test]
    fn addresses_can_be_given() {
        let line = "wrought-addresses=52:54:00:00:00:01,52-54-00-00-00-02,bad";
        let params = Params::from_words(Words::from_cmdline(line)).unwrap();
        let macs: Vec<String> = lookup_addresses(&params)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(macs, ["52:54:00:00:00:01", "52:54:00:00:00:02"]);
    }
}

//! DHCP in UDP in IPv4, built and read by hand, since the kernel sends
//! nothing from an interface without an address.

use std::net::Ipv4Addr;

const IP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
const PROTOCOL_UDP: u8 = 17;
/// The client's port.
pub(super) const CLIENT: u16 = 68;
/// The server's port.
pub(super) const SERVER: u16 = 67;

/// The Internet checksum (RFC 1071).
fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0_u32;
    for part in parts {
        for pair in part.chunks(2) {
            let low = pair.get(1).copied().unwrap_or(0);
            sum += u32::from(u16::from_be_bytes([pair[0], low]));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    // Fits after the folding.
    !(sum as u16)
}

/// An IPv4 packet from 0.0.0.0 to everybody, ports 68 to 67. `payload` is a
/// DHCP message, which is always far below 64 KiB.
pub(super) fn build(payload: &[u8]) -> Vec<u8> {
    let udp_length = u16::try_from(UDP_HEADER + payload.len()).unwrap_or(u16::MAX);
    let total = udp_length.saturating_add(IP_HEADER as u16);
    let (source, target) = (Ipv4Addr::UNSPECIFIED.octets(), Ipv4Addr::BROADCAST.octets());

    let mut udp = Vec::with_capacity(UDP_HEADER);
    for field in [CLIENT, SERVER, udp_length, 0] {
        udp.extend_from_slice(&field.to_be_bytes());
    }
    let pseudo = [
        &source[..],
        &target,
        &[0, PROTOCOL_UDP],
        &udp_length.to_be_bytes(),
    ]
    .concat();
    // Zero means "no checksum", so that a sum of zero is sent inverted.
    let sum = match checksum(&[&pseudo, &udp, payload]) {
        0 => u16::MAX,
        sum => sum,
    };
    udp[6..8].copy_from_slice(&sum.to_be_bytes());

    let mut ip = vec![0x45, 0x10];
    ip.extend_from_slice(&total.to_be_bytes());
    // Identification 0, "don't fragment", 64 hops.
    ip.extend_from_slice(&[0, 0, 0x40, 0, 64, PROTOCOL_UDP, 0, 0]);
    ip.extend_from_slice(&source);
    ip.extend_from_slice(&target);
    let sum = checksum(&[&ip]);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    [ip.as_slice(), &udp, payload].concat()
}

/// The payload of a packet to port 68; nothing for any other packet. The UDP
/// checksum is not looked at: between virtual machines it is often not there.
pub(super) fn payload(packet: &[u8]) -> Option<&[u8]> {
    let first = *packet.first()?;
    let header = usize::from(first & 0xf) * 4;
    let total = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
    let fragment = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x3fff;
    let is_udp = *packet.get(9)? == PROTOCOL_UDP;
    if first >> 4 != 4 || header < IP_HEADER || fragment != 0 || !is_udp {
        return None;
    }
    let udp = packet.get(header..total)?;
    let field = |at: usize| Some(u16::from_be_bytes([*udp.get(at)?, *udp.get(at + 1)?]));
    if field(0)? != SERVER || field(2)? != CLIENT {
        return None;
    }
    udp.get(UDP_HEADER..usize::from(field(4)?))
}

#[cfg(test)]
mod tests {
    use super::CLIENT;
    use super::SERVER;
    use super::build;
    use super::checksum;
    use super::payload;

    #[test]
    fn checksums_come_out_right() {
        // The example of RFC 1071, section 3.
        assert_eq!(
            checksum(&[&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]]),
            !0xddf2
        );
        let packet = build(b"odd");
        assert_eq!(
            checksum(&[&packet[..20]]),
            0,
            "a right header sums up to nothing"
        );
        let pseudo = [&packet[12..20], &[0, 17], &packet[24..26]].concat();
        assert_eq!(checksum(&[&pseudo, &packet[20..]]), 0);
    }

    #[test]
    fn reads_answers_only() {
        let mut packet = build(b"payload");
        assert_eq!(payload(&packet), None, "a request");
        packet[20..22].copy_from_slice(&SERVER.to_be_bytes());
        packet[22..24].copy_from_slice(&CLIENT.to_be_bytes());
        assert_eq!(payload(&packet), Some(b"payload".as_slice()));
        packet.extend_from_slice(&[0; 18]);
        assert_eq!(
            payload(&packet),
            Some(b"payload".as_slice()),
            "padding of short frames"
        );
        for end in 0..30 {
            assert_eq!(payload(&packet[..end]), None);
        }
        packet[6] = 0x20;
        assert_eq!(payload(&packet), None, "a fragment");
    }
}

//! LLDP's TLVs (IEEE 802.1AB-2016 §8, 802.1Q annex D, 802.3 clause 79) in words.
//! The keys are those of Ironic's hooks. What is malformed is left out.

use std::net::Ipv4Addr;
use std::net::Ipv6Addr;

use serde_json::Map;
use serde_json::Value;
use serde_json::json;

/// TLVs of one frame that are looked at.
const MOST: usize = 256;
/// Longest value: nine bits of length.
const LONGEST: usize = 511;
/// Types.
const CHASSIS_ID: u64 = 1;
const PORT_ID: u64 = 2;
const PORT_DESCRIPTION: u64 = 4;
const SYSTEM_NAME: u64 = 5;
const SYSTEM_DESCRIPTION: u64 = 6;
const CAPABILITIES: u64 = 7;
const MANAGEMENT_ADDRESS: u64 = 8;
const ORGANISATION: u64 = 127;
/// Organisations.
const DOT1: [u8; 3] = [0x00, 0x80, 0xc2];
const DOT3: [u8; 3] = [0x00, 0x12, 0x0f];

/// A type and its value.
pub(super) type Tlv = (u64, Vec<u8>);

/// Reads what the ramdisk sent: a list of `[type, hex digits]`.
pub(super) fn read(list: &Value) -> Vec<Tlv> {
    let tlv = |entry: &Value| {
        let (kind, digits) = (entry.get(0)?.as_u64()?, entry.get(1)?.as_str()?);
        Some((kind, bytes(digits)?))
    };
    let list = list.as_array().into_iter().flatten().take(MOST);
    list.filter_map(tlv).collect()
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) || digits.len() / 2 > LONGEST {
        return None;
    }
    digits
        .as_bytes()
        .chunks(2)
        .map(|pair| {
            let digit = |byte: &u8| char::from(*byte).to_digit(16);
            let (high, low) = (digit(pair.first()?)?, digit(pair.get(1)?)?);
            u8::try_from(high << 4 | low).ok()
        })
        .collect()
}

/// What belongs into a port's `local_link_connection`. Only a chassis that is
/// known by its MAC address is a `switch_id`.
pub(super) fn link(tlvs: &[Tlv]) -> Map<String, Value> {
    let mut link = Map::new();
    for (kind, value) in tlvs {
        let (key, text) = match *kind {
            PORT_ID => ("port_id", identity(value, Identity::Port)),
            CHASSIS_ID if value.first() == Some(&4) => {
                ("switch_id", identity(value, Identity::Chassis))
            }
            SYSTEM_NAME => ("switch_info", text(value)),
            _ => continue,
        };
        if let Some(text) = text {
            link.entry(key).or_insert(text.into());
        }
    }
    link
}

/// All that is understood, by Ironic's names. Of what a switch says twice, the
/// first counts; VLANs, protocols and management addresses are lists.
pub(super) fn words(tlvs: &[Tlv]) -> Map<String, Value> {
    let mut words = Words(Map::new());
    for (kind, value) in tlvs {
        match *kind {
            CHASSIS_ID => words.set("switch_chassis_id", identity(value, Identity::Chassis)),
            PORT_ID => words.set("switch_port_id", identity(value, Identity::Port)),
            PORT_DESCRIPTION => words.set("switch_port_description", text(value)),
            SYSTEM_NAME => words.set("switch_system_name", text(value)),
            SYSTEM_DESCRIPTION => words.set("switch_system_description", text(value)),
            CAPABILITIES => words.capabilities(value),
            MANAGEMENT_ADDRESS => {
                // A length, then what networks know it by.
                let address = value.get(1..).and_then(address);
                words.append("switch_mgmt_addresses", address);
            }
            ORGANISATION => match value.split_at_checked(4) {
                Some(([a, b, c, subtype], data)) if [*a, *b, *c] == DOT1 => {
                    words.dot1(*subtype, data);
                }
                Some(([a, b, c, subtype], data)) if [*a, *b, *c] == DOT3 => {
                    words.dot3(*subtype, data);
                }
                _ => {}
            },
            _ => {}
        }
    }
    words.0
}

/// Whose identity it is: the subtypes are numbered differently.
#[derive(Clone, Copy, PartialEq)]
enum Identity {
    Chassis,
    Port,
}

/// A subtype and what it says (802.1AB §8.5.2.2 and §8.5.3.2).
fn identity(value: &[u8], whose: Identity) -> Option<String> {
    let (subtype, value) = value.split_first()?;
    match (whose, subtype) {
        (Identity::Chassis, 4) | (Identity::Port, 3) => mac(value),
        (Identity::Chassis, 5) | (Identity::Port, 4) => address(value),
        (Identity::Chassis, 1..=3 | 6 | 7) | (Identity::Port, 1 | 2 | 5 | 7) => text(value),
        _ => None,
    }
}

fn text(value: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(value).ok()?;
    Some(text.to_owned())
}

fn mac(value: &[u8]) -> Option<String> {
    let digits: Vec<String> = value.get(..6)?.iter().map(|b| format!("{b:02x}")).collect();
    Some(digits.join(":"))
}

/// A family by IANA's numbers and an address of it.
fn address(value: &[u8]) -> Option<String> {
    let (family, value) = value.split_first()?;
    match family {
        1 => Some(Ipv4Addr::from(*value.first_chunk::<4>()?).to_string()),
        2 => Some(Ipv6Addr::from(*value.first_chunk::<16>()?).to_string()),
        6 => mac(value),
        _ => None,
    }
}

fn word(value: &[u8]) -> Option<u16> {
    Some(u16::from_be_bytes(*value.first_chunk::<2>()?))
}

struct Words(Map<String, Value>);

impl Words {
    fn set(&mut self, key: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.0.entry(key).or_insert(value.into());
        }
    }

    fn append(&mut self, key: &str, value: Option<impl Into<Value>>) {
        let Some(value) = value else { return };
        let list = self.0.entry(key).or_insert_with(|| json!([]));
        if let Some(list) = list.as_array_mut() {
            list.push(value.into());
        }
    }

    /// What the system can do and what of it is switched on (§8.5.8).
    fn capabilities(&mut self, value: &[u8]) {
        const NAMES: [&str; 10] = [
            "Repeater",
            "Bridge",
            "WLAN",
            "Router",
            "Telephone",
            "DOCSIS cable device",
            "Station only",
            "C-Vlan",
            "S-Vlan",
            "TPMR",
        ];
        let names = |bits: u16| {
            // Bit 0 is "other".
            let set = NAMES
                .iter()
                .enumerate()
                .filter(|(bit, _)| bits >> (bit + 1) & 1 != 0);
            set.map(|(_, name)| *name).collect::<Vec<_>>()
        };
        let [a, b, c, d] = *value else { return };
        let (can, does) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        self.set("switch_capabilities_support", Some(names(can)));
        self.set("switch_capabilities_enabled", Some(names(does)));
    }

    /// 802.1Q annex D.
    fn dot1(&mut self, subtype: u8, data: &[u8]) {
        match (subtype, data) {
            (1, data) => self.set("switch_port_untagged_vlan_id", word(data)),
            (2, [flags, high, low]) => {
                let (can, does) = (flags & 2 != 0, flags & 4 != 0);
                self.set("switch_port_protocol_vlan_enabled", Some(does));
                self.set("switch_port_protocol_vlan_support", Some(can));
                let vlan = u16::from_be_bytes([*high, *low]);
                self.append("switch_port_protocol_vlan_ids", Some(vlan));
            }
            (3, [high, low, length, name @ ..]) => {
                let name = name.get(..usize::from(*length)).and_then(text);
                let id = u16::from_be_bytes([*high, *low]);
                let vlan = name.map(|name| json!({"name": name.trim_end_matches('\0'), "id": id}));
                self.append("switch_port_vlans", vlan);
            }
            (4, [length, protocol @ ..]) => {
                let protocol = protocol.get(..usize::from(*length));
                let digits = protocol.map(|bytes| {
                    let digits: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
                    digits.concat()
                });
                self.append("switch_protocol_identities", digits);
            }
            (6, data) => self.set("switch_port_management_vlan_id", word(data)),
            (7, data) => self.aggregation(data),
            _ => {}
        }
    }

    /// 802.3 clause 79.
    fn dot3(&mut self, subtype: u8, data: &[u8]) {
        match (subtype, data) {
            (1, [flags, p, q, m, n]) => {
                let (can, does) = (flags & 1 != 0, flags & 2 != 0);
                self.set("switch_port_autonegotiation_enabled", Some(does));
                self.set("switch_port_autonegotiation_support", Some(can));
                let modes = modes(u16::from_be_bytes([*p, *q]));
                self.set("switch_port_physical_capabilities", Some(modes));
                let mau = u16::from_be_bytes([*m, *n]);
                let name = MAU_TYPES
                    .get(usize::from(mau))
                    .map(|name| (*name).to_owned());
                let name = name.unwrap_or_else(|| format!("type {mau}"));
                self.set("switch_port_mau_type", Some(name));
            }
            // Where aggregation was told of before it moved to 802.1.
            (3, data) => self.aggregation(data),
            (4, data) => self.set("switch_port_mtu", word(data)),
            _ => {}
        }
    }

    fn aggregation(&mut self, data: &[u8]) {
        let [flags, a, b, c, d] = *data else { return };
        let (can, does) = (flags & 1 != 0, flags & 2 != 0);
        self.set("switch_port_link_aggregation_enabled", Some(does));
        self.set("switch_port_link_aggregation_support", Some(can));
        let id = u32::from_be_bytes([a, b, c, d]);
        self.set("switch_port_link_aggregation_id", Some(id));
    }
}

/// Modes that are negotiated (RFC 4836, IANAifMauAutoNegCapBits: bit 0 is the
/// most significant), in the order of their names.
fn modes(bits: u16) -> Vec<&'static str> {
    const NAMES: [&str; 15] = [
        "10BASE-T hdx",
        "10BASE-T fdx",
        "10BASE-T4",
        "100BASE-TX hdx",
        "100BASE-TX fdx",
        "100BASE-T2 hdx",
        "100BASE-T2 fdx",
        "PAUSE fdx",
        "Asym PAUSE fdx",
        "Sym PAUSE fdx",
        "Asym and Sym PAUSE fdx",
        "1000BASE-X hdx",
        "1000BASE-X fdx",
        "1000BASE-T hdx",
        "1000BASE-T fdx",
    ];
    // Bit 0 is "other".
    let is_set = |bit: usize| bits << (bit + 1) & 0x8000 != 0;
    let set = NAMES.iter().enumerate().filter(|(bit, _)| is_set(*bit));
    let mut names: Vec<&str> = set.map(|(_, name)| *name).collect();
    names.sort_unstable();
    names
}

/// Operational MAU types by their numbers (RFC 4836, IANA-MAU-MIB).
const MAU_TYPES: [&str; 54] = [
    "Unknown",
    "AUI",
    "10BASE-5",
    "FOIRL",
    "10BASE-2",
    "10BASE-T duplex mode unknown",
    "10BASE-FP",
    "10BASE-FB",
    "10BASE-FL duplex mode unknown",
    "10BROAD36",
    "10BASE-T half duplex",
    "10BASE-T full duplex",
    "10BASE-FL half duplex",
    "10BASE-FL full duplex",
    "100 BASE-T4",
    "100BASE-TX half duplex",
    "100BASE-TX full duplex",
    "100BASE-FX half duplex",
    "100BASE-FX full duplex",
    "100BASE-T2 half duplex",
    "100BASE-T2 full duplex",
    "1000BASE-X half duplex",
    "1000BASE-X full duplex",
    "1000BASE-LX half duplex",
    "1000BASE-LX full duplex",
    "1000BASE-SX half duplex",
    "1000BASE-SX full duplex",
    "1000BASE-CX half duplex",
    "1000BASE-CX full duplex",
    "1000BASE-T half duplex",
    "1000BASE-T full duplex",
    "10GBASE-X",
    "10GBASE-LX4",
    "10GBASE-R",
    "10GBASE-ER",
    "10GBASE-LR",
    "10GBASE-SR",
    "10GBASE-W",
    "10GBASE-EW",
    "10GBASE-LW",
    "10GBASE-SW",
    "10GBASE-CX4",
    "2BASE-TL",
    "10PASS-TS",
    "100BASE-BX10D",
    "100BASE-BX10U",
    "100BASE-LX10",
    "1000BASE-BX10D",
    "1000BASE-BX10U",
    "1000BASE-LX10",
    "1000BASE-PX10D",
    "1000BASE-PX10U",
    "1000BASE-PX20D",
    "1000BASE-PX20U",
];

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::json;

    use super::link;
    use super::read;
    use super::words;

    /// What a data centre's switch sends.
    fn switch() -> Value {
        json!([
            [1, "0464649b32f300"],
            [2, "0565746831"],
            [3, "0078"],
            [4, "75706c696e6b"],
            [5, "73772d31"],
            [6, "4f53"],
            [7, "00140010"],
            [8, "0501c000020102000003e800"],
            [8, "110220010db8000000000000000000000001020000000000"],
            [127, "0080c2010064"],
            [127, "0080c202060065"],
            [127, "0080c203006402763161"],
            [127, "0080c2030065027632"],
            [127, "0080c2040388cc01"],
            [127, "0080c2060bb8"],
            [127, "0080c20703000000ff"],
            [127, "00120f01036c03001e"],
            [127, "00120f0405ee"],
            [127, "00120f0103ffff0001"],
            [127, "ffffff01"],
            [0, ""]
        ])
    }

    #[test]
    fn lldp_in_words() {
        let expected = json!({
            "switch_chassis_id": "64:64:9b:32:f3:00",
            "switch_port_id": "eth1",
            "switch_port_description": "uplink",
            "switch_system_name": "sw-1",
            "switch_system_description": "OS",
            "switch_capabilities_support": ["Bridge", "Router"],
            "switch_capabilities_enabled": ["Router"],
            "switch_mgmt_addresses": ["192.0.2.1", "2001:db8::1"],
            "switch_port_untagged_vlan_id": 100,
            "switch_port_protocol_vlan_enabled": true,
            "switch_port_protocol_vlan_support": true,
            "switch_port_protocol_vlan_ids": [101],
            "switch_port_vlans": [{"name": "v1", "id": 100}, {"name": "v2", "id": 101}],
            "switch_protocol_identities": ["88cc01"],
            "switch_port_management_vlan_id": 3000,
            "switch_port_link_aggregation_enabled": true,
            "switch_port_link_aggregation_support": true,
            "switch_port_link_aggregation_id": 255,
            "switch_port_autonegotiation_enabled": true,
            "switch_port_autonegotiation_support": true,
            "switch_port_physical_capabilities": ["1000BASE-T fdx", "1000BASE-T hdx",
                "100BASE-TX fdx", "100BASE-TX hdx", "10BASE-T fdx", "10BASE-T hdx"],
            "switch_port_mau_type": "1000BASE-T full duplex",
            "switch_port_mtu": 1518,
        });
        assert_eq!(Value::Object(words(&read(&switch()))), expected);
        let expected = json!({"switch_id": "64:64:9b:32:f3:00", "port_id": "eth1",
            "switch_info": "sw-1"});
        assert_eq!(Value::Object(link(&read(&switch()))), expected);
    }

    #[test]
    fn lldp_that_is_malformed_is_left_out() {
        let odd = json!([
            [1, "04645"],
            [1, "zz"],
            [1, "0464"],
            [1, "09aa"],
            [1, ""],
            [2, "0300"],
            [2, "ff"],
            [5, "ff"],
            [7, "00"],
            [8, ""],
            [8, "0501c0"],
            [8, "0509c0000201"],
            [127, "0080"],
            [127, "0080c201"],
            [127, "0080c20200"],
            [127, "0080c203006405aa"],
            [127, "0080c20409aa"],
            [127, "0080c207"],
            [127, "00120f01"],
            [127, "00120f04"],
            7,
            ["x", "00"],
            [5],
            {}
        ]);
        assert!(words(&read(&odd)).is_empty());
        assert!(link(&read(&odd)).is_empty());
        assert!(read(&json!({"a": 1})).is_empty());
        let many: Vec<Value> = (0..10_000).map(|_| json!([5, "61"])).collect();
        assert_eq!(read(&Value::Array(many)).len(), 256);
        assert!(read(&json!([[5, "61".repeat(600)]])).is_empty());
        // A chassis that is known by its name is no switch_id.
        let named = read(&json!([[1, "0761"], [2, "0761"]]));
        assert_eq!(Value::Object(link(&named)), json!({"port_id": "a"}));
        assert_eq!(words(&named)["switch_chassis_id"], "a");
    }
}

//! Network data as OpenStack writes them.

use proptest::prelude::*;
use serde_json::json;

use super::Addressing;
use super::Kind;
use super::NetworkData;

#[test]
fn a_vlan_on_a_bond_with_both_kinds_of_addresses() {
    let text = json!({
        "links": [
            {"id": "vlan5", "type": "vlan", "vlan_link": "bond0", "vlan_id": 5,
                "vlan_mac_address": "52:54:00:00:00:05"},
            {"id": "bond0", "type": "bond", "bond_links": ["a", "b"], "bond_mode": "802.3ad",
                "bond_miimon": 50, "ethernet_mac_address": "52:54:00:00:00:01", "mtu": 9000},
            {"id": "a", "type": "phy", "ethernet_mac_address": "52:54:00:00:00:01"},
            {"id": "b", "type": "vif", "ethernet_mac_address": "52-54-00-00-00-02", "mtu": null}],
        "networks": [
            {"id": "n0", "link": "vlan5", "type": "ipv4", "ip_address": "192.0.2.10",
                "netmask": "255.255.255.0", "gateway": "192.0.2.1", "routes": [
                    {"network": "198.51.100.0", "netmask": "255.255.255.0", "gateway": "192.0.2.9"}],
                "services": [{"type": "dns", "address": "192.0.2.53"}]},
            {"id": "n1", "link": "vlan5", "type": "ipv6", "ip_address": "2001:db8::a/64", "routes": [
                {"network": "::", "netmask": "::", "gateway": "2001:db8::1"}],
                "dns_nameservers": ["2001:db8::53"]},
            {"id": "n2", "link": "a", "type": "ipv4_dhcp"},
            {"id": "n3", "link": "b", "type": "ipv6_slaac"}],
        "services": [{"type": "dns", "address": "192.0.2.53"}, {"type": "ntp", "address": "x"}],
    });
    let data = NetworkData::parse(&text.to_string()).unwrap();
    assert_eq!(data.links.len(), 4);
    let Kind::Bond {
        links,
        mode,
        miimon,
        ..
    } = &data.link("bond0").unwrap().kind
    else {
        panic!("{data:?}")
    };
    assert_eq!((links.len(), mode.as_str(), *miimon), (2, "802.3ad", 50));
    assert!(matches!(&data.link("vlan5").unwrap().kind,
        Kind::Vlan { link, number: 5, mac: Some(_) } if link == "bond0"));
    let Addressing::Static { prefix, routes, .. } = &data.networks[0].addressing else {
        panic!("{data:?}")
    };
    assert_eq!((*prefix, routes.len(), routes[1].1), (24, 2, 0));
    let Addressing::Static { prefix, routes, .. } = &data.networks[1].addressing else {
        panic!("{data:?}")
    };
    assert_eq!((*prefix, routes[0].1), (64, 0));
    assert_eq!(data.networks[2].addressing, Addressing::Dhcp);
    assert_eq!(data.networks[3].addressing, Addressing::Automatic);
    let dns: Vec<String> = data.dns.iter().map(ToString::to_string).collect();
    assert_eq!(dns, ["192.0.2.53", "2001:db8::53"]);
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let nic = json!({"id": "a", "ethernet_mac_address": "52:54:00:00:00:01"});
    let with = |network: serde_json::Value| json!({"links": [nic], "networks": [network]});
    for (data, text) in [
        (json!([]), "expected an object"),
        (
            json!({"links": [{"id": "a"}]}),
            "links/0/ethernet_mac_address: expected a MAC address",
        ),
        (
            json!({"links": [{"id": "v", "type": "vlan", "vlan_link": "x", "vlan_id": 5}]}),
            "link v: expected the id of a NIC's or a bond's link, found \"x\"",
        ),
        (
            json!({"links": [nic, {"id": "v", "type": "vlan", "vlan_link": "a", "vlan_id": 4095}]}),
            "vlan_id: expected 1 to 4094, found 4095",
        ),
        (
            json!({"links": [{"id": "b", "type": "bond", "bond_links": ["b"]}]}),
            "link b: expected ids of NICs' links",
        ),
        (
            with(json!({"link": "x", "type": "ipv4"})),
            "networks/0/link: expected the id of a link",
        ),
        (
            with(json!({"link": "a", "type": "carrier pigeon"})),
            "networks/0/type: expected ipv4, ",
        ),
        (
            with(
                json!({"link": "a", "type": "ipv4", "ip_address": "192.0.2.1", "netmask": "255.0.255.0"}),
            ),
            "networks/0/netmask: expected a netmask",
        ),
        (
            with(json!({"link": "a", "type": "ipv4", "ip_address": "192.0.2.1/33"})),
            "networks/0/netmask: expected a netmask",
        ),
        (
            with(
                json!({"link": "a", "type": "ipv4", "ip_address": "192.0.2.1/24", "routes":
                [{"network": "::", "netmask": "0", "gateway": "192.0.2.1"}]}),
            ),
            "expected a network, its netmask and a gateway of one kind",
        ),
    ] {
        let error = NetworkData::parse(&data.to_string())
            .unwrap_err()
            .to_string();
        assert!(error.contains(text), "{error}");
    }
    assert!(NetworkData::parse("{").is_err());
    assert_eq!(NetworkData::parse("{}").unwrap(), NetworkData::default());
}

proptest! {
    #[test]
    fn never_panics(mask in "[0-9a-f.:/]{0,20}", address in "[0-9a-f.:/]{0,24}") {
        let data = json!({"links": [{"id": "a", "ethernet_mac_address": "52:54:00:00:00:01"}],
            "networks": [{"link": "a", "type": "ipv4", "ip_address": address, "netmask": mask,
                "routes": [{"network": address, "netmask": mask, "gateway": address}]}]});
        NetworkData::parse(&data.to_string()).ok();
    }
}

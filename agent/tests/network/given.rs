//! Networks that virtual media describe.

use std::time::Duration;
use std::time::Instant;

use serde_json::json;

use crate::outside::Outside;
use crate::outside::addresses;
use crate::outside::block_on;
use crate::outside::callback;
use crate::outside::nics;
use crate::outside::params;
use crate::outside::resolv_conf;
use crate::outside::up;

#[test]
fn static_addresses_by_network_data() {
    let Some(_outside) = Outside::with(&["", ""]) else {
        return;
    };
    let begun = Instant::now();
    block_on(async {
        let mac = |n: usize| nics()[n].mac.to_string();
        let data = json!({
            "links": [{"id": "one", "type": "phy", "ethernet_mac_address": mac(1), "mtu": 1400}],
            "networks": [
                {"link": "one", "type": "ipv4", "ip_address": "192.0.2.10",
                    "netmask": "255.255.255.0", "routes": [{"network": "0.0.0.0",
                        "netmask": "0.0.0.0", "gateway": "192.0.2.1"}]},
                {"link": "one", "type": "ipv6", "ip_address": "2001:db8::a", "netmask": "64",
                    "routes": [{"network": "::", "netmask": "::", "gateway": "2001:db8::1"}]}],
            "services": [{"type": "dns", "address": "192.0.2.53"}],
        });
        let mut params = params("ipa-api-url=http://198.51.100.9:6385");
        params.network_data = Some(data.to_string());
        up(&params).await;
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "nobody was waited for"
        );
        assert!(addresses("nic0").is_empty());
        assert_eq!(addresses("nic1"), ["192.0.2.10/24", "2001:db8::a/64"]);
        assert_eq!(
            callback("http://198.51.100.9:6385").await.to_string(),
            "192.0.2.10"
        );
        let source = callback("http://[2001:db8:1::1]:6385").await.to_string();
        assert_eq!(source, "2001:db8::a");
        assert_eq!(resolv_conf(), "nameserver 192.0.2.53\n");
        let mtu = std::fs::read_to_string("/sys/class/net/nic1/mtu").unwrap();
        assert_eq!(mtu.trim(), "1400");
    });
}

#[test]
fn dhcp_by_network_data_and_nonsense_in_them() {
    let served = Outside::serving(
        &["203.0.113.1/24", "192.0.2.1/24"],
        "--interface=sw0 --interface=sw1 --dhcp-option=option:router,192.0.2.1 \
         --dhcp-range=203.0.113.100,203.0.113.110,255.255.255.0,10m \
         --dhcp-range=192.0.2.100,192.0.2.110,255.255.255.0,10m",
    );
    let Some(_outside) = served else { return };
    block_on(async {
        let mac = nics()[1].mac.to_string();
        let data = json!({
            "links": [{"id": "one", "type": "phy", "ethernet_mac_address": mac},
                {"id": "gone", "type": "phy", "ethernet_mac_address": mac},
                {"id": "v", "type": "vlan", "vlan_link": "one", "vlan_id": 7}],
            "networks": [{"link": "one", "type": "ipv4_dhcp"},
                {"link": "v", "type": "ipv4", "ip_address": "198.51.100.1/24"}],
        });
        let mut params = params("ipa-api-url=http://198.51.100.9:6385");
        params.network_data = Some(data.to_string());
        up(&params).await;
        assert!(
            addresses("nic0").is_empty(),
            "only what is described is asked on"
        );
        assert_eq!(addresses("nic1").len(), 1);
    });
}

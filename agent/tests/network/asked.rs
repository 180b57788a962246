//! Networks that the machine has to find out.

use std::time::Duration;

use crate::outside::Outside;
use crate::outside::addresses;
use crate::outside::block_on;
use crate::outside::callback;
use crate::outside::nics;
use crate::outside::params;
use crate::outside::resolv_conf;
use crate::outside::until;
use crate::outside::up;

#[test]
fn no_dhcp_on_the_first_nic() {
    let served = Outside::serving(
        &["", "192.0.2.1/24"],
        "--interface=sw1 --dhcp-range=192.0.2.100,192.0.2.110,255.255.255.0,10m \
         --dhcp-option=option:router,192.0.2.1 --dhcp-option=option:dns-server,192.0.2.53",
    );
    let Some(_outside) = served else { return };
    block_on(async {
        let first = nics()[0].mac.to_string().replace(':', "-");
        // The firmware says that it booted from a NIC on which nobody answers.
        let line = format!(
            "ipa-api-url=http://198.51.100.9:6385 BOOTIF=01-{first} wrought-dhcp-timeout=3"
        );
        up(&params(&line)).await;
        assert!(addresses("nic0").is_empty());
        assert_eq!(addresses("nic1").len(), 1);
        assert_eq!(resolv_conf(), "nameserver 192.0.2.53\n");
        let source = callback("http://198.51.100.9:6385").await.to_string();
        assert!(source.starts_with("192.0.2.1"), "{source}");
    });
}

#[test]
fn a_lease_that_leads_nowhere_does_not_end_the_search() {
    // A network of BMCs, say: no router. The other answers later.
    let served = Outside::serving(
        &["203.0.113.1/24", "192.0.2.1/24"],
        "--interface=sw0 --dhcp-range=203.0.113.100,203.0.113.110,255.255.255.0,10m \
         --dhcp-option=option:router",
    );
    let Some(mut outside) = served else { return };
    block_on(async {
        let params = params("ipa-api-url=http://192.0.2.1:6385");
        let network = tokio::spawn(async move { up(&params).await });
        until("the first lease", || addresses("nic0").len() == 1).await;
        outside
            .dnsmasq(
                "--interface=sw1 --dhcp-range=192.0.2.100,192.0.2.110,255.255.255.0,10m \
                 --dhcp-option=option:router",
            )
            .unwrap();
        network.await.unwrap();
        assert_eq!(addresses("nic0").len(), 1, "the first one is kept");
        let source = callback("http://192.0.2.1:6385").await.to_string();
        assert!(source.starts_with("192.0.2.1"), "{source}");
    });
}

#[test]
fn ipv6_only_by_router_advertisements() {
    let served = Outside::serving(
        &["2001:db8::1/64"],
        "--interface=sw0 --enable-ra --dhcp-range=2001:db8::,ra-only,64,10m \
         --dhcp-option=option6:dns-server,[2001:db8::53] \
         --dhcp-option=option6:domain-search,example.org",
    );
    let Some(_outside) = served else { return };
    block_on(async {
        let url = "http://[2001:db8:1::9]:6385";
        up(&params(&format!("ipa-api-url={url}"))).await;
        let source = callback(url).await.to_string();
        assert!(source.starts_with("2001:db8::"), "{source}");
        until("the router's name server", || {
            resolv_conf().contains("nameserver 2001:db8::53\n")
        })
        .await;
        assert!(
            resolv_conf().contains("search example.org\n"),
            "{}",
            resolv_conf()
        );
    });
}

#[test]
fn ipv6_only_by_dhcpv6() {
    // Not one address by autoconfiguration: the prefix is managed.
    let served = Outside::serving(
        &["2001:db8::1/64"],
        "--interface=sw0 --enable-ra --dhcp-range=2001:db8::100,2001:db8::100,64,10m \
         --dhcp-option=option6:dns-server,[2001:db8::53]",
    );
    let Some(outside) = served else { return };
    block_on(async {
        let url = "http://[2001:db8::1]:6385";
        up(&params(&format!("ipa-api-url={url}"))).await;
        until("the leased address", || {
            addresses("nic0").contains(&"2001:db8::100/128".to_owned())
        })
        .await;
        until("the name server", || {
            resolv_conf() == "nameserver 2001:db8::53\n"
        })
        .await;
        assert!(outside.said().contains("DHCPREPLY"), "{}", outside.said());
    });
}

#[test]
fn a_link_that_comes_late_and_one_that_is_lost() {
    let served = Outside::serving(
        &["192.0.2.1/24"],
        "--interface=sw0 --dhcp-range=192.0.2.100,192.0.2.100,255.255.255.0,10m \
         --dhcp-option=option:router,192.0.2.1",
    );
    let Some(mut outside) = served else { return };
    outside.run("ip link set sw0 down");
    block_on(async {
        let params = params("ipa-api-url=http://198.51.100.9:6385");
        let network = tokio::spawn(async move { up(&params).await });
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(!network.is_finished());
        outside.run("ip link set sw0 up");
        network.await.unwrap();
        assert_eq!(addresses("nic0"), ["192.0.2.100/24"]);
        // The cable goes into another network.
        outside.run("ip link set sw0 down");
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(
            addresses("nic0"),
            ["192.0.2.100/24"],
            "kept until somebody says else"
        );
        outside.end_servers();
        outside.run("ip addr flush dev sw0");
        outside.address("sw0", "203.0.113.1/24");
        outside.run("ip link set sw0 up");
        outside
            .dnsmasq(
                "--interface=sw0 --dhcp-range=203.0.113.7,203.0.113.7,255.255.255.0,10m \
                 --dhcp-option=option:router,203.0.113.1",
            )
            .unwrap();
        until("the other network's address", || {
            addresses("nic0") == ["203.0.113.7/24"]
        })
        .await;
        let source = callback("http://198.51.100.9:6385").await.to_string();
        assert_eq!(source, "203.0.113.7");
    });
}

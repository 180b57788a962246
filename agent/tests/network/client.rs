//! The DHCP client alone against dnsmasq.

use std::net::Ipv4Addr;
use std::time::Duration;

use wrought_agent::api::Random;
use wrought_agent::net::dhcp::Client;
use wrought_agent::net::dhcp::Event;
use wrought_agent::net::dhcp::RawTransport;
use wrought_agent::net::link::Links;
use wrought_agent::net::source;

use crate::outside::Outside;
use crate::outside::PATIENCE;
use crate::outside::block_on;

#[test]
fn gets_and_uses_a_lease() {
    let served = Outside::serving(
        &["192.0.2.1/24"],
        "--interface=sw0 --dhcp-range=192.0.2.100,192.0.2.100,255.255.255.0,2m \
         --dhcp-option=option:router,192.0.2.1 --dhcp-option=option:dns-server,192.0.2.53 \
         --dhcp-option=option:domain-name,example.org --dhcp-option=option:mtu,1400 \
         --dhcp-option=option:classless-static-route,0.0.0.0/0,192.0.2.1,198.51.100.0/24,192.0.2.7",
    );
    let Some(_outside) = served else { return };
    block_on(async {
        let index = nix::net::if_::if_nametoindex("nic0").unwrap();
        let links = Links::connect().unwrap();
        links.up(index).await.unwrap();

        let mac = "52:54:00:00:00:77".parse().unwrap();
        let mut dhcp = Client::new(mac, Random::default(), RawTransport::new(index));
        let event = tokio::time::timeout(PATIENCE, dhcp.next()).await.unwrap();
        let Event::Bound(lease) = event else {
            panic!("{event:?}")
        };
        assert_eq!(
            (lease.address, lease.prefix),
            (Ipv4Addr::new(192, 0, 2, 100), 24)
        );
        assert_eq!(lease.routes.len(), 2, "{:?}", lease.routes);
        assert_eq!(lease.dns, [Ipv4Addr::new(192, 0, 2, 53)]);
        assert_eq!(
            (lease.domain.as_deref(), lease.mtu),
            (Some("example.org"), Some(1400))
        );
        assert_eq!(lease.renew, Duration::from_secs(60));

        links.apply(index, &lease).await.unwrap();
        links.apply(index, &lease).await.unwrap();
        let address = source::toward("https://198.51.100.9:6385").await;
        assert_eq!(address.unwrap(), lease.address);
        links.remove(index, &lease).await.unwrap();
        assert!(!source::route_exists("https://198.51.100.9:6385").await);
    });
}

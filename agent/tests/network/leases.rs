//! Leases in the middle of a write: renewed, ended, taken back.

use std::time::Duration;
use std::time::Instant;

use crate::image::Server;
use crate::image::Writing;
use crate::outside::Outside;
use crate::outside::addresses;
use crate::outside::block_on;
use crate::outside::callback;
use crate::outside::params;
use crate::outside::until;
use crate::outside::up;

const URL: &str = "http://198.51.100.9:6385";

/// dnsmasq with these addresses to give. Its shortest lease is two minutes: it
/// is renewed after one.
fn options(first: &str, last: &str) -> String {
    format!(
        "--interface=sw0 --dhcp-range={first},{last},255.255.255.0,2m \
         --dhcp-option=option:router,192.0.2.1"
    )
}

/// A server with one address to give.
fn served() -> Option<Outside> {
    Outside::serving(&["192.0.2.1/24"], &options("192.0.2.100", "192.0.2.100"))
}

/// A machine with a lease that writes an image.
async fn writing(outside: &Outside) -> (Server, Writing) {
    up(&params(&format!("ipa-api-url={URL}"))).await;
    assert_eq!(addresses("nic0"), ["192.0.2.100/24"]);
    let server = Server::start(&outside.namespace(), "192.0.2.1");
    let writing = server.write(&outside.dir().join("disk"));
    until("the first of the image", || server.sent() > 0).await;
    (server, writing)
}

#[test]
fn a_lease_is_renewed_in_the_middle_of_a_write() {
    let Some(outside) = served() else { return };
    block_on(async {
        let (server, writing) = writing(&outside).await;
        let first = outside.confirmations();
        until("a renewal", || outside.confirmations() > first).await;
        assert_eq!(addresses("nic0"), ["192.0.2.100/24"]);
        assert!(!writing.is_finished());
        server.hurry();
        writing.ends_well().await;
        assert_eq!(server.requests(), 1, "nothing was noticed");
    });
}

/// Nobody answers until the lease is over: the address is used as long as it is
/// ours, and no longer. The server that comes back has forgotten it and has many;
/// ours is asked for, because the conductor knows us by it.
#[test]
fn a_lease_ends_in_the_middle_of_a_write() {
    let Some(mut outside) = served() else { return };
    block_on(async {
        let begun = Instant::now();
        let (server, writing) = writing(&outside).await;
        outside.end_servers();
        until("the end of the lease", || addresses("nic0").is_empty()).await;
        let held = begun.elapsed();
        assert!(held > Duration::from_secs(115), "given up after {held:?}");
        assert_eq!(server.requests(), 1, "it was used to its end");
        let sent = server.sent();
        assert!(sent > 1 << 20, "only {sent} bytes came until then");
        let pool = options("192.0.2.100", "192.0.2.250");
        outside.dnsmasq(&pool).unwrap();
        until("another lease", || !addresses("nic0").is_empty()).await;
        assert_eq!(addresses("nic0"), ["192.0.2.100/24"]);
        assert_eq!(callback(URL).await.to_string(), "192.0.2.100");
        assert!(!writing.is_finished());
        server.hurry();
        writing.ends_well().await;
    });
}

/// The server refuses to renew the lease and has another address: the write goes
/// on with that.
#[test]
fn a_lease_is_taken_back_in_the_middle_of_a_write() {
    let Some(mut outside) = served() else { return };
    block_on(async {
        let (server, writing) = writing(&outside).await;
        outside.end_servers();
        let other = options("192.0.2.101", "192.0.2.101");
        outside.dnsmasq(&other).unwrap();
        until("another lease", || addresses("nic0") == ["192.0.2.101/24"]).await;
        assert!(outside.said().contains("DHCPNAK("), "{}", outside.said());
        until("another connection", || server.requests() > 1).await;
        assert!(!writing.is_finished());
        server.hurry();
        writing.ends_well().await;
    });
}

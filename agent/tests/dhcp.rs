//! The DHCP client against dnsmasq, over a veth pair in a network namespace
//! that dies with this test. Skipped, with a line that says so, where either
//! is not possible.

#![allow(clippy::unwrap_used, reason = "helpers of tests, not only tests")]

use std::net::Ipv4Addr;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;

use nix::sched::CloneFlags;
use nix::sched::unshare;
use rtnetlink::Handle;
use rtnetlink::LinkUnspec;
use rtnetlink::LinkVeth;
use wrought_agent::api::Random;
use wrought_agent::net::dhcp::Client;
use wrought_agent::net::dhcp::Event;
use wrought_agent::net::dhcp::RawTransport;
use wrought_agent::net::link::Links;
use wrought_agent::net::nic;

/// Ends dnsmasq with the test.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn dnsmasq(dir: &std::path::Path) -> std::io::Result<Guard> {
    let lease_file = format!("--dhcp-leasefile={}", dir.join("leases").display());
    let child = Command::new("dnsmasq")
        .args(["--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--no-ping"])
        .args(["--interface=veth0", "--bind-interfaces", "--user=root", "--log-facility=-"])
        .arg("--dhcp-range=192.0.2.100,192.0.2.100,255.255.255.0,2m")
        .args(["--dhcp-option=option:router,192.0.2.1", "--dhcp-option=option:dns-server,192.0.2.53"])
        .args(["--dhcp-option=option:domain-name,example.org", "--dhcp-option=option:mtu,1400"])
        .arg("--dhcp-option=option:classless-static-route,0.0.0.0/0,192.0.2.1,198.51.100.0/24,192.0.2.7")
        .args(["--pid-file=", "--dhcp-authoritative"])
        .arg(lease_file)
        .stderr(Stdio::null())
        .spawn()?;
    Ok(Guard(child))
}

async fn server_side(handle: &Handle, index: u32) {
    handle
        .link()
        .set(LinkUnspec::new_with_index(index).up().build())
        .execute()
        .await
        .unwrap();
    let address = Ipv4Addr::new(192, 0, 2, 1);
    handle
        .address()
        .add(index, address.into(), 24)
        .execute()
        .await
        .unwrap();
}

#[test]
fn gets_and_uses_a_lease() {
    // Only this thread moves; all sockets and children below are its own.
    if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
        eprintln!("skipped: no network namespace: {error}");
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (connection, handle, _) = rtnetlink::new_connection().unwrap();
        tokio::spawn(connection);
        if let Err(error) = handle
            .link()
            .add(LinkVeth::new("veth0", "veth1").build())
            .execute()
            .await
        {
            eprintln!("skipped: no veth pair: {error}");
            return;
        }
        // sysfs still shows the namespace it was mounted in: ask netlink.
        let index = |name: &str| nix::net::if_::if_nametoindex(name).unwrap();
        let (server, client) = (index("veth0"), index("veth1"));
        server_side(&handle, server).await;
        let dir = tempfile::tempdir().unwrap();
        let Ok(_dnsmasq) = dnsmasq(dir.path()) else {
            eprintln!("skipped: no dnsmasq");
            return;
        };
        let links = Links::connect().unwrap();
        links.up(client).await.unwrap();

        let mac = "52:54:00:00:00:77".parse().unwrap();
        let mut dhcp = Client::new(mac, Random::default(), RawTransport::new(client));
        let event = tokio::time::timeout(Duration::from_secs(30), dhcp.next())
            .await
            .unwrap();
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

        links.apply(client, &lease).await.unwrap();
        links.apply(client, &lease).await.unwrap();
        let address = wrought_agent::net::source::toward("https://198.51.100.9:6385").await;
        assert_eq!(address.unwrap(), lease.address);
        links.remove(client, &lease).await.unwrap();
        assert!(!wrought_agent::net::source::route_exists("https://198.51.100.9:6385").await);
        assert!(nic::list().iter().all(|nic| nic.name != "lo"));
    });
}

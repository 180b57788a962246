//! The network matrix of the ramdisk, each case in namespaces of its own that
//! die with the test: veth pairs lead from the machine's namespace to another in
//! which dnsmasq serves. Skipped, with a line that says so, where the host lacks
//! something. VLANs and bonds need a kernel that has them; virtual machines show
//! them.

#![allow(clippy::unwrap_used, reason = "helpers of tests, not only tests")]

use std::net::IpAddr;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

use nix::mount::MsFlags;
use nix::mount::mount;
use nix::sched::CloneFlags;
use nix::sched::unshare;
use serde_json::json;
use wrought_agent::net::bring_up::bring_up_of;
use wrought_agent::net::nic;
use wrought_agent::net::nic::Nic;
use wrought_agent::params::Params;
use wrought_agent::params::Words;

/// For anything to come, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// Ends a process with the test.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn succeeds(program: &str, line: &str) -> bool {
    let ran = Command::new(program)
        .args(line.split_whitespace())
        .stderr(Stdio::null())
        .status();
    ran.is_ok_and(|status| status.success())
}

/// What is on the other end of the machine's wires.
struct Outside {
    /// Holds the namespace.
    holder: Guard,
    /// Servers in it.
    servers: Vec<Guard>,
    dir: tempfile::TempDir,
}

impl Outside {
    /// A namespace with `wires` of this thread's: `nicN` here, `swN` there. None
    /// where that is not possible.
    fn with_wires(wires: usize) -> Option<Self> {
        // Only this thread moves; all sockets and children below are its own.
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS) {
            eprintln!("skipped: no namespaces: {error}");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        // Of this namespace: its interfaces in sysfs, and a resolver's file.
        let none: Option<&str> = None;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
        let resolv = dir.path().join("resolv.conf");
        std::fs::write(&resolv, "").unwrap();
        let bound = mount(
            Some(&resolv),
            "/etc/resolv.conf",
            none,
            MsFlags::MS_BIND,
            none,
        );
        let shown = mount(Some("none"), "/sys", Some("sysfs"), MsFlags::empty(), none);
        if bound.is_err() || shown.is_err() {
            eprintln!("skipped: no mounts: {bound:?}, {shown:?}");
            return None;
        }
        let holder = Command::new("unshare")
            .args(["--net", "sleep", "600"])
            .spawn()
            .ok()?;
        let pid = holder.id();
        let outside = Self {
            holder: Guard(holder),
            servers: Vec::new(),
            dir,
        };
        let mine = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
        let until = Instant::now() + PATIENCE;
        while std::fs::read_link(format!("/proc/{pid}/ns/net")).ok() == Some(mine.clone()) {
            assert!(Instant::now() < until);
            std::thread::sleep(Duration::from_millis(10));
        }
        // Addresses need not be asked about first, and this is no router,
        // whatever the host is.
        for (name, value) in [("accept_dad", "0"), ("forwarding", "0"), ("accept_ra", "1")] {
            for of in ["all", "default"] {
                std::fs::write(format!("/proc/sys/net/ipv6/conf/{of}/{name}"), value).ok();
            }
        }
        for n in 0..wires {
            let made = succeeds("ip", &format!("link add nic{n} type veth peer name sw{n}"))
                && succeeds("ip", &format!("link set sw{n} netns {pid}"));
            if !made {
                eprintln!("skipped: no veth pairs");
                return None;
            }
        }
        outside.run("ip link set lo up");
        Some(outside)
    }

    /// Runs a command there.
    fn run(&self, line: &str) {
        let pid = self.holder.0.id();
        assert!(
            succeeds("nsenter", &format!("-t {pid} -n {line}")),
            "{line}"
        );
    }

    /// A server with these options; none where dnsmasq is not installed.
    fn dnsmasq(&mut self, options: &str) -> Option<()> {
        let log = self.log();
        let file = std::fs::File::options()
            .create(true)
            .append(true)
            .open(&log)
            .unwrap();
        let leases = self.leases();
        let pid = self.holder.0.id();
        let child = Command::new("nsenter")
            .args([
                "-t",
                &pid.to_string(),
                "-n",
                "dnsmasq",
                "--keep-in-foreground",
            ])
            .args([
                "--conf-file=/dev/null",
                "--port=0",
                "--no-ping",
                "--user=root",
            ])
            .args([
                "--bind-interfaces",
                "--log-facility=-",
                "--log-dhcp",
                "--pid-file=",
            ])
            .args(["--dhcp-authoritative", "--no-hosts"])
            .arg(format!("--dhcp-leasefile={}", leases.display()))
            .args(options.split_whitespace())
            .stderr(file)
            .spawn();
        match child {
            Ok(child) => {
                self.servers.push(Guard(child));
                Some(())
            }
            Err(error) => {
                eprintln!("skipped: no dnsmasq: {error}");
                None
            }
        }
    }

    fn log(&self) -> std::path::PathBuf {
        self.dir.path().join("dnsmasq.log")
    }

    fn leases(&self) -> std::path::PathBuf {
        self.dir.path().join("leases")
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }
}

/// The machine's NICs.
fn nics() -> Vec<Nic> {
    let is_ours = |nic: &Nic| nic.name.starts_with("nic");
    nic::list().into_iter().filter(is_ours).collect()
}

fn params(line: &str) -> Params {
    Params::from_words(Words::from_cmdline(line)).unwrap()
}

/// Runs in this thread, so that all stays in its namespace.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(work)
}

async fn up(params: &Params) {
    let network = tokio::time::timeout(PATIENCE, bring_up_of(params, nics));
    network.await.expect("the network came up").unwrap();
}

/// Addresses of an interface here that are not link-local.
fn addresses(name: &str) -> Vec<String> {
    let list = Command::new("ip")
        .args(["-o", "addr", "show", "dev", name, "scope", "global"])
        .output()
        .unwrap();
    let text = String::from_utf8(list.stdout).unwrap();
    let address = |line: &str| line.split_whitespace().nth(3).map(str::to_owned);
    text.lines().filter_map(address).collect()
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what} has not come");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn resolv_conf() -> String {
    std::fs::read_to_string("/etc/resolv.conf").unwrap()
}

async fn callback(url: &str) -> IpAddr {
    wrought_agent::net::source::toward(url).await.unwrap()
}

#[test]
fn no_dhcp_on_the_first_nic() {
    let Some(mut outside) = Outside::with_wires(2) else {
        return;
    };
    for command in [
        "ip link set sw0 up",
        "ip link set sw1 up",
        "ip addr add 192.0.2.1/24 dev sw1",
    ] {
        outside.run(command);
    }
    let served = outside.dnsmasq(
        "--interface=sw1 --dhcp-range=192.0.2.100,192.0.2.110,255.255.255.0,10m \
         --dhcp-option=option:router,192.0.2.1 --dhcp-option=option:dns-server,192.0.2.53",
    );
    if served.is_none() {
        return;
    }
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
    let Some(mut outside) = Outside::with_wires(2) else {
        return;
    };
    for command in [
        "ip link set sw0 up",
        "ip link set sw1 up",
        "ip addr add 203.0.113.1/24 dev sw0",
        "ip addr add 192.0.2.1/24 dev sw1",
    ] {
        outside.run(command);
    }
    // A network of BMCs, say: no router. The other answers later.
    let served = outside.dnsmasq(
        "--interface=sw0 --dhcp-range=203.0.113.100,203.0.113.110,255.255.255.0,10m \
         --dhcp-option=option:router",
    );
    if served.is_none() {
        return;
    }
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
    let Some(mut outside) = Outside::with_wires(1) else {
        return;
    };
    outside.run("ip link set sw0 up");
    outside.run("ip addr add 2001:db8::1/64 dev sw0 nodad");
    let served = outside.dnsmasq(
        "--interface=sw0 --enable-ra --dhcp-range=2001:db8::,ra-only,64,10m \
         --dhcp-option=option6:dns-server,[2001:db8::53] \
         --dhcp-option=option6:domain-search,example.org",
    );
    if served.is_none() {
        return;
    }
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
    let Some(mut outside) = Outside::with_wires(1) else {
        return;
    };
    outside.run("ip link set sw0 up");
    outside.run("ip addr add 2001:db8::1/64 dev sw0 nodad");
    // Not one address by autoconfiguration: the prefix is managed.
    let served = outside.dnsmasq(
        "--interface=sw0 --enable-ra --dhcp-range=2001:db8::100,2001:db8::100,64,10m \
         --dhcp-option=option6:dns-server,[2001:db8::53]",
    );
    if served.is_none() {
        return;
    }
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
    let Some(mut outside) = Outside::with_wires(1) else {
        return;
    };
    outside.run("ip addr add 192.0.2.1/24 dev sw0");
    let served = outside.dnsmasq(
        "--interface=sw0 --dhcp-range=192.0.2.100,192.0.2.100,255.255.255.0,10m \
         --dhcp-option=option:router,192.0.2.1",
    );
    if served.is_none() {
        return;
    }
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
        outside.servers.clear();
        std::fs::remove_file(outside.leases()).ok();
        outside.run("ip addr flush dev sw0");
        outside.run("ip addr add 203.0.113.1/24 dev sw0");
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

#[test]
fn static_addresses_by_network_data() {
    let Some(outside) = Outside::with_wires(2) else {
        return;
    };
    outside.run("ip link set sw0 up");
    outside.run("ip link set sw1 up");
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
    let Some(mut outside) = Outside::with_wires(2) else {
        return;
    };
    for command in [
        "ip link set sw0 up",
        "ip link set sw1 up",
        "ip addr add 203.0.113.1/24 dev sw0",
        "ip addr add 192.0.2.1/24 dev sw1",
    ] {
        outside.run(command);
    }
    let served = outside.dnsmasq(
        "--interface=sw0 --interface=sw1 --dhcp-option=option:router,192.0.2.1 \
         --dhcp-range=203.0.113.100,203.0.113.110,255.255.255.0,10m \
         --dhcp-range=192.0.2.100,192.0.2.110,255.255.255.0,10m",
    );
    if served.is_none() {
        return;
    }
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

/// How often the server has confirmed an address.
fn confirmations(outside: &Outside) -> usize {
    outside.said().matches("DHCPACK(").count()
}

#[test]
fn a_lease_is_renewed_while_a_write_blocks_threads() {
    let Some(mut outside) = Outside::with_wires(1) else {
        return;
    };
    outside.run("ip link set sw0 up");
    outside.run("ip addr add 192.0.2.1/24 dev sw0");
    // dnsmasq's shortest lease is two minutes: it is renewed after one.
    let served = outside.dnsmasq(
        "--interface=sw0 --dhcp-range=192.0.2.100,192.0.2.100,255.255.255.0,2m \
         --dhcp-option=option:router,192.0.2.1",
    );
    if served.is_none() {
        return;
    }
    let file = outside.dir.path().join("disk");
    block_on(async {
        up(&params("ipa-api-url=http://198.51.100.9:6385")).await;
        let first = confirmations(&outside);
        assert!(first >= 1);
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let writing = tokio::task::spawn_blocking(move || write_until(&file, &stopped));
        until("a renewal", || confirmations(&outside) > first).await;
        assert_eq!(addresses("nic0"), ["192.0.2.100/24"]);
        stop.send(()).unwrap();
        assert!(writing.await.unwrap() > 0);
    });
}

/// Writes the same MiB over and over; gives how often.
fn write_until(path: &Path, stopped: &std::sync::mpsc::Receiver<()>) -> u64 {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::create(path).unwrap();
    let mut count = 0;
    // A test that fails drops the other end.
    while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
        file.write_all_at(&[7; 1 << 20], 0).unwrap();
        count += 1;
        std::thread::sleep(Duration::from_millis(1));
    }
    count
}

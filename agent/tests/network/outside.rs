//! The other end of the machine's wires: a namespace with what serves there.

use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

use nix::mount::MsFlags;
use nix::mount::mount;
use nix::sched::CloneFlags;
use nix::sched::unshare;
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::getpid;
use nix::unistd::getppid;
use wrought_agent::net::bring_up::bring_up_of;
use wrought_agent::net::nic;
use wrought_agent::net::nic::Nic;
use wrought_agent::params::Params;
use wrought_agent::params::Words;

/// For anything to come, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// Ends a process with the test.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Starts a process that dies with the test's thread, also when the test is
/// killed.
fn start(command: &mut Command) -> std::io::Result<Guard> {
    let parent = getpid();
    // SAFETY: between fork and exec only prctl and getppid are called, which
    // are async-signal-safe and allocate nothing.
    unsafe {
        command.pre_exec(move || {
            prctl::set_pdeathsig(Signal::SIGKILL)?;
            if getppid() != parent {
                return Err(std::io::ErrorKind::NotConnected.into());
            }
            Ok(())
        });
    }
    command.spawn().map(Guard)
}

fn succeeds(program: &str, line: &str) -> bool {
    let ran = Command::new(program)
        .args(line.split_whitespace())
        .stderr(Stdio::null())
        .status();
    ran.is_ok_and(|status| status.success())
}

/// What is on the other end of the machine's wires.
pub(crate) struct Outside {
    /// Holds the namespace.
    holder: Guard,
    /// Servers in it.
    servers: Vec<Guard>,
    dir: tempfile::TempDir,
}

impl Outside {
    /// A namespace with wires to this thread's, one for each of the addresses:
    /// `nicN` here, `swN` there with its address, if that is not empty. None
    /// where that is not possible.
    pub(crate) fn with(wires: &[&str]) -> Option<Self> {
        // Only this thread moves; all sockets and children below are its own.
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS) {
            eprintln!("skipped: no namespaces: {error}");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        if !mounts(dir.path()) {
            return None;
        }
        let mut holder = Command::new("unshare");
        let holder = start(holder.args(["--net", "sleep", "600"])).ok()?;
        let outside = Self {
            holder,
            servers: Vec::new(),
            dir,
        };
        let (pid, theirs) = (outside.holder.0.id(), outside.namespace());
        let mine = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
        let until = Instant::now() + PATIENCE;
        while std::fs::read_link(&theirs).ok() == Some(mine.clone()) {
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
        for (n, address) in wires.iter().enumerate() {
            let made = succeeds("ip", &format!("link add nic{n} type veth peer name sw{n}"))
                && succeeds("ip", &format!("link set sw{n} netns {pid}"));
            if !made {
                eprintln!("skipped: no veth pairs");
                return None;
            }
            outside.run(&format!("ip link set sw{n} up"));
            if !address.is_empty() {
                outside.address(&format!("sw{n}"), address);
            }
        }
        outside.run("ip link set lo up");
        Some(outside)
    }

    /// The same with a DHCP server that has these options.
    pub(crate) fn serving(wires: &[&str], options: &str) -> Option<Self> {
        let mut outside = Self::with(wires)?;
        outside.dnsmasq(options)?;
        Some(outside)
    }

    /// The namespace's file.
    pub(crate) fn namespace(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/ns/net", self.holder.0.id()))
    }

    /// A folder that goes with it.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Runs a command there.
    pub(crate) fn run(&self, line: &str) {
        let pid = self.holder.0.id();
        assert!(
            succeeds("nsenter", &format!("-t {pid} -n {line}")),
            "{line}"
        );
    }

    /// Gives an interface there an address.
    pub(crate) fn address(&self, interface: &str, address: &str) {
        let at_once = if address.contains(':') { "nodad" } else { "" };
        self.run(&format!("ip addr add {address} dev {interface} {at_once}"));
    }

    /// A server with these options; none where dnsmasq is not installed.
    pub(crate) fn dnsmasq(&mut self, options: &str) -> Option<()> {
        let file = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.log())
            .unwrap();
        let pid = self.holder.0.id();
        // In debug mode it changes neither user nor group, after which the kernel
        // would not end it with us.
        let line = format!(
            "-t {pid} -n dnsmasq --no-daemon --conf-file=/dev/null --port=0 --no-ping \
             --bind-interfaces --log-facility=- --log-dhcp --pid-file= --dhcp-authoritative \
             --no-hosts {options}"
        );
        let mut command = Command::new("nsenter");
        command
            .args(line.split_whitespace())
            .arg(format!("--dhcp-leasefile={}", self.leases().display()))
            .stderr(file);
        match start(&mut command) {
            Ok(server) => {
                self.servers.push(server);
                Some(())
            }
            Err(error) => {
                eprintln!("skipped: no dnsmasq: {error}");
                None
            }
        }
    }

    /// Ends all servers, and what they know is gone.
    pub(crate) fn end_servers(&mut self) {
        self.servers.clear();
        std::fs::remove_file(self.leases()).ok();
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("dnsmasq.log")
    }

    fn leases(&self) -> PathBuf {
        self.dir.path().join("leases")
    }

    /// What the servers have logged.
    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }

    /// How often a server has confirmed an address.
    pub(crate) fn confirmations(&self) -> usize {
        self.said().matches("DHCPACK(").count()
    }
}

/// Mounts what is this namespace's own: its interfaces in sysfs, and a
/// resolver's file.
fn mounts(dir: &Path) -> bool {
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
    let resolv = dir.join("resolv.conf");
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
    }
    bound.is_ok() && shown.is_ok()
}

/// The machine's NICs.
pub(crate) fn nics() -> Vec<Nic> {
    let is_ours = |nic: &Nic| nic.name.starts_with("nic");
    nic::list().into_iter().filter(is_ours).collect()
}

/// The agent's parameters of a kernel command line.
pub(crate) fn params(line: &str) -> Params {
    Params::from_words(Words::from_cmdline(line)).unwrap()
}

/// Runs in this thread, so that all stays in its namespace.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(work)
}

/// Brings the machine's network up.
pub(crate) async fn up(params: &Params) {
    let network = tokio::time::timeout(PATIENCE, bring_up_of(params, nics));
    network.await.expect("the network came up").unwrap();
}

/// Addresses of an interface here that are not link-local.
pub(crate) fn addresses(name: &str) -> Vec<String> {
    let list = Command::new("ip")
        .args(["-o", "addr", "show", "dev", name, "scope", "global"])
        .output()
        .unwrap();
    let text = String::from_utf8(list.stdout).unwrap();
    let address = |line: &str| line.split_whitespace().nth(3).map(str::to_owned);
    text.lines().filter_map(address).collect()
}

/// Waits until something holds.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what} has not come");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The machine's resolver's file.
pub(crate) fn resolv_conf() -> String {
    std::fs::read_to_string("/etc/resolv.conf").unwrap()
}

/// The address by which the machine goes to this URL.
pub(crate) async fn callback(url: &str) -> IpAddr {
    wrought_agent::net::source::toward(url).await.unwrap()
}

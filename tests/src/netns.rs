//! The network that a world lives in.
//!
//! The harness puts *itself* into a new unnamed network namespace before it
//! starts its first thread. Everything it opens and every child it starts is
//! then inside, nothing can collide with another run, and the kernel takes
//! the bridge and the taps away with the last process. One listener is bound
//! on the host's loopback before, for people and clients outside.

use std::io::Write;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::process::Command;
use std::process::Stdio;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use nix::sched::CloneFlags;
use nix::sched::unshare;
use nix::unistd::getgid;
use nix::unistd::getuid;

use crate::Unavailable;

/// The harness's own address on the bridge.
pub const HOST: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// First and last address that DHCP gives out.
pub const DHCP_RANGE: (Ipv4Addr, Ipv4Addr) =
    (Ipv4Addr::new(10, 77, 0, 100), Ipv4Addr::new(10, 77, 0, 199));
/// Name of the bridge inside the namespace.
pub const BRIDGE: &str = "br0";

/// A listener on the host's loopback, bound before the namespace is entered.
#[derive(Debug)]
pub struct HostPort(TcpListener);

impl HostPort {
    /// Binds 127.0.0.1 on `port`, or on any free one for 0.
    pub fn bind(port: u16) -> Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listener =
            TcpListener::bind(address).with_context(|| format!("listening on {address}"))?;
        listener.set_nonblocking(true)?;
        Ok(Self(listener))
    }

    /// The address that people on the host connect to.
    pub fn address(&self) -> Result<SocketAddr> {
        Ok(self.0.local_addr()?)
    }

    /// Passes every connection on to `target` inside the namespace.
    pub fn forward(self, target: SocketAddr) -> Result<()> {
        let listener = tokio::net::TcpListener::from_std(self.0)?;
        tokio::spawn(async move {
            while let Ok((mut outside, _)) = listener.accept().await {
                tokio::spawn(async move {
                    if let Ok(mut inside) = tokio::net::TcpStream::connect(target).await {
                        // Either side may simply go away; the other then
                        // sees its connection close.
                        tokio::io::copy_bidirectional(&mut outside, &mut inside)
                            .await
                            .ok();
                    }
                });
            }
        });
        Ok(())
    }
}

/// Moves this process into a new network namespace with loopback and a
/// bridge. Must run before any other thread exists.
pub fn enter() -> Result<()> {
    if getuid().is_root() {
        unshare(CloneFlags::CLONE_NEWNET)
            .context("creating a network namespace (needs CAP_SYS_ADMIN)")?;
    } else {
        enter_user_namespace()?;
    }
    ip(&format!(
        "link set lo up\n\
         link add {BRIDGE} address 52:54:00:77:00:01 type bridge\n\
         addr add {HOST}/24 dev {BRIDGE}\n\
         link set {BRIDGE} up\n"
    ))
}

/// Creates a tap on the bridge.
pub fn add_tap(name: &str) -> Result<()> {
    ip(&format!(
        "tuntap add dev {name} mode tap\nlink set {name} master {BRIDGE} up\n"
    ))
    .with_context(|| {
        format!("creating the tap {name} (needs read and write access to /dev/net/tun)")
    })
}

/// The same for a user who is not root, as root of a user namespace of his own.
fn enter_user_namespace() -> Result<()> {
    let (uid, gid) = (getuid(), getgid());
    if let Err(errno) = unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET) {
        bail!(Unavailable(format!(
            "creating a user and network namespace failed ({errno}); run as root, or allow \
             unprivileged user namespaces"
        )));
    }
    // Group mapping is only allowed once setgroups is denied (user_namespaces(7)).
    std::fs::write("/proc/self/setgroups", "deny").context("denying setgroups")?;
    std::fs::write("/proc/self/uid_map", format!("0 {uid} 1")).context("mapping the user")?;
    std::fs::write("/proc/self/gid_map", format!("0 {gid} 1")).context("mapping the group")?;
    Ok(())
}

/// Runs a batch of iproute2 commands.
fn ip(batch: &str) -> Result<()> {
    let mut child = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| Unavailable(format!("`ip` (package iproute2) cannot be run: {error}")))?;
    child
        .stdin
        .take()
        .context("no pipe to ip")?
        .write_all(batch.as_bytes())?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!(
            "`ip` failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}

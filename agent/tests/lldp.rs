//! LLDP frames over a veth pair in a network namespace that dies with this test.
//! Skipped, with a line that says so, where that is not possible.

#![allow(clippy::unwrap_used, reason = "helpers of tests, not only tests")]

use std::os::fd::AsRawFd;
use std::os::fd::FromRawFd;
use std::os::fd::OwnedFd;
use std::process::Command;
use std::time::Duration;
use std::time::Instant;

use nix::sched::CloneFlags;
use nix::sched::unshare;
use wrought_agent::net::lldp::listen;
use wrought_agent::net::mac::Mac;
use wrought_agent::net::nic::Nic;

fn ip(line: &str) -> bool {
    let ran = Command::new("ip").args(line.split(' ')).status();
    ran.is_ok_and(|status| status.success())
}

fn nic(name: &str) -> Nic {
    Nic {
        name: name.to_owned(),
        index: nix::net::if_::if_nametoindex(name).unwrap(),
        mac: Mac([0x52, 0x54, 0, 0, 0, 1]),
        permanent_mac: None,
        physical: true,
        stacked: false,
    }
}

/// Puts a frame on the wire.
fn send(index: u32, frame: &[u8]) {
    // SAFETY: a plain system call without pointers.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    assert!(fd >= 0);
    // SAFETY: the descriptor is new and belongs to nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: an all-zero sockaddr_ll is a valid value of that plain C struct.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_ifindex = index as i32;
    // SAFETY: both pointers and lengths are those of live values.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            frame.as_ptr().cast(),
            frame.len(),
            0,
            (&raw const address).cast(),
            size_of_val(&address) as u32,
        )
    };
    assert_eq!(sent, frame.len() as isize);
}

#[test]
fn one_frame_of_each_switch_and_no_longer_than_asked_for() {
    // Only this thread moves; all sockets and children below are its own.
    if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
        eprintln!("skipped: no network namespace: {error}");
        return;
    }
    let made =
        ip("link add sw0 type veth peer name nic0") && ip("link add sw1 type veth peer name nic1");
    if !made {
        eprintln!("skipped: no veth pairs");
        return;
    }
    for name in ["sw0", "nic0", "sw1", "nic1"] {
        assert!(ip(&format!("link set {name} up")));
    }
    let nics = [nic("nic0"), nic("nic1")];
    // To the address for LLDP, of its type: chassis, the end, padding.
    let mut frame = vec![
        0x01, 0x80, 0xc2, 0, 0, 0x0e, 0x52, 0x54, 0, 0, 0, 9, 0x88, 0xcc,
    ];
    frame.extend([0x02, 7, 4, 0x52, 0x54, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
    let (from, own) = (nic("sw0").index, nic("nic1").index);
    let sent = frame.clone();
    std::thread::scope(|scope| {
        // Until the listener is gone: it may not be there yet.
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let netns = std::fs::File::open("/proc/thread-self/ns/net").unwrap();
        scope.spawn(move || {
            nix::sched::setns(netns, CloneFlags::CLONE_NEWNET).unwrap();
            while stopped.recv_timeout(Duration::from_millis(50)).is_err() {
                send(from, &sent);
                // What we send ourselves is nothing that a switch says.
                send(own, &sent);
            }
        });
        let begun = Instant::now();
        let heard = listen(&nics, Duration::from_secs(2));
        stop.send(()).unwrap();
        assert!(begun.elapsed() >= Duration::from_secs(2), "one never hears");
        let expected = vec![(1, "04525400000009".to_owned()), (0, String::new())];
        assert_eq!(heard["nic0"], expected);
        assert_eq!(heard["nic1"], []);
        // All have heard: over at once.
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let netns = std::fs::File::open("/proc/thread-self/ns/net").unwrap();
        scope.spawn(move || {
            nix::sched::setns(netns, CloneFlags::CLONE_NEWNET).unwrap();
            while stopped.recv_timeout(Duration::from_millis(50)).is_err() {
                send(from, &frame);
            }
        });
        let begun = Instant::now();
        let heard = listen(&nics[..1], Duration::from_secs(120));
        stop.send(()).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(100));
        assert_eq!(heard["nic0"], expected);
    });
}

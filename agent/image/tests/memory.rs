//! Memory does not depend on the size of the image. Alone in its binary:
//! the figure is the peak of the whole process.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod support;

use std::fs;
use std::fs::File;
use std::process::Command;

use support::qemu_img;
use support::server::Answer;
use support::server::Body;
use support::server::Server;
use wrought_image::WriteRequest;
use wrought_image::write;

/// Peak resident memory of this process in bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    line.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        * 1024
}

/// Twenty GiB of disk, sparse, with its L1 table behind the data; from a
/// server without ranges.
#[test]
fn a_sparse_image_of_20_gib_needs_no_more_than_a_small_one() {
    if !qemu_img(&["--version"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for (options, size, grown) in [
        ("cluster_size=65536", "20G", None),
        ("cluster_size=4096", "4G", Some("20G")),
        ("cluster_size=2097152", "20G", None),
    ] {
        let qcow2 = dir.path().join("image.qcow2");
        let name = qcow2.to_str().unwrap();
        qemu_img(&["create", "-f", "qcow2", "-o", options, name, size]);
        let table = dir.path().join("table.raw");
        fs::write(&table, support::disk(2 << 20, 1)).unwrap();
        let mut command = Command::new("qemu-io");
        command.args(["-f", "qcow2"]);
        // The table's head, then data all over the disk.
        command.args(["-c", &format!("write -s {} 0 1M", table.display())]);
        for index in 1..40u64 {
            command.args([
                "-c",
                &format!("write -P {index} {} 1M", (index * 100) << 20),
            ]);
        }
        assert!(command.arg(&qcow2).output().unwrap().status.success());
        if let Some(grown) = grown {
            qemu_img(&["resize", name, grown]);
        }
        let plan = |_| Answer {
            ranges: false,
            ..Answer::default()
        };
        let server = Server::start(Body::File(File::open(&qcow2).unwrap()), plan);
        let output = Command::new("sha256sum").arg(&qcow2).output().unwrap();
        let sum = String::from_utf8(output.stdout).unwrap();
        let target = dir.path().join("disk");
        let mut request = WriteRequest::new(&server.url, &target);
        request.checksum = sum.split(' ').next().map(str::to_owned);
        let report = write(&request).unwrap();
        assert_eq!(report.bytes_out, 20 << 30);
        assert_eq!(report.bytes_refetched > 0, grown.is_some());
        let peak = peak();
        assert!(peak < 64 << 20, "{options}: the peak is {peak} bytes");
        fs::remove_file(&target).unwrap();
        fs::remove_file(&qcow2).unwrap();
    }
}

//! Large sparse qcow2 images in every order from a server without ranges:
//! the bytes are right and the memory stays what it is for small ones. Each
//! write is a process of its own, whose peak is its own.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod support;

use std::fs;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use support::MIB;
use support::Random;
use support::put_mbr;
use support::qcow2;
use support::qcow2::Layout;
use support::qcow2::Tables;
use support::qemu_img;
use support::server::Answer;
use support::server::Body;
use support::server::Server;
use wrought_image::WriteRequest;
use wrought_image::write;

const GIB: u64 = 1 << 30;
/// What a whole process may need.
const MOST: u64 = 64 << 20;
/// Tells the child what to write: source, checksum and target.
const TASK: &str = "WROUGHT_TEST_NORANGE";

/// Not a test by itself: what the others run as a process of its own.
#[test]
fn child() {
    let Ok(task) = std::env::var(TASK) else {
        return;
    };
    let mut words = task.split(' ');
    let mut next = || words.next().unwrap();
    let (source, checksum) = (next(), next());
    let mut request = WriteRequest::new(source, next());
    request.checksum = Some(checksum.to_owned());
    let report = match write(&request) {
        Ok(report) => report,
        Err(error) => panic!("{}", error.chain()),
    };
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM:"));
    let peak = peak.unwrap().split_whitespace().nth(1).unwrap().to_owned();
    println!(
        "child: {peak} {} {}",
        report.bytes_out, report.bytes_refetched
    );
}

/// Writes the image in a child; its peak of memory and how much it read
/// twice, both in bytes.
fn write_in_child(image: &Path, target: &Path, size: u64) -> (u64, u64) {
    let plan = |_| Answer {
        ranges: false,
        ..Answer::default()
    };
    let server = Server::start(Body::File(File::open(image).unwrap()), plan);
    // The folder may be below /dev, where no file is made.
    fs::write(target, b"").unwrap();
    let sum = Command::new("sha256sum").arg(image).output().unwrap();
    let sum = String::from_utf8(sum.stdout).unwrap();
    let task = format!("{} {} {}", server.url, &sum[..64], target.display());
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(TASK, task)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complaint}");
    let line = said
        .lines()
        .find_map(|line| Some(line.split_once("child: ")?.1));
    let numbers: Vec<u64> = line
        .unwrap()
        .split(' ')
        .map(|number| number.parse().unwrap())
        .collect();
    assert_eq!(numbers[1], size);
    (numbers[0] * 1024, numbers[2])
}

/// Clusters all over a disk of `size` bytes, with a table in the first.
fn scattered(size: u64, cluster: usize, count: u64, random: &mut Random) -> Vec<(u64, Vec<u8>)> {
    let all = size / cluster as u64;
    let mut numbers: Vec<u64> = (0..count).map(|_| random.below(all)).collect();
    numbers.extend([0, all - 1]);
    numbers.sort_unstable();
    numbers.dedup();
    let filled = |number: u64| {
        let mut bytes = vec![0; cluster];
        random.fill(&mut bytes);
        if number == 0 {
            put_mbr(&mut bytes, 1);
        }
        (number, bytes)
    };
    numbers.into_iter().map(filled).collect()
}

/// Whether the disk holds exactly these clusters and zeroes, without reading
/// the holes.
fn holds(disk: &Path, cluster: usize, clusters: &[(u64, Vec<u8>)]) -> bool {
    let file = File::open(disk).unwrap();
    let size = file.metadata().unwrap().len();
    let mut buf = vec![0; MIB];
    let mut expected = vec![0; MIB];
    let mut at = 0;
    while let Some(data) = seek_data(&file, at) {
        let start = data / MIB as u64 * MIB as u64;
        let len = (size - start).min(MIB as u64) as usize;
        file.read_exact_at(&mut buf[..len], start).unwrap();
        fill(&mut expected[..len], start, cluster, clusters);
        if buf[..len] != expected[..len] {
            return false;
        }
        at = start + len as u64;
    }
    // A cluster in a hole is zero on the disk, and none of these is.
    clusters.iter().all(|(number, bytes)| {
        let mut found = vec![0; cluster.min(bytes.len())];
        file.read_exact_at(&mut found, number * cluster as u64)
            .unwrap();
        found == *bytes
    })
}

/// What the disk holds from `start` on.
fn fill(out: &mut [u8], start: u64, cluster: usize, clusters: &[(u64, Vec<u8>)]) {
    out.fill(0);
    let end = start + out.len() as u64;
    let first = clusters.partition_point(|(number, _)| (number + 1) * cluster as u64 <= start);
    for (number, bytes) in &clusters[first..] {
        let at = number * cluster as u64;
        if at >= end {
            break;
        }
        let from = start.saturating_sub(at) as usize;
        let place = at.saturating_sub(start) as usize;
        let len = (bytes.len() - from).min(out.len() - place);
        out[place..place + len].copy_from_slice(&bytes[from..from + len]);
    }
}

/// The first byte at or behind `at` that is not in a hole.
fn seek_data(file: &File, at: u64) -> Option<u64> {
    let whence = nix::unistd::Whence::SeekData;
    let found = nix::unistd::lseek(file, at as i64, whence).ok()?;
    Some(found as u64)
}

#[test]
fn every_order_of_a_large_image_needs_the_memory_of_a_small_one() {
    let dir = support::memory_dir();
    let mut random = Random::new(20);
    for (bits, size, count, tables, packed) in [
        (16, 20 * GIB, 600, Tables::Last, false),
        (16, 20 * GIB, 600, Tables::Mixed, true),
        (12, 20 * GIB, 1500, Tables::Last, false),
        (21, 20 * GIB, 24, Tables::Last, false),
        (9, 4 * GIB, 5000, Tables::Last, false),
        (9, 4 * GIB, 5000, Tables::Mixed, true),
    ] {
        let cluster = 1 << bits;
        let clusters = scattered(size, cluster, count, &mut random);
        let layout = Layout {
            cluster_bits: bits,
            tables,
            packed,
            seed: Some(5),
        };
        let (image, target) = (dir.path().join("image"), dir.path().join("disk"));
        fs::write(&image, qcow2::image(layout, size, &clusters)).unwrap();
        let (peak, again) = write_in_child(&image, &target, size);
        eprintln!(
            "{layout:?}: peak {} KiB, {again} bytes read again",
            peak / 1024
        );
        assert!(peak <= MOST, "{layout:?}: the peak is {peak} bytes");
        assert!(again > 0, "{layout:?}: nothing was read again");
        assert!(holds(&target, cluster, &clusters), "{layout:?}");
        fs::remove_file(&target).unwrap();
    }
}

/// As QEMU itself makes them: grown, so that the L1 table lies behind the
/// data, with snapshots, overwritten and discarded in parts.
#[test]
fn an_image_that_was_long_in_use_needs_no_more() {
    if !qemu_img(&["--version"]) {
        return;
    }
    let dir = support::memory_dir();
    let (image, target) = (dir.path().join("image"), dir.path().join("disk"));
    let name = image.to_str().unwrap();
    let first = dir.path().join("first");
    let mut head = vec![0; MIB];
    put_mbr(&mut head, 2);
    fs::write(&first, &head).unwrap();
    for (options, start) in [
        ("cluster_size=65536", 2 * GIB),
        ("cluster_size=65536,extended_l2=on", 2 * GIB),
        ("cluster_size=4096", GIB),
    ] {
        let start_text = start.to_string();
        qemu_img(&["create", "-f", "qcow2", "-o", options, name, &start_text]);
        let mut random = Random::new(start);
        let mut io = |end: u64, table: bool| {
            let mut command = Command::new("qemu-io");
            command.args(["-f", "qcow2", "-d", "unmap"]);
            if table {
                command.args(["-c", &format!("write -s {} 0 1M", first.display())]);
            }
            for _ in 0..60 {
                let at = MIB as u64 + random.below(end - 4 * MIB as u64) / 512 * 512;
                let len = 512 << random.below(11);
                let line = match random.below(5) {
                    0 => format!("discard {at} {len}"),
                    1 => format!("write -z {at} {len}"),
                    _ => format!("write -P {} {at} {len}", random.below(255) + 1),
                };
                command.args(["-c", &line]);
            }
            let output = command.arg(&image).output().unwrap();
            assert!(output.status.success(), "{output:?}");
        };
        io(start, true);
        qemu_img(&["resize", name, "20G"]);
        io(20 * GIB, false);
        qemu_img(&["snapshot", "-c", "one", name]);
        io(20 * GIB, false);
        qemu_img(&["snapshot", "-c", "two", name]);
        io(20 * GIB, false);
        qemu_img(&["snapshot", "-a", "one", name]);
        io(20 * GIB, false);
        let (peak, again) = write_in_child(&image, &target, 20 * GIB);
        eprintln!(
            "{options}: peak {} KiB, {again} bytes read again",
            peak / 1024
        );
        assert!(peak <= MOST, "{options}: the peak is {peak} bytes");
        assert!(again > 0, "{options}: nothing was read again");
        let target_name = target.to_str().unwrap();
        qemu_img(&["compare", "-f", "raw", "-F", "qcow2", target_name, name]);
        fs::remove_file(&target).unwrap();
    }
}

//! qcow2 images against `qemu-img convert -O raw`.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod support;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use support::MIB;
use support::Random;
use support::disk;
use support::ends_are_zero;
use support::qemu_img;
use support::request;
use support::server::Answer;
use support::server::Body;
use support::server::Server;
use support::used_disk;
use wrought_image::ErrorKind;
use wrought_image::Format;
use wrought_image::write;

/// Writes `qcow2` in several ways and compares with what QEMU makes of it.
fn compare(dir: &Path, qcow2: &Path, label: &str) {
    let name = qcow2.to_str().unwrap();
    let oracle = dir.join("oracle.raw");
    qemu_img(&["convert", "-O", "raw", name, oracle.to_str().unwrap()]);
    let expected = fs::read(&oracle).unwrap();
    let image = fs::read(qcow2).unwrap();
    let server = |ranges| {
        let plan = move |_| Answer {
            ranges,
            ..Answer::default()
        };
        Server::start(Body::Bytes(image.clone()), plan)
    };
    let chunked = Server::start(Body::Bytes(image.clone()), |_| Answer {
        chunked: true,
        ..Answer::default()
    });
    let (ranged, plain) = (server(true), server(false));
    let targets = tempfile::tempdir().unwrap();
    // A cluster of 2 MiB packed with zstd is joined before it is decoded.
    let least = if label.starts_with("compression_type=zstd,cluster_size=2097152") {
        32
    } else {
        24
    };
    let sources = [
        ("file", name, 48, true),
        ("ranges", &ranged.url, 48, false),
        ("no ranges", &plain.url, least, true),
        ("chunked", &chunked.url, 64, false),
    ];
    for (kind, source, memory, used) in sources {
        let target = if used {
            used_disk(targets.path(), expected.len())
        } else {
            targets.path().join("new")
        };
        let mut request = request(source, &target, &image);
        request.verify_after_write = used;
        request.memory = memory << 20;
        let report = match write(&request) {
            Ok(report) => report,
            Err(error) => panic!("{label}, {kind}: {}", error.chain()),
        };
        assert_eq!(report.format, Format::Qcow2);
        let written = fs::read(&target).unwrap();
        if written != expected {
            let differs = written.iter().zip(&expected).position(|(a, b)| a != b);
            panic!("{label}, {kind}: first difference at {differs:?}");
        }
        fs::remove_file(&target).unwrap();
    }
}

/// Overwrites and discards parts of an image, so that its clusters are out
/// of order.
fn scramble(qcow2: &Path, size: usize, random: &mut Random) {
    let mut command = Command::new("qemu-io");
    command.args(["-f", "qcow2", "-d", "unmap"]);
    for _ in 0..24 {
        let at = MIB as u64 + random.below((size - 2 * MIB) as u64) / 512 * 512;
        let len = (512 << random.below(9)).min(size as u64 - MIB as u64 - at);
        let text = match random.below(4) {
            0 => format!("write -z {at} {len}"),
            1 => format!("discard {at} {len}"),
            _ => format!("write -P {} {at} {len}", random.below(255) + 1),
        };
        command.args(["-c", &text]);
    }
    let output = command.arg(qcow2).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn written_bytes_equal_those_of_qemu() {
    if !qemu_img(&["--version"]) {
        return;
    }
    let mut random = Random::new(99);
    let cases: &[(&str, &[&str])] = &[
        ("cluster_size=65536", &[]),
        ("cluster_size=65536", &["-c"]),
        ("cluster_size=512", &[]),
        ("cluster_size=512", &["-c"]),
        ("cluster_size=4096", &["-c"]),
        ("cluster_size=2097152", &[]),
        ("cluster_size=2097152", &["-c"]),
        ("compat=0.10", &[]),
        ("compat=0.10,cluster_size=8192", &["-c"]),
        ("lazy_refcounts=on,refcount_bits=64", &[]),
        ("refcount_bits=1,cluster_size=16384", &["-c"]),
        ("extended_l2=on,cluster_size=32768", &[]),
        ("extended_l2=on", &["-c"]),
        ("compression_type=zstd", &["-c"]),
        ("compression_type=zstd,cluster_size=512", &["-c"]),
        ("compression_type=zstd,cluster_size=4096", &["-c"]),
        ("compression_type=zstd,cluster_size=2097152", &["-c"]),
        ("compression_type=zstd,extended_l2=on", &["-c"]),
        ("preallocation=metadata", &[]),
    ];
    for (number, (options, flags)) in cases.iter().enumerate() {
        let dir = support::memory_dir();
        let size = 5 * MIB + 512 * number;
        let raw = dir.path().join("in.raw");
        fs::write(&raw, disk(size, number as u64)).unwrap();
        let qcow2 = dir.path().join("image.qcow2");
        let mut args = vec!["convert", "-f", "raw", "-O", "qcow2", "-o", options];
        args.extend_from_slice(flags);
        args.extend([raw.to_str().unwrap(), qcow2.to_str().unwrap()]);
        qemu_img(&args);
        compare(dir.path(), &qcow2, &format!("{options} {flags:?}"));
        scramble(&qcow2, size, &mut random);
        let name = qcow2.to_str().unwrap();
        if options.contains("compat=0.10") || options.contains("refcount_bits=1,") {
            continue;
        }
        qemu_img(&["snapshot", "-c", "before", name]);
        scramble(&qcow2, size, &mut random);
        compare(
            dir.path(),
            &qcow2,
            &format!("{options} {flags:?}, scrambled"),
        );
    }
}

#[test]
fn tables_behind_their_data_are_fetched_again() {
    if !qemu_img(&["--version"]) {
        return;
    }
    let dir = support::memory_dir();
    let raw = dir.path().join("in.raw");
    fs::write(&raw, disk(12 * MIB, 1)).unwrap();
    let qcow2 = dir.path().join("image.qcow2");
    let (raw, name) = (raw.to_str().unwrap(), qcow2.to_str().unwrap());
    qemu_img(&[
        "convert",
        "-O",
        "qcow2",
        "-o",
        "cluster_size=1024",
        raw,
        name,
    ]);
    // Growing the disk moves the L1 table to the end of the file.
    qemu_img(&["resize", name, "24M"]);
    qemu_img(&["resize", "--shrink", name, "12M"]);
    compare(dir.path(), &qcow2, "resized");
    let image = fs::read(&qcow2).unwrap();
    let l1 = u64::from_be_bytes(image[40..48].try_into().unwrap());
    assert!(l1 > 1 << 20, "the L1 table is at {l1}");

    let server = Server::plain(image.clone());
    let targets = tempfile::tempdir().unwrap();
    let target = targets.path().join("new");
    let report = write(&request(&server.url, &target, &image)).unwrap();
    assert!(report.bytes_refetched > 0);

    // A server that changes a byte between the passes is found out: of
    // every byte that is read again.
    let first_data = 5 << 20;
    for ranges in [true, false] {
        let plan = move |number| Answer {
            ranges,
            corrupt: (number > 0).then_some(first_data),
            ..Answer::default()
        };
        let server = Server::start(Body::Bytes(image.clone()), plan);
        let target = used_disk(targets.path(), 12 * MIB);
        let error = write(&request(&server.url, &target, &image)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Source, "{}", error.chain());
        assert!(
            error
                .to_string()
                .contains("other bytes when it was read again"),
            "{error}"
        );
        assert!(ends_are_zero(&target));
    }
}

#[test]
fn what_is_damaged_or_foreign_is_refused() {
    if !qemu_img(&["--version"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().join("base.qcow2");
    let over = dir.path().join("over.qcow2");
    let (base_name, over_name) = (base.to_str().unwrap(), over.to_str().unwrap());
    let raw = dir.path().join("in.raw");
    fs::write(&raw, disk(6 * MIB, 3)).unwrap();
    let raw = raw.to_str().unwrap();
    let refuse = |path: &Path, word: &str| {
        let image = fs::read(path).unwrap();
        let target = used_disk(dir.path(), 8 * MIB);
        let error = write(&request(path.to_str().unwrap(), &target, &image)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Format, "{}", error.chain());
        assert!(error.chain().contains(word), "{word}: {}", error.chain());
        assert!(ends_are_zero(&target));
    };
    qemu_img(&["convert", "-c", "-O", "qcow2", raw, base_name]);
    qemu_img(&[
        "create", "-f", "qcow2", "-F", "qcow2", "-b", base_name, over_name,
    ]);
    refuse(&over, "base.qcow2");
    // An L2 entry outside the file; a damaged compressed cluster.
    let image = fs::read(&base).unwrap();
    let at = |offset: usize| u64::from_be_bytes(image[offset..offset + 8].try_into().unwrap());
    let l2 = at(at(40) as usize) & 0x00ff_ffff_ffff_fe00;
    let patch = |offset: u64, bytes: &[u8]| {
        fs::copy(&base, &over).unwrap();
        let file = fs::OpenOptions::new().write(true).open(&over).unwrap();
        file.write_all_at(bytes, offset).unwrap();
    };
    patch(l2 + 16 * 8, &(0x8000_0000_4000_0000_u64).to_be_bytes());
    refuse(&over, "past the end of the file");
    let data = at(l2 as usize) & ((1 << 54) - 1);
    patch(data, &[0xff; 64]);
    refuse(&over, "cannot be inflated");
    let zstd = dir.path().join("zstd.qcow2");
    let zstd_name = zstd.to_str().unwrap();
    qemu_img(&[
        "convert",
        "-c",
        "-O",
        "qcow2",
        "-o",
        "compression_type=zstd",
        raw,
        zstd_name,
    ]);
    let mut packed = fs::read(&zstd).unwrap();
    let first = packed
        .windows(4)
        .position(|bytes| bytes == b"\x28\xb5\x2f\xfd")
        .unwrap();
    packed[first + 8..first + 72].fill(0xff);
    fs::write(&over, &packed).unwrap();
    refuse(&over, "cannot be decoded as zstd");
    patch(40, &0_u64.to_be_bytes());
    refuse(&over, "lies on the header");
    // Cut in the middle of its clusters.
    fs::write(&over, &image[..image.len() / 2]).unwrap();
    refuse(&over, "past the end of the file");
}

//! Images that are compressed as a whole, by the formats' own commands.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod support;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::process::Stdio;

use support::MIB;
use support::disk;
use support::ends_are_zero;
use support::qemu_img;
use support::request;
use support::server::Answer;
use support::server::Body;
use support::server::Server;
use support::used_disk;
use wrought_image::DiskState;
use wrought_image::ErrorKind;
use wrought_image::Format;
use wrought_image::Stage;
use wrought_image::write;

const SIZE: usize = 8 * MIB;

/// Runs a compressor on `input`.
fn pack(command: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = Command::new(command[0])
        .args(&command[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{} (cargo xtask setup): {error}", command[0]));
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input).unwrap());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        output.stdout
    })
}

const KINDS: &[(&[&str], Format)] = &[
    (&["gzip", "-1", "-c"], Format::Gzip),
    (&["zstd", "-q", "-3", "-c"], Format::Zstd),
    (&["xz", "-0", "-c"], Format::Xz),
    (&["bzip2", "-1", "-c"], Format::Bzip2),
];

/// A qcow2 image of `raw` that grew: more data than is held in memory lies
/// before the L1 table.
fn qcow2(dir: &Path, raw: &[u8]) -> Vec<u8> {
    let (from, to) = (dir.join("in.raw"), dir.join("in.qcow2"));
    fs::write(&from, raw).unwrap();
    let name = to.to_str().unwrap();
    assert!(qemu_img(&[
        "create",
        "-f",
        "qcow2",
        "-o",
        "cluster_size=512",
        name,
        "3M"
    ]));
    for (start, end) in [(0, 3 * MIB), (3 * MIB, raw.len())] {
        assert!(qemu_img(&["resize", "-f", "qcow2", name, &end.to_string()]));
        let part = dir.join("part.raw");
        fs::write(&part, &raw[start..end]).unwrap();
        let command = format!("write -s {} {start} {}", part.display(), end - start);
        let status = Command::new("qemu-io")
            .args(["-f", "qcow2", "-c", &command, name])
            .stdout(Stdio::null())
            .status();
        assert!(status.unwrap().success());
    }
    fs::read(to).unwrap()
}

/// Serves `packed` with and without ranges and expects `raw` on the disk.
fn expect(packed: &[u8], raw: &[u8], container: Format, label: &str) {
    let dir = support::memory_dir();
    for (ranges, memory) in [(true, 48), (false, 32)] {
        let server = Server::start(Body::Bytes(packed.to_vec()), move |_| Answer {
            ranges,
            ..Answer::default()
        });
        let target = used_disk(dir.path(), raw.len());
        let mut request = request(&server.url, &target, packed);
        request.memory = memory << 20;
        request.verify_after_write = true;
        let report = match write(&request) {
            Ok(report) => report,
            Err(error) => panic!("{label}: {}", error.chain()),
        };
        assert_eq!(report.container, Some(container), "{label}");
        assert_eq!(report.bytes_in, packed.len() as u64, "{label}");
        assert!(fs::read(&target).unwrap() == raw, "{label} differs");
    }
}

/// Whether a used disk is as it was.
fn untouched(path: &Path) -> bool {
    fs::read(path).unwrap().iter().all(|byte| *byte == 0xff)
}

#[test]
fn every_kind_around_raw() {
    let raw = disk(SIZE, 1);
    for (command, container) in KINDS {
        expect(&pack(command, &raw), &raw, *container, command[0]);
    }
}

#[test]
fn every_kind_around_qcow2_whose_tables_come_late() {
    let dir = support::memory_dir();
    let raw = disk(SIZE, 2);
    let image = qcow2(dir.path(), &raw);
    for (command, container) in KINDS {
        expect(&pack(command, &image), &raw, *container, command[0]);
    }
}

#[test]
fn several_members_frames_blocks_and_streams() {
    let raw = disk(SIZE, 3);
    let halves = raw.split_at(SIZE / 2 + 777);
    for (command, container) in KINDS {
        let joined = [
            pack(command, b""),
            pack(command, halves.0),
            pack(command, halves.1),
        ];
        // bzip2 has no signature for an empty stream.
        let first = usize::from(*container == Format::Bzip2);
        let joined = joined[first..].concat();
        expect(&joined, &raw, *container, command[0]);
    }
    // Small enough to be decoded side by side.
    let blocks = pack(&["xz", "-0", "-T2", "--block-size=1MiB", "-c"], &raw);
    expect(&blocks, &raw, Format::Xz, "xz blocks");
}

/// Damage on the way is told from damage at the source: the digest is found
/// out even when decoding cannot go on.
#[test]
fn damage_on_the_way_is_a_wrong_digest() {
    let dir = support::memory_dir();
    let raw = disk(SIZE, 10);
    let whole = qcow2(dir.path(), &raw);
    let (from, to) = (dir.path().join("whole"), dir.path().join("packed"));
    fs::write(&from, &whole).unwrap();
    let (from, to) = (from.to_str().unwrap(), to.to_str().unwrap());
    qemu_img(&["convert", "-c", "-O", "qcow2", from, to]);
    let mut images = vec![("qcow2 zlib", fs::read(to).unwrap())];
    images.extend(
        KINDS
            .iter()
            .map(|(command, _)| (command[0], pack(command, &whole))),
    );
    for (label, image) in images {
        let place = image.len() as u64 / 2;
        let server = Server::start(Body::Bytes(image.clone()), move |_| Answer {
            corrupt: Some(place),
            ..Answer::default()
        });
        let target = used_disk(dir.path(), raw.len());
        let error = write(&request(&server.url, &target, &image)).unwrap_err();
        let text = error.chain();
        assert_eq!(error.kind(), ErrorKind::Checksum, "{label}: {text}");
        assert!(text.contains("damaged"), "{label}: {text}");
        assert!(ends_are_zero(&target));
    }
}

/// Flips every one of some bytes, cuts, and adds: never success, never
/// bootable.
#[test]
fn damage_is_found_even_when_the_digest_is_that_of_the_damaged_file() {
    let raw = disk(4 * MIB, 4);
    let dir = support::memory_dir();
    for (command, _) in KINDS {
        let whole = pack(command, &raw);
        let mut damaged = vec![
            ("cut", whole[..whole.len() - 9].to_vec()),
            ("half", whole[..whole.len() / 2].to_vec()),
            ("longer", [whole.as_slice(), b"more"].concat()),
        ];
        for part in 1..6 {
            let mut bytes = whole.clone();
            bytes[whole.len() * part / 6] ^= 0x10;
            damaged.push(("flipped", bytes));
        }
        for (how, bytes) in damaged {
            let target = used_disk(dir.path(), raw.len());
            let source = dir.path().join("image");
            fs::write(&source, &bytes).unwrap();
            let error = write(&request(source.to_str().unwrap(), &target, &bytes)).unwrap_err();
            let text = error.chain();
            let label = format!("{}, {how}: {text}", command[0]);
            assert_eq!(error.kind(), ErrorKind::Format, "{label}");
            if error.disk() == DiskState::EndsZeroed {
                assert!(ends_are_zero(&target), "{label}");
                assert_eq!(error.stage(), Stage::Decode, "{label}");
            }
        }
    }
}

#[test]
fn a_bomb_is_stopped_at_the_size_of_the_disk() {
    let dir = support::memory_dir();
    let mut raw = disk(4 * MIB, 5);
    raw.resize(64 * MIB, 0);
    for (command, _) in KINDS {
        let packed = pack(command, &raw);
        let target = used_disk(dir.path(), 8 * MIB);
        let source = dir.path().join("image");
        fs::write(&source, &packed).unwrap();
        let error = write(&request(source.to_str().unwrap(), &target, &packed)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge, "{}", error.chain());
        assert!(ends_are_zero(&target));
    }
}

/// A qcow2 file that goes on for ever behind its image.
#[test]
fn a_bomb_behind_a_qcow2_image_is_stopped() {
    let dir = support::memory_dir();
    let raw = disk(4 * MIB, 6);
    let mut image = qcow2(dir.path(), &raw);
    image.resize(image.len() + 200 * MIB, 0);
    let packed = pack(&["gzip", "-1", "-c"], &image);
    let target = used_disk(dir.path(), raw.len());
    let source = dir.path().join("image");
    fs::write(&source, &packed).unwrap();
    let error = write(&request(source.to_str().unwrap(), &target, &packed)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{}", error.chain());
    assert!(ends_are_zero(&target));
}

#[test]
fn a_window_beyond_the_budget_is_refused_before_writing() {
    let dir = support::memory_dir();
    let raw = disk(4 * MIB, 7);
    for command in [
        &["zstd", "-q", "--long=27", "-c"][..],
        &["xz", "--lzma2=preset=0,dict=128MiB", "-c"],
    ] {
        let packed = pack(command, &raw);
        let target = used_disk(dir.path(), raw.len());
        let source = dir.path().join("image");
        fs::write(&source, &packed).unwrap();
        let mut request = request(source.to_str().unwrap(), &target, &packed);
        request.zero_on_refusal = false;
        let error = write(&request).unwrap_err();
        let text = error.chain();
        assert_eq!(error.kind(), ErrorKind::Memory, "{text}");
        assert!(text.contains("--memory"), "{text}");
        assert!(untouched(&target));
        request.memory = 256 << 20;
        write(&request).unwrap();
        assert!(fs::read(&target).unwrap() == raw);
    }
}

#[test]
fn a_container_in_a_container_is_refused() {
    let dir = support::memory_dir();
    let raw = disk(4 * MIB, 8);
    let once = pack(&["gzip", "-1", "-c"], &raw);
    let twice = pack(&["zstd", "-q", "-c"], &once);
    let target = used_disk(dir.path(), raw.len());
    let source = dir.path().join("image");
    fs::write(&source, &twice).unwrap();
    let mut request = request(source.to_str().unwrap(), &target, &twice);
    request.zero_on_refusal = false;
    let error = write(&request).unwrap_err();
    assert_eq!(error.disk(), DiskState::Untouched);
    assert_eq!(error.kind(), ErrorKind::Format, "{}", error.chain());
    assert!(error.chain().contains("twice"), "{}", error.chain());
    assert!(untouched(&target));
}

/// The second pass over an image inside of a container is checked as any
/// other.
#[test]
fn a_server_that_changes_a_byte_between_passes_is_found_out() {
    let dir = support::memory_dir();
    let raw = disk(SIZE, 9);
    let packed = pack(&["gzip", "-1", "-c"], &qcow2(dir.path(), &raw));
    // In the part that is needed again.
    let place = packed.len() as u64 / 6;
    let server = Server::start(Body::Bytes(packed.clone()), move |number| Answer {
        ranges: true,
        corrupt: (number > 0).then_some(place),
        ..Answer::default()
    });
    let target = used_disk(dir.path(), raw.len());
    let error = write(&request(&server.url, &target, &packed)).unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Source | ErrorKind::Format),
        "{}",
        error.chain()
    );
    assert!(ends_are_zero(&target));
}

//! A few hundred generated qcow2 images, written, against
//! `qemu-img convert -O raw`. The plain run takes a sample that has every
//! cluster size; the rest is behind `--ignored` (`cargo xtask test --all`).

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod support;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::thread;

use bzip2::write::BzEncoder;
use flate2::write::GzEncoder;
use liblzma::write::XzEncoder;
use support::MIB;
use support::Random;
use support::qcow2::Layout;
use support::qcow2::Tables;
use support::qcow2::of_disk;
use support::qemu_img;
use support::recipe::Recipe;
use support::recipe::SEED;
use support::request;
use support::server::Answer;
use support::server::Body;
use support::server::Server;
use support::used_disk;
use wrought_image::Format;
use wrought_image::HttpOptions;
use wrought_image::inspect;
use wrought_image::write;

/// Images of the whole run.
const ALL: u64 = 312;
/// Of the plain run: two of every cluster size.
const SAMPLE: u64 = 26;
/// Images at a time.
const WIDTH: usize = 2;

#[test]
fn a_sample_of_images_equals_what_qemu_makes_of_them() {
    check(0..SAMPLE);
}

#[test]
#[ignore = "minutes; `cargo xtask test --all` runs it"]
fn all_images_equal_what_qemu_makes_of_them() {
    check(SAMPLE..ALL);
}

fn check(numbers: std::ops::Range<u64>) {
    if !qemu_img(&["--version"]) || Command::new("qemu-io").arg("-V").output().is_err() {
        return;
    }
    eprintln!("images {numbers:?} of seed {SEED:#x}");
    let next = AtomicU64::new(numbers.start);
    thread::scope(|scope| {
        for _ in 0..WIDTH {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= numbers.end {
                        return;
                    }
                    compare(&Recipe::new(number));
                }
            });
        }
    });
}

/// Makes the image, writes it in one of several ways, and compares.
fn compare(recipe: &Recipe) {
    let dir = support::memory_dir();
    let path = recipe.make(dir.path());
    let image = fs::read(&path).unwrap();
    let expected = converted(dir.path(), &path);

    let facts = inspect(
        path.to_str().unwrap(),
        &HttpOptions::default(),
        wrought_image::Retry::default(),
    );
    let facts = facts.unwrap();
    assert!(facts.refusal.is_none(), "{recipe:?}: {:?}", facts.refusal);
    assert_eq!(facts.virtual_size, Some(expected.len() as u64));

    // From a file, from servers of several kinds, in a container.
    let way = (recipe.number / 13 + recipe.number) % 6;
    let served = match way {
        4 | 5 => packed(image, recipe.number),
        _ => image,
    };
    let plan = move |_| Answer {
        ranges: way == 1 || way == 4,
        chunked: way == 2,
        ..Answer::default()
    };
    let server = Server::start(Body::Bytes(served.clone()), plan);
    let source = match way {
        0 => path.to_str().unwrap(),
        _ => &server.url,
    };
    // A disk that was in use, or a new file.
    let used = recipe.number.is_multiple_of(2);
    let target = if used {
        used_disk(dir.path(), expected.len())
    } else {
        // Made here: below /dev nothing is, and the folder may be there.
        let path = dir.path().join("new");
        fs::write(&path, b"").unwrap();
        path
    };
    let mut request = request(source, &target, &served);
    request.verify_after_write = recipe.number.is_multiple_of(3);
    request.memory = match recipe.number / 2 % 4 {
        // Large clusters and containers need the default.
        0 if recipe.cluster_bits < 18 && way < 4 => 16 << 20,
        1 => 96 << 20,
        _ => 48 << 20,
    };
    let report = match write(&request) {
        Ok(report) => report,
        Err(error) => panic!("{recipe:?}, way {way}: {}", error.chain()),
    };
    assert_eq!(report.format, Format::Qcow2);
    assert_eq!(report.bytes_out, expected.len() as u64, "{recipe:?}");
    let written = fs::read(&target).unwrap();
    if written != expected {
        let differs = written.iter().zip(&expected).position(|(a, b)| a != b);
        panic!("{recipe:?}, way {way}: first difference at {differs:?}");
    }
}

/// The image in a compressed container.
fn packed(image: Vec<u8>, number: u64) -> Vec<u8> {
    match number % 4 {
        0 => {
            let mut packer = GzEncoder::new(Vec::new(), flate2::Compression::fast());
            packer.write_all(&image).unwrap();
            packer.finish().unwrap()
        }
        1 => {
            let mut packer = XzEncoder::new(Vec::new(), 0);
            packer.write_all(&image).unwrap();
            packer.finish().unwrap()
        }
        2 if image.len() < 8 * MIB => {
            let mut packer = BzEncoder::new(Vec::new(), bzip2::Compression::fast());
            packer.write_all(&image).unwrap();
            packer.finish().unwrap()
        }
        _ => zstd::encode_all(&image[..], 1).unwrap(),
    }
}

/// What QEMU makes of the image.
fn converted(dir: &Path, path: &Path) -> Vec<u8> {
    let raw = dir.join("oracle.raw");
    let raw_name = raw.to_str().unwrap();
    let line = ["convert", "-O", "raw", path.to_str().unwrap(), raw_name];
    assert!(qemu_img(&line));
    let bytes = fs::read(&raw).unwrap();
    fs::remove_file(&raw).unwrap();
    bytes
}

/// QEMU leaves the unwritten rest of the last cluster out of the file. Its
/// table may have been left for a later pass.
#[test]
fn a_last_cluster_that_is_cut_reads_as_zero_in_every_pass() {
    let cluster = 1 << 16;
    let mut disk = support::disk(5 * MIB, 4);
    let mut random = Random::new(4);
    random.fill(&mut disk[2 * MIB..4 * MIB]);
    let last = disk.len() - cluster;
    disk[last..].fill(0);
    disk[last..last + 512].fill(7);
    support::put_mbr(&mut disk, 4);
    for tables in [Tables::First, Tables::Between] {
        let layout = Layout {
            cluster_bits: 16,
            tables,
            packed: false,
            seed: None,
        };
        let mut image = of_disk(layout, &disk);
        image.truncate(image.len() - cluster + 512);
        written(layout, &image, &disk);
    }
}

/// Writes an image made without QEMU.
fn written(layout: Layout, image: &[u8], disk: &[u8]) {
    let dir = support::memory_dir();
    let (path, target) = (dir.path().join("image"), used_disk(dir.path(), disk.len()));
    fs::write(&path, image).unwrap();
    let mut request = request(path.to_str().unwrap(), &target, image);
    request.memory = 16 << 20;
    if let Err(error) = write(&request) {
        panic!("{layout:?}: {}", error.chain());
    }
    assert!(fs::read(&target).unwrap() == disk, "{layout:?}");
}

/// Compressed clusters end where their last sector ends, as far as the
/// tables tell: a small one may lie whole in the last sector of another, and
/// its table far behind.
#[test]
fn a_cluster_in_the_last_sector_of_another_is_found_again() {
    let (bits, cluster) = (9, 512);
    let per_table = cluster / 8 * cluster;
    let mut disk = support::disk(5 * MIB, 3);
    let mut random = Random::new(3);
    let middle = disk.len() - 2 * MIB;
    for (number, region) in disk[MIB..][..middle].chunks_mut(per_table).enumerate() {
        region.fill(0);
        if number.is_multiple_of(2) {
            for cluster in region.chunks_mut(cluster) {
                random.fill(&mut cluster[..200]);
            }
        } else {
            region[..cluster].fill(1);
        }
    }
    for tables in [Tables::First, Tables::Last, Tables::Mixed] {
        let layout = Layout {
            cluster_bits: bits,
            tables,
            packed: true,
            seed: None,
        };
        written(layout, &of_disk(layout, &disk), &disk);
    }
}

//! What `inspect` says of every kind of image, and that a write agrees.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod support;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;

use support::MIB;
use support::disk;
use support::memory_dir;
use support::qemu_img;
use support::request;
use support::server::Server;
use wrought_image::ErrorKind;
use wrought_image::Format;
use wrought_image::HttpOptions;
use wrought_image::ImageFacts;
use wrought_image::Retry;
use wrought_image::cli::InspectArgs;
use wrought_image::cli::run_inspect;
use wrought_image::inspect;
use wrought_image::write;

/// Offsets in a qcow2 header.
const CRYPT: usize = 32;
const L1: usize = 40;
const INCOMPATIBLE: usize = 72;

struct Images {
    dir: tempfile::TempDir,
}

impl Images {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Runs qemu-img with `DIR/` in front of the last names.
    fn qemu(&self, options: &[&str], names: &[&str]) -> PathBuf {
        let paths: Vec<String> = names
            .iter()
            .map(|name| self.path(name).display().to_string())
            .collect();
        let mut args: Vec<&str> = options.to_vec();
        args.extend(paths.iter().map(String::as_str));
        assert!(qemu_img(&args));
        self.path(names.last().unwrap())
    }

    /// A copy of `from` with some bytes changed.
    fn patched(&self, from: &Path, name: &str, patches: &[(usize, &[u8])]) -> PathBuf {
        let mut bytes = fs::read(from).unwrap();
        for (at, patch) in patches {
            bytes[*at..*at + patch.len()].copy_from_slice(patch);
        }
        self.put(name, &bytes)
    }
}

fn look(path: &Path) -> ImageFacts {
    let location = path.display().to_string();
    inspect(&location, &HttpOptions::default(), Retry::default()).unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn every_refused_kind_says_why_in_a_sentence() {
    if !qemu_img(&["--version"]) {
        eprintln!("skipped: no qemu-img");
        return;
    }
    let images = Images { dir: memory_dir() };
    let plain = disk(4 * MIB, 1);
    images.put("disk.raw", &plain);
    let convert = |format: &str, name: &str| {
        images.qemu(&["convert", "-f", "raw", "-O", format], &["disk.raw", name])
    };
    let secret = ["--object", "secret,id=s,data=secret"];
    let good = convert("qcow2", "good.qcow2");
    let length = fs::metadata(&good).unwrap().len() as usize;
    let mut filesystem = vec![0; MIB];
    filesystem[0x438..0x43a].copy_from_slice(&[0x53, 0xef]);
    images.put("fs.raw", &filesystem);
    let mut iso = vec![0; MIB];
    iso[0x8001..0x8006].copy_from_slice(b"CD001");

    let refused: Vec<(PathBuf, &[&str])> = vec![
        (
            images.qemu(
                &["create", "-q", "-f", "qcow2", "-F", "raw", "-b"],
                &["disk.raw", "overlay.qcow2"],
            ),
            &[
                "only a difference to the backing file",
                "disk.raw",
                "qemu-img convert",
            ],
        ),
        (
            {
                let data = format!("data_file={}", images.path("data.raw").display());
                let options = ["create", "-q", "-f", "qcow2", "-o", &data];
                let path = images.path("external.qcow2").display().to_string();
                let all = [&options[..], &[&path, "4M"]].concat();
                assert!(qemu_img(&all));
                images.path("external.qcow2")
            },
            &["external data file"],
        ),
        (
            {
                let path = images.path("luks.qcow2").display().to_string();
                let options = "encrypt.format=luks,encrypt.key-secret=s,encrypt.iter-time=10";
                let head = ["create", "-q", "-f", "qcow2"];
                let all = [&head[..], &secret, &["-o", options, &path, "4M"]].concat();
                assert!(qemu_img(&all));
                images.path("luks.qcow2")
            },
            &["is encrypted (LUKS)"],
        ),
        (
            images.patched(&good, "aes.qcow2", &[(CRYPT, &[0, 0, 0, 1])]),
            &["is encrypted (AES)"],
        ),
        (
            images.patched(&good, "corrupt.qcow2", &[(INCOMPATIBLE + 7, &[2])]),
            &["marked corrupt", "qemu-img check -r all"],
        ),
        (
            images.patched(&good, "bit40.qcow2", &[(INCOMPATIBLE + 2, &[1])]),
            &["features that are not supported: incompatible bit 40"],
        ),
        (
            images.patched(&good, "l1-header.qcow2", &[(L1, &[0; 8])]),
            &["damaged", "L1 table", "lies on the header"],
        ),
        (
            images.patched(&good, "l1-out.qcow2", &[(L1 + 3, &[1])]),
            &["damaged", "L1 table", "does not lie inside the file"],
        ),
        (
            images.put("half.qcow2", &fs::read(&good).unwrap()[..length / 2]),
            &["damaged or cut off", "lies past the end of the file"],
        ),
        (
            images.put("stub.qcow2", &fs::read(&good).unwrap()[..100]),
            &["damaged or cut off", "header is cut off: 100 bytes"],
        ),
        (
            images.qemu(
                &["convert", "-f", "raw", "-O", "qcow2"],
                &["fs.raw", "fs.qcow2"],
            ),
            &["no partition table", "ext2/3/4"],
        ),
        (
            convert("vmdk", "a.vmdk"),
            &["VMware disk", "convert -f vmdk -O qcow2"],
        ),
        (
            convert("vhdx", "a.vhdx"),
            &["Hyper-V disk (vhdx)", "convert -f vhdx"],
        ),
        (
            convert("vdi", "a.vdi"),
            &["VirtualBox disk", "convert -f vdi"],
        ),
        (
            convert("qed", "a.qed"),
            &["QEMU enhanced disk", "convert -f qed"],
        ),
        (convert("vpc", "a.vhd"), &["VHD, vpc", "convert -f vpc"]),
        (
            convert("qcow", "a.qcow"),
            &["qcow disk of version 1", "convert -f qcow "],
        ),
        (
            {
                let path = images.path("a.luks").display().to_string();
                let head = ["create", "-q", "-f", "luks"];
                let options = ["-o", "key-secret=s,iter-time=10", &path, "4M"];
                assert!(qemu_img(&[&head[..], &secret, &options].concat()));
                images.path("a.luks")
            },
            &["one encrypted LUKS volume"],
        ),
        (images.put("a.iso", &iso), &["ISO 9660", "installed from"]),
        (
            images.patched(&good, "both.qcow2", &[(0x8001, b"CD001")]),
            &["not clear", "iso and qcow2 at once"],
        ),
        (
            images.path("fs.raw"),
            &["no partition table", "ext2/3/4 from its first byte"],
        ),
        (
            images.put("zero.raw", &vec![0; MIB]),
            &["neither a GPT nor an MBR"],
        ),
        (images.put("empty", b""), &["is empty"]),
        (
            images.put("404.html", b"<!doctype html><h1>404"),
            &["a web page"],
        ),
        (
            images.put("error.txt", b"no such key\n"),
            &["a text (\"no such key\")"],
        ),
        (
            images.put("fs.gz", &gzip(&filesystem)),
            &["no partition table", "ext2/3/4"],
        ),
        (
            images.put("vmdk.gz", &gzip(b"KDMV and more")),
            &["VMware disk"],
        ),
        (
            images.put("twice.gz", &gzip(&gzip(&plain))),
            &["compressed twice"],
        ),
        (images.put("nothing.gz", &gzip(b"")), &["nothing is in"]),
        (
            images.put(
                "backing.gz",
                &gzip(&fs::read(images.path("overlay.qcow2")).unwrap()),
            ),
            &["backing file"],
        ),
    ];
    for (path, words) in refused {
        let facts = look(&path);
        let name = path.file_name().unwrap().display();
        let Some(refusal) = facts.refusal else {
            panic!("{name} would be written: {facts:?}");
        };
        let sentence = refusal.chain();
        for part in words {
            assert!(sentence.contains(part), "{name}: {part:?} in {sentence}");
        }
        assert!(!sentence.contains('\n'), "{name}: {sentence}");
        assert_eq!(refusal.kind().exit_code(), 65, "{name}: {sentence}");

        let target = images.path("target");
        fs::write(&target, vec![1; 8 * MIB]).unwrap();
        let bytes = fs::read(&path).unwrap();
        let error = write(&request(&path.display().to_string(), &target, &bytes)).unwrap_err();
        assert_eq!(error.kind().exit_code(), 65, "{name}: {}", error.chain());
    }

    let args = |name: &str, json| InspectArgs {
        image: images.path(name).display().to_string(),
        json,
        ..InspectArgs::default()
    };
    for json in [false, true] {
        assert_eq!(run_inspect(&args("a.vmdk", json)), 65);
        assert_eq!(run_inspect(&args("good.qcow2", json)), 0);
        assert_eq!(run_inspect(&args("missing", json)), 69);
    }
}

#[test]
fn what_would_be_written_is_described() {
    if !qemu_img(&["--version"]) {
        eprintln!("skipped: no qemu-img");
        return;
    }
    let images = Images { dir: memory_dir() };
    let plain = disk(4 * MIB, 2);
    images.put("disk.raw", &plain);
    let kinds: [&[&str]; 5] = [
        &[],
        &["-c"],
        &["-c", "-o", "compression_type=zstd"],
        &["-o", "compat=0.10,cluster_size=512"],
        &["-c", "-o", "extended_l2=on,cluster_size=2M"],
    ];
    for (number, kind) in kinds.iter().enumerate() {
        let options = [&["convert", "-f", "raw", "-O", "qcow2"][..], kind].concat();
        let name = format!("{number}.qcow2");
        let path = images.qemu(&options, &["disk.raw", &name]);
        let facts = look(&path);
        assert!(facts.refusal.is_none(), "{kind:?}: {:?}", facts.refusal);
        assert_eq!(facts.virtual_size, Some(plain.len() as u64));
        let qcow2 = facts.qcow2.unwrap();
        assert!(qcow2.all_tables_checked, "{kind:?}");
        let table = facts.table.unwrap();
        assert_eq!(table.partitions[0].name, "esp");

        // From a server: no more than the first MiB, and in a container too.
        let bytes = fs::read(&path).unwrap();
        let packed = images.put("packed.gz", &gzip(&bytes));
        let facts = look(&packed);
        assert!(facts.refusal.is_none(), "{kind:?}: {:?}", facts.refusal);
        assert_eq!(
            (facts.container, facts.format),
            (Some(Format::Gzip), Some(Format::Qcow2))
        );
        let server = Server::plain(bytes);
        let facts = inspect(&server.url, &HttpOptions::default(), Retry::default()).unwrap();
        assert!(facts.refusal.is_none(), "{kind:?}: {:?}", facts.refusal);
        assert_eq!(server.requests(), 1);
    }
    let raw = look(&images.path("disk.raw"));
    assert_eq!(
        (raw.format, raw.table.unwrap().partitions.len()),
        (Some(Format::Raw), 1)
    );

    let missing = inspect("/nowhere", &HttpOptions::default(), Retry::default());
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::Source);
}

#[test]
fn a_hybrid_iso_is_written_where_one_is_meant() {
    let images = Images { dir: memory_dir() };
    let mut hybrid = disk(4 * MIB, 3);
    hybrid[0x8001..0x8006].copy_from_slice(b"CD001");
    let path = images.put("hybrid.iso", &hybrid);
    let refusal = look(&path).refusal.unwrap();
    assert!(
        refusal.to_string().contains("--disk-format iso"),
        "{refusal}"
    );

    let lists = [
        (None, None, false),
        (Some(Format::Raw), None, false),
        (Some(Format::Iso), None, true),
        (None, Some(vec![Format::Raw, Format::Iso]), true),
        (
            Some(Format::Raw),
            Some(vec![Format::Raw, Format::Iso]),
            true,
        ),
        (Some(Format::Iso), Some(vec![Format::Raw]), false),
        (
            Some(Format::Qcow2),
            Some(vec![Format::Qcow2, Format::Iso]),
            false,
        ),
        (None, Some(vec![]), false),
    ];
    for (declared, allowed, written) in lists {
        let target = images.put("target", &vec![1; hybrid.len()]);
        let mut request = request(&path.display().to_string(), &target, &hybrid);
        (request.format, request.allowed_formats) = (declared, allowed.clone());
        let result = write(&request);
        assert_eq!(
            result.is_ok(),
            written,
            "{declared:?} {allowed:?}: {result:?}"
        );
        if written {
            assert!(fs::read(&target).unwrap() == hybrid);
        }
    }
}

//! Raw images from good and bad servers.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod support;

use std::fs;
use std::io::Read;
use std::io::Write;
use std::sync::Arc;
use std::sync::Mutex;

use support::MIB;
use support::disk;
use support::ends_are_zero;
use support::request;
use support::server::Answer;
use support::server::Body;
use support::server::Server;
use support::sha256;
use support::used_disk;
use wrought_image::DiskState;
use wrought_image::Error;
use wrought_image::ErrorKind;
use wrought_image::ProgressFn;
use wrought_image::TableKind;
use wrought_image::WriteRequest;
use wrought_image::write;

/// Writes from a server with the given plan to a used disk of 24 MiB; the
/// error and whether the disk's ends are zero afterwards.
fn fail(
    image: &[u8],
    plan: impl Fn(u32) -> Answer + Send + Sync + 'static,
    edit: impl FnOnce(&mut WriteRequest),
) -> Error {
    let dir = tempfile::tempdir().unwrap();
    let target = used_disk(dir.path(), 24 * MIB);
    let server = Server::start(Body::Bytes(image.to_vec()), plan);
    let mut request = request(&server.url, &target, image);
    edit(&mut request);
    let error = write(&request).unwrap_err();
    if error.disk() == DiskState::EndsZeroed {
        assert!(ends_are_zero(&target), "{}", error.chain());
    } else {
        assert_eq!(error.disk(), DiskState::Untouched, "{}", error.chain());
        assert!(fs::read(&target).unwrap().iter().all(|byte| *byte == 0xff));
    }
    error
}

#[test]
fn a_raw_image_arrives_and_its_backup_table_moves() {
    let image = disk(16 * MIB + 512, 1);
    let dir = tempfile::tempdir().unwrap();
    let target = used_disk(dir.path(), 24 * MIB);
    let server = Server::plain(image.clone());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let mut request = request(&server.url, &target, &image);
    request.verify_after_write = true;
    request.progress = Some(ProgressFn::new(move |p| sink.lock().unwrap().push(*p)));
    let report = write(&request).unwrap();
    assert_eq!(
        (report.bytes_in, report.bytes_out),
        (image.len() as u64, image.len() as u64)
    );
    assert!(report.read_back && report.table.backup_moved);
    assert_eq!(report.table.kind, TableKind::Gpt);
    assert_eq!(report.table.esp().unwrap().name, "esp");
    assert!(sha256(&image).ends_with(&report.digest));
    let written = fs::read(&target).unwrap();
    assert_eq!(written.len(), 24 * MIB);
    // All but the two tables is the image.
    assert!(written[MIB..image.len()] == image[MIB..]);
    assert!(written[24 * MIB - 512..].starts_with(b"EFI PART"));
    let verdict = std::process::Command::new("sgdisk")
        .arg("-v")
        .arg(&target)
        .output();
    if let Ok(verdict) = verdict {
        let text = String::from_utf8_lossy(&verdict.stdout).into_owned();
        assert!(text.contains("No problems found"), "{text}");
    }
    assert!(seen.lock().unwrap().iter().any(|p| p.percent == Some(100)));
}

#[test]
fn a_new_file_becomes_the_image_itself() {
    let image = disk(5 * MIB, 2);
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("a b.raw");
    fs::write(&source, &image).unwrap();
    for (number, source) in [
        source.display().to_string(),
        format!("file://{}/a%20b.raw", dir.path().display()),
    ]
    .into_iter()
    .enumerate()
    {
        let target = dir.path().join(format!("new {number}"));
        let report = write(&request(&source, &target, &image)).unwrap();
        assert!(!report.table.backup_moved);
        assert!(fs::read(&target).unwrap() == image);
    }
}

#[test]
fn a_length_that_is_not_announced_is_no_problem() {
    let image = disk(6 * MIB + 1024, 3);
    let dir = tempfile::tempdir().unwrap();
    let plan = |_| Answer {
        chunked: true,
        ..Answer::default()
    };
    let server = Server::start(Body::Bytes(image.clone()), plan);
    let target = dir.path().join("disk");
    write(&request(&server.url, &target, &image)).unwrap();
    assert!(fs::read(&target).unwrap() == image);
    let target = used_disk(dir.path(), 6 * MIB);
    let error = write(&request(&server.url, &target, &image)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{}", error.chain());
    assert!(ends_are_zero(&target));
}

#[test]
fn interruptions_are_taken_up_where_they_were() {
    let image = disk(9 * MIB, 4);
    for ranges in [true, false] {
        for fault in 0..3 {
            let dir = tempfile::tempdir().unwrap();
            let target = dir.path().join("disk");
            let plan = move |number: u32| {
                let cut = Some(u64::from(number + 1) * 2_500_001);
                let ordinary = Answer {
                    ranges,
                    ..Answer::default()
                };
                match (number, fault) {
                    (3.., _) => ordinary,
                    (_, 0) => Answer { cut, ..ordinary },
                    (0, 1) => Answer {
                        cut,
                        stall: true,
                        ..ordinary
                    },
                    (1 | 2, 1) => Answer {
                        status: 503,
                        ..ordinary
                    },
                    (0, _) => Answer {
                        status: 500,
                        ..ordinary
                    },
                    (_, _) => Answer {
                        cut,
                        etag: None,
                        ..ordinary
                    },
                }
            };
            let server = Server::start(Body::Bytes(image.clone()), plan);
            let report = write(&request(&server.url, &target, &image)).unwrap();
            assert!(
                fs::read(&target).unwrap() == image,
                "ranges {ranges}, fault {fault}"
            );
            assert_eq!(report.connections, server.requests());
            assert!(server.requests() > 2);
        }
    }
}

#[test]
fn a_flipped_bit_is_found_and_both_digests_named() {
    let image = disk(9 * MIB, 5);
    let plan = |_| Answer {
        corrupt: Some(5_000_000),
        ..Answer::default()
    };
    let error = fail(&image, plan, |_| {});
    assert_eq!(error.kind(), ErrorKind::Checksum);
    let text = error.to_string();
    assert!(
        text.contains(&sha256(&image)[7..]) && text.contains("(from request)"),
        "{text}"
    );
    assert_eq!(error.disk(), DiskState::EndsZeroed);
}

#[test]
fn answers_that_are_no_image_fail_with_their_url() {
    let image = disk(4 * MIB, 6);
    let error = fail(
        &image,
        |_| Answer {
            status: 404,
            ..Answer::default()
        },
        |_| {},
    );
    assert_eq!(
        (error.kind(), error.is_retryable()),
        (ErrorKind::Source, false)
    );
    assert!(
        error
            .chain()
            .contains("/images/disk.img: the server answered 404"),
        "{error}"
    );

    let error = fail(
        &image,
        |_| Answer {
            status: 500,
            ..Answer::default()
        },
        |_| {},
    );
    assert!(
        error.to_string().contains("after 4 attempts"),
        "{}",
        error.chain()
    );
    assert!(error.is_retryable());

    // Always cut at the same place, and never a byte behind it.
    let plan = |number| Answer {
        cut: Some(if number == 0 { 2_000_000 } else { 0 }),
        ..Answer::default()
    };
    let error = fail(&image, plan, |_| {});
    assert_eq!(error.offset(), Some(2_000_000), "{}", error.chain());

    let error = fail(
        &image,
        |_| Answer {
            length_off: 1000,
            ..Answer::default()
        },
        |_| {},
    );
    assert_eq!(error.kind(), ErrorKind::Source, "{}", error.chain());
    let error = fail(
        &image,
        |_| Answer {
            length_off: -1000,
            ..Answer::default()
        },
        |_| {},
    );
    assert_eq!(error.kind(), ErrorKind::Checksum, "{}", error.chain());

    // Another image under the same URL after an interruption.
    let plan = |number| Answer {
        cut: (number == 0).then_some(2_000_000),
        etag: Some(if number == 0 { "\"v1\"" } else { "\"v2\"" }),
        ..Answer::default()
    };
    let error = fail(&image, plan, |_| {});
    assert!(
        error.to_string().contains("changed while it was read"),
        "{}",
        error.chain()
    );
}

#[test]
fn nothing_listens() {
    let dir = tempfile::tempdir().unwrap();
    let target = used_disk(dir.path(), 4 * MIB);
    let error = write(&request("http://127.0.0.1:9/x", &target, b"")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Source);
    assert!(ends_are_zero(&target), "{}", error.chain());
}

#[test]
fn a_second_source_stands_in() {
    let image = disk(3 * MIB, 7);
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("disk");
    let server = Server::plain(image.clone());
    let mut request = request("/no/such/file", &target, &image);
    request.sources.push(server.url.clone());
    assert_eq!(write(&request).unwrap().source, server.url);
}

#[test]
fn sums_files_are_read_from_their_url() {
    let image = disk(3 * MIB, 8);
    let dir = tempfile::tempdir().unwrap();
    let server = Server::plain(image.clone());
    let sums = format!("{}  ./disk.img\r\n", sha256(&image)[7..].to_uppercase());
    let sums = Server::plain(sums.into_bytes());
    let mut request = request(&server.url, &dir.path().join("disk"), &image);
    request.checksum = Some(sums.url.clone());
    assert_eq!(write(&request).unwrap().checksum_source, sums.url);
}

#[test]
fn requests_and_images_that_cannot_be_are_refused() {
    let image = disk(4 * MIB, 9);
    let plain = |_| Answer::default();
    let error = fail(&image, plain, |request| request.checksum = None);
    assert_eq!(
        (error.kind(), error.disk()),
        (ErrorKind::Request, DiskState::Untouched)
    );
    assert!(error.to_string().contains("--checksum"));
    let error = fail(&image, plain, |r| {
        r.format = Some(wrought_image::Format::Qcow2)
    });
    assert!(
        error
            .to_string()
            .contains("declared to be qcow2 but its content is raw")
    );
    let error = fail(&image, plain, |r| r.memory = 1);
    assert_eq!(error.kind(), ErrorKind::Request);
    let error = fail(&disk(25 * MIB, 9), plain, |_| {});
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(error.to_string().contains("26214400") && error.to_string().contains("25165824"));

    let mut bare = vec![1; 4 * MIB];
    bare[510..512].copy_from_slice(&[0, 0]);
    let error = fail(&bare, plain, |_| {});
    assert!(error.to_string().contains("no partition table"), "{error}");
    bare[0x438..0x43a].copy_from_slice(&[0x53, 0xef]);
    let error = fail(&bare, plain, |_| {});
    assert!(
        error
            .to_string()
            .contains("it is ext2/3/4 from its first byte"),
        "{error}"
    );
    bare[..4].copy_from_slice(b"KDMV");
    let error = fail(&bare, plain, |_| {});
    assert_eq!(error.kind(), ErrorKind::Format);
    assert!(error.to_string().contains("qemu-img convert"), "{error}");
}

#[test]
fn a_damaged_table_is_refused_before_the_ends_are_written() {
    let mut image = disk(4 * MIB, 10);
    image[512 + 40] ^= 1;
    let error = fail(&image, |_| Answer::default(), |_| {});
    assert_eq!(error.kind(), ErrorKind::Format);
    assert_eq!(error.disk(), DiskState::EndsZeroed);
}

#[test]
fn a_cancel_is_prompt() {
    let image = disk(9 * MIB, 11);
    let start = std::time::Instant::now();
    let plan = |_| Answer {
        cut: Some(3_000_000),
        stall: true,
        ..Answer::default()
    };
    let error = fail(&image, plan, |request| {
        request.retry.stall = std::time::Duration::from_secs(60);
        let cancel = request.cancel.clone();
        std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(300));
            cancel.cancel();
        });
    });
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    // Long before the stall would end, even on a busy machine.
    assert!(start.elapsed() < std::time::Duration::from_secs(30));
}

/// A server that answers each request with a redirect; its address.
fn redirecting(location: &'static str) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/disk.img", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
                head.push(byte[0]);
            }
            let answer = format!(
                "HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    url
}

#[test]
fn what_no_retry_can_help_fails_at_once() {
    let image = disk(4 * MIB, 7);
    let once = |url: String| {
        let edit = |request: &mut WriteRequest| {
            request.sources = vec![url];
            request.retry.attempts = 1000;
        };
        fail(&image, |_| Answer::default(), edit)
    };
    for location in ["/disk.img", "ftp://192.0.2.1/disk.img"] {
        let error = once(redirecting(location));
        assert_eq!(
            (error.kind(), error.is_retryable()),
            (ErrorKind::Source, false),
            "{}",
            error.chain()
        );
        assert!(error.chain().contains("redirect"), "{}", error.chain());
    }
    for url in [
        "http://",
        "http://a b/",
        "https://[::1/x",
        "http://host:99999/",
    ] {
        let error = once(url.to_owned());
        assert_eq!(error.kind(), ErrorKind::Request, "{}", error.chain());
    }
}

#[test]
fn an_empty_image_is_bad_input() {
    let server = Server::plain(Vec::new());
    let dir = tempfile::tempdir().unwrap();
    let target = used_disk(dir.path(), 24 * MIB);
    let error = write(&request(&server.url, &target, &[])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Format, "{}", error.chain());
    assert!(error.to_string().contains("is empty"), "{error}");
    assert!(ends_are_zero(&target));
}

#[test]
fn mistakes_in_the_request_leave_the_disk_alone() {
    let dir = tempfile::tempdir().unwrap();
    let target = used_disk(dir.path(), 24 * MIB);
    let before = std::fs::read(&target).unwrap();
    let good = "00".repeat(32);
    let mistakes = [
        ("http://192.0.2.1/x", "sha256:abc".to_owned()),
        ("http://192.0.2.1/x", format!("crc32:{good}")),
        ("http://192.0.2.1/x", format!("sha512:{good}")),
        ("http://192.0.2.1/x", "md5:".to_owned() + &"0".repeat(32)),
        ("http://192.0.2.1/x", "ftp://192.0.2.1/SUMS".to_owned()),
        ("ftp://192.0.2.1/x", good.clone()),
    ];
    for (source, checksum) in mistakes {
        let mut request = WriteRequest::new(source, &target);
        request.checksum = Some(checksum.clone());
        let error = write(&request).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Request | ErrorKind::Checksum),
            "{source} {checksum}: {}",
            error.chain()
        );
        assert_eq!(std::fs::read(&target).unwrap(), before, "{checksum}");
    }
}

/// What can be seen at the start of the image costs the disk nothing.
#[test]
fn a_damaged_table_at_the_start_is_refused_before_anything_is_written() {
    for (place, word) in [(512 + 24, "GPT"), (1024 + 40, "GPT")] {
        let mut image = disk(4 * MIB, 21);
        image[place] ^= 0xff;
        let dir = tempfile::tempdir().unwrap();
        let target = used_disk(dir.path(), 4 * MIB);
        let source = dir.path().join("image");
        fs::write(&source, &image).unwrap();
        let mut request = request(source.to_str().unwrap(), &target, &image);
        request.zero_on_refusal = false;
        let error = write(&request).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Format);
        assert_eq!(error.disk(), DiskState::Untouched, "{}", error.chain());
        assert!(error.chain().contains(word), "{}", error.chain());
        assert!(fs::read(&target).unwrap().iter().all(|byte| *byte == 0xff));
    }
}

#[test]
fn an_image_is_not_written_over_itself() {
    let image = disk(4 * MIB, 22);
    let dir = tempfile::tempdir().unwrap();
    let (source, link) = (dir.path().join("image"), dir.path().join("link"));
    fs::write(&source, &image).unwrap();
    fs::hard_link(&source, &link).unwrap();
    for target in [&source, &link] {
        let error = write(&request(source.to_str().unwrap(), target, &image)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Request, "{}", error.chain());
        assert!(error.chain().contains("itself"), "{}", error.chain());
        assert!(fs::read(&source).unwrap() == image);
    }
}

/// Opening a FIFO would wait for somebody to write to it.
#[test]
fn a_fifo_is_no_image_and_no_sums_file() {
    let image = disk(4 * MIB, 23);
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.unwrap().success());
    let (source, target) = (dir.path().join("image"), dir.path().join("new"));
    fs::write(&source, &image).unwrap();
    let mut sums = request(source.to_str().unwrap(), &target, &image);
    sums.checksum = Some(format!("file://{}", fifo.display()));
    for request in [request(fifo.to_str().unwrap(), &target, &image), sums] {
        let error = write(&request).unwrap_err();
        assert!(
            error.chain().contains("neither a file"),
            "{}",
            error.chain()
        );
    }
}

//! One server: ranges, lengths, addresses.

use std::fs;
use std::io::Read;
use std::io::Write;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use wrought_image::ErrorKind;
use wrought_image::write;

use crate::ask;
use crate::fetch;
use crate::scripted::Reply;
use crate::scripted::Scripted;
use crate::support::MIB;
use crate::support::disk;

#[test]
fn a_server_may_send_less_than_was_asked_for() {
    let image = disk(5 * MIB, 1);
    let bytes = image.clone();
    let dying = Scripted::start(move |asked| match asked.number {
        0 => Reply::body(&bytes).cut(MIB),
        _ => Reply::new(404),
    });
    let bytes = image.clone();
    let frugal = Scripted::start(move |asked| {
        let (first, _) = asked.range().unwrap();
        Reply::part(&bytes, first, (first + MIB / 2).min(bytes.len()))
    });
    let sources = [&*dying.url("/x"), &*frugal.url("/x")];
    fetch(&sources, &image, |request| {
        // A part is no failure: no pause comes after it.
        request.retry.delay = Duration::from_secs(3600);
    })
    .unwrap();
    assert_eq!((dying.asked().len(), frugal.asked().len()), (1, 8));
}

#[test]
fn more_bytes_than_announced_are_a_failure() {
    let image = disk(3 * MIB, 2);
    let bytes = image.clone();
    // The length is known from the first answer; the second has no length
    // and goes on behind the end.
    let server = Scripted::start(move |asked| match asked.number {
        0 => Reply::body(&bytes).cut(MIB),
        _ => Reply::body(&[&bytes[..], b"more"].concat()).chunked(),
    });
    let error = fetch(&[&server.url("/x")], &image, |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Source);
    assert!(
        error.to_string().contains("longer than was announced"),
        "{error}"
    );
}

#[test]
fn fewer_bytes_than_announced_are_a_failure() {
    let image = disk(3 * MIB, 3);
    let bytes = image.clone();
    let server = Scripted::start(move |asked| match asked.number {
        0 => Reply::body(&bytes).cut(MIB),
        _ => Reply::body(&bytes[..2 * MIB]).chunked(),
    });
    let error = fetch(&[&server.url("/x")], &image, |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Source);
    assert!(
        error.chain().contains("ended early, 3145728 bytes"),
        "{}",
        error.chain()
    );
}

#[test]
fn an_image_that_shrank_is_said_to_have() {
    let image = disk(3 * MIB, 4);
    let bytes = image.clone();
    let server = Scripted::start(move |asked| match asked.number {
        0 => Reply::body(&bytes).cut(2 * MIB),
        _ => Reply::new(416).header("content-range", "bytes */1000"),
    });
    let error = fetch(&[&server.url("/x")], &image, |_| {}).unwrap_err();
    assert!(error.to_string().contains("became shorter"), "{error}");
}

#[test]
fn the_place_where_a_redirect_led_is_named() {
    let image = disk(2 * MIB, 1);
    let second = Scripted::start(|_| Reply::new(404));
    let to = second.url("/moved");
    let first = Scripted::start(move |_| Reply::redirect(&to));
    let error = fetch(&[&first.url("/image")], &image, |_| {}).unwrap_err();
    let text = error.chain();
    for part in [first.url("/image"), second.url("/moved")] {
        assert!(text.contains(&part), "{part}: {text}");
    }
}

/// What does not speak the protocol is not asked ten times.
#[test]
fn another_protocol_is_no_outage() {
    let image = disk(2 * MIB, 1);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&connections);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            seen.fetch_add(1, Ordering::SeqCst);
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"500 what is it that you want?\r\n");
        }
    });
    for scheme in ["http", "https"] {
        connections.store(0, Ordering::SeqCst);
        let error = fetch(&[&format!("{scheme}://{host}/image")], &image, |_| {}).unwrap_err();
        assert!(
            error.chain().contains("does not speak"),
            "{}",
            error.chain()
        );
        assert_eq!(connections.load(Ordering::SeqCst), 1, "{scheme}");
    }
}

#[test]
fn a_refusal_leaves_no_new_file() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("disk");
    let text = vec![b'x'; MIB];
    let server = Scripted::start(move |_| Reply::body(&text));
    for url in [server.url("/image"), "file:///no/such/image".to_owned()] {
        let request = ask(&[&url], b"", &target, |request| {
            request.zero_on_refusal = false;
        });
        write(&request).unwrap_err();
        assert!(!target.exists(), "{url}");
    }
    // One that was there stays.
    fs::write(&target, b"").unwrap();
    let request = ask(&[&server.url("/image")], b"", &target, |request| {
        request.zero_on_refusal = false;
    });
    write(&request).unwrap_err();
    assert_eq!(fs::read(&target).unwrap(), b"");
}

#[test]
fn the_bytes_are_asked_for_as_they_are() {
    let image = disk(2 * MIB, 5);
    let bytes = image.clone();
    let server = Scripted::start(move |asked| {
        assert_eq!(asked.header("accept-encoding"), Some("identity"));
        assert_eq!(asked.header("referer"), None);
        Reply::ranged(asked, &bytes)
    });
    fetch(&[&server.url("/x")], &image, |_| {}).unwrap();
}

#[test]
fn a_literal_ipv6_address_is_a_host() {
    let Ok(listener) = TcpListener::bind("[::1]:0") else {
        return; // no IPv6 here
    };
    let image = disk(2 * MIB, 6);
    let bytes = image.clone();
    let server = Scripted::on(listener, move |asked| Reply::ranged(asked, &bytes));
    assert!(server.base.starts_with("http://[::1]:"));
    fetch(&[&server.url("/x")], &image, |_| {}).unwrap();
}

#[test]
fn file_urls_name_local_files() {
    let image = disk(2 * MIB, 7);
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a b%.raw"), &image).unwrap();
    let url = format!("file://{}/a%20b%25.raw", dir.path().display());
    fetch(&[&url], &image, |_| {}).unwrap();

    let target = dir.path().join("disk");
    let error = write(&ask(&["file://server/x"], &image, &target, |_| {})).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Request);
    assert!(error.to_string().contains("file:///PATH"), "{error}");
}

//! Several places of one image.

use wrought_image::ErrorKind;

use crate::fetch;
use crate::scripted::Reply;
use crate::scripted::Scripted;
use crate::support::MIB;
use crate::support::disk;

#[test]
fn the_second_goes_on_where_the_first_died() {
    let image = disk(6 * MIB, 1);
    for ranges in [true, false] {
        for gone in [404, 503] {
            let bytes = image.clone();
            let first = Scripted::start(move |asked| match asked.number {
                0 => Reply::body(&bytes).header("etag", "\"a\"").cut(2_500_000),
                _ => Reply::new(gone),
            });
            let bytes = image.clone();
            let second = Scripted::start(move |asked| {
                let reply = if ranges {
                    Reply::ranged(asked, &bytes)
                } else {
                    Reply::body(&bytes)
                };
                // Another server has tags of its own.
                reply.header("etag", "\"b\"")
            });
            let sources = [&*first.url("/1"), &*second.url("/2")];
            let report = fetch(&sources, &image, |_| {}).unwrap();
            assert_eq!(report.source, first.url("/1"), "where it began");
            let asked = second.asked();
            assert_eq!(asked.len(), 1, "{gone}");
            assert_eq!(asked[0].range(), Some((2_500_000, None)));
            assert_eq!(asked[0].header("if-range"), None, "a tag of another server");
        }
    }
}

#[test]
fn the_order_is_kept_while_the_first_works() {
    let image = disk(4 * MIB, 2);
    let bytes = image.clone();
    let first = Scripted::start(move |asked| Reply::ranged(asked, &bytes));
    let second = Scripted::start(|_| Reply::new(404));
    fetch(&[&first.url("/1"), &second.url("/2")], &image, |_| {}).unwrap();
    assert_eq!((first.asked().len(), second.asked().len()), (1, 0));
}

#[test]
fn another_image_at_the_second_place_is_not_mixed_in() {
    let image = disk(4 * MIB, 3);
    let bytes = image.clone();
    let first = Scripted::start(move |asked| match asked.number {
        0 => Reply::body(&bytes).cut(MIB),
        _ => Reply::new(404),
    });
    let other = disk(5 * MIB, 4);
    let second = Scripted::start(move |asked| Reply::ranged(asked, &other));
    let error = fetch(&[&first.url("/1"), &second.url("/2")], &image, |_| {}).unwrap_err();
    let text = error.chain();
    assert_eq!(error.kind(), ErrorKind::Source);
    for part in ["none of the 2 sources", "404", "4194304 bytes, now 5242880"] {
        assert!(text.contains(part), "{part}: {text}");
    }

    // Of the same length: the digest decides.
    let bytes = image.clone();
    let first = Scripted::start(move |asked| match asked.number {
        0 => Reply::body(&bytes).cut(MIB),
        _ => Reply::new(404),
    });
    let other = disk(4 * MIB, 5);
    let second = Scripted::start(move |asked| Reply::ranged(asked, &other));
    let error = fetch(&[&first.url("/1"), &second.url("/2")], &image, |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Checksum, "{}", error.chain());
}

#[test]
fn wrong_bytes_at_the_first_place_are_not_the_end() {
    let image = disk(4 * MIB, 11);
    let mut broken = image.clone();
    broken[3 * MIB] ^= 1;
    let first = Scripted::start(move |asked| Reply::ranged(asked, &broken));
    let bytes = image.clone();
    let second = Scripted::start(move |asked| Reply::ranged(asked, &bytes));
    let report = fetch(&[&first.url("/1"), &second.url("/2")], &image, |_| {}).unwrap();
    assert_eq!(report.source, second.url("/2"));

    // All wrong: each is named, and the end is as after any failure.
    let error = fetch(&[&first.url("/1"), &first.url("/3")], &image, |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Checksum);
    let text = error.chain();
    for part in ["none of the 2 sources", "/1", "/3", "zeroed"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn all_places_are_tried_before_it_is_given_up() {
    let image = disk(2 * MIB, 6);
    let first = Scripted::start(|_| Reply::new(503));
    let second = Scripted::start(|_| Reply::new(500));
    let error = fetch(&[&first.url("/1"), &second.url("/2")], &image, |_| {}).unwrap_err();
    assert!(error.is_retryable(), "{}", error.chain());
    assert!(error.to_string().contains("after 8 attempts"), "{error}");
    assert_eq!((first.asked().len(), second.asked().len()), (4, 4));
}

#[test]
fn a_file_stands_in_for_a_dead_server() {
    let image = disk(4 * MIB, 7);
    let bytes = image.clone();
    let first = Scripted::start(move |asked| match asked.number {
        0 => Reply::body(&bytes).cut(3_000_000),
        _ => Reply::new(503),
    });
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("copy.raw");
    std::fs::write(&path, &image).unwrap();
    let path = path.display().to_string();
    fetch(&[&first.url("/1"), &path], &image, |_| {}).unwrap();
    let missing = dir.path().join("none").display().to_string();
    let report = fetch(&[&missing, &path], &image, |_| {}).unwrap();
    assert_eq!(report.source, path);
}

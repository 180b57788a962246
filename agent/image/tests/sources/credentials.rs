//! Who is shown credentials, and where redirects lead.

use wrought_image::BasicAuth;
use wrought_image::Secret;

use crate::fetch;
use crate::scripted::Reply;
use crate::scripted::Scripted;
use crate::support::MIB;
use crate::support::disk;
use crate::support::sha256;

/// "me:secret" in base64.
const BASIC: &str = "Basic bWU6c2VjcmV0";

#[test]
fn a_redirect_to_another_host_loses_the_credentials() {
    let image = disk(4 * MIB, 1);
    let bytes = image.clone();
    let store = Scripted::start(move |asked| {
        assert_eq!(asked.header("authorization"), None);
        let reply = Reply::ranged(asked, &bytes);
        if asked.number == 0 {
            reply.cut(MIB)
        } else {
            reply
        }
    });
    let elsewhere = store.url("/blob?sig=1");
    let front = Scripted::start(move |asked| match asked.target.as_str() {
        _ if asked.header("authorization") != Some("Bearer letmein") => Reply::new(401),
        "/disk.img" => Reply::redirect("/moved/disk.img"),
        _ => Reply::redirect(&elsewhere),
    });
    let report = fetch(&[&front.url("/disk.img")], &image, |request| {
        request.http.authorization = Some(Secret::new("Bearer letmein"));
    });
    // A lasting address is asked again after the cut: signed ones expire.
    assert_eq!(report.unwrap().source, front.url("/disk.img"));
    assert_eq!((front.asked().len(), store.asked().len()), (4, 2));

    let error = fetch(&[&front.url("/disk.img")], &image, |_| {}).unwrap_err();
    assert!(error.to_string().contains("401"), "{error}");
    assert!(error.to_string().contains("--bearer"), "{error}");
}

#[test]
fn credentials_in_the_url_are_sent_and_not_shown() {
    let image = disk(2 * MIB, 2);
    let bytes = image.clone();
    let server = Scripted::start(move |asked| match asked.header("authorization") {
        Some(BASIC) => Reply::ranged(asked, &bytes),
        _ => Reply::new(403),
    });
    let url = format!("http://me:secret@{}/x", server.host);
    let report = fetch(&[&url], &image, |_| {}).unwrap();
    assert_eq!(report.source, server.url("/x"));
}

#[test]
fn sums_files_elsewhere_do_not_see_them() {
    let image = disk(2 * MIB, 3);
    let bytes = image.clone();
    let sums = format!("{}  x", &sha256(&image)[7..]);
    let beside = sums.clone();
    let server = Scripted::start(move |asked| match asked.header("authorization") {
        Some(BASIC) if asked.target == "/SUMS" => Reply::body(beside.as_bytes()),
        Some(BASIC) => Reply::ranged(asked, &bytes),
        _ => Reply::new(401),
    });
    let other = Scripted::start(move |asked| {
        assert_eq!(asked.header("authorization"), None);
        Reply::body(sums.as_bytes())
    });
    for url in [server.url("/SUMS"), other.url("/SUMS")] {
        let report = fetch(&[&server.url("/x")], &image, |request| {
            request.checksum = Some(url.clone());
            request.http.basic_auth = Some(BasicAuth {
                user: "me".to_owned(),
                password: Secret::new("secret"),
            });
        });
        assert_eq!(report.unwrap().checksum_source, url);
    }
}

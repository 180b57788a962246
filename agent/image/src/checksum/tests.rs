//! Sums files as they are found in the field.

use super::*;

fn hash(digit: char) -> String {
    std::iter::repeat_n(digit, 64).collect()
}

#[test]
fn every_known_form_is_found_by_base_name() {
    let wanted = Ok(Found {
        hex: hash('a'),
        algorithm: None,
    });
    let (a, b) = (hash('a'), hash('b'));
    for text in [
        format!("{b}  other.qcow2\n{a}  disk.qcow2\n"),
        format!("# comment\r\n{b} *other.qcow2\r\n{a} *disk.qcow2\r\n"),
        format!("{a}  ./disk.qcow2"),
        format!(
            "{b}  /x/disk.qcow2.old\n{}  /srv/images/disk.qcow2\n",
            a.to_uppercase()
        ),
        format!("{a}\n"),
        format!("\n\n{}\r\n", a.to_uppercase()),
        format!("{a}\t disk.qcow2"),
    ] {
        assert_eq!(find(&text, "disk.qcow2"), wanted, "{text}");
    }
    let bsd = format!("SHA256 (a/disk.qcow2) = {a}\nSHA512 (disk.qcow2) = {b}{b}");
    let found = find(&bsd, "disk.qcow2").unwrap();
    assert_eq!((found.hex, found.algorithm), (a, Some(Algorithm::Sha256)));
}

#[test]
fn what_is_not_listed_is_not_guessed() {
    let text = format!("{}  other.qcow2\n", hash('a'));
    assert!(
        find(&text, "disk.qcow2")
            .unwrap_err()
            .contains("other.qcow2")
    );
    assert_eq!(find(" \n#x\n", "disk.qcow2"), Err("is empty".to_owned()));
    assert!(find(&format!("{}\n{}", hash('a'), hash('b')), "d").is_err());
}

fn request(checksum: &str) -> WriteRequest {
    let mut request = WriteRequest::new("http://h/a/disk%20one.raw?x=1", "/nowhere");
    request.checksum = Some(checksum.to_owned());
    request
}

#[test]
fn plain_and_prefixed_texts_are_read() {
    let none = |_: &str| panic!("nothing to fetch");
    let upper = hash('A');
    for text in [
        upper.clone(),
        format!("sha256:{upper}"),
        format!("SHA-256:{upper}"),
    ] {
        let expected = resolve(&request(&text), none).unwrap();
        assert_eq!(
            (expected.algorithm, expected.hex),
            (Algorithm::Sha256, hash('a'))
        );
    }
    for text in [
        "sha256:12",
        "crc:12",
        "nonsense",
        &format!("sha512:{upper}"),
        &upper[..32],
    ] {
        let error = resolve(&request(text), none).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Checksum, "{text}");
    }
    let mut md5 = request(&upper[..32]);
    md5.allow_md5 = true;
    assert_eq!(resolve(&md5, none).unwrap().algorithm, Algorithm::Md5);
}

#[test]
fn a_url_is_fetched_and_named() {
    let text = format!("{}  disk one.raw\n", hash('c'));
    let expected = resolve(&request("http://u:secret@h/SUMS"), |url| {
        assert_eq!(url, "http://u:secret@h/SUMS");
        Ok(text.into_bytes())
    });
    let expected = expected.unwrap();
    assert_eq!(
        (expected.hex, expected.origin.as_str()),
        (hash('c'), "http://h/SUMS")
    );
}

#[test]
fn digests_are_right() {
    let mut hasher = Hasher::new(Algorithm::Sha256);
    hasher.update(b"abc");
    assert!(hasher.finish().starts_with("ba7816bf8f01cfea"));
    let mut hasher = Hasher::new(Algorithm::Md5);
    hasher.update(b"abc");
    assert_eq!(hasher.finish(), "900150983cd24fb0d6963f7d28e17f72");
}

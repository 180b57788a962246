//! What becomes of a request's checksum.

use super::*;

fn hash(digit: char) -> String {
    std::iter::repeat_n(digit, 64).collect()
}

fn request(checksum: &str) -> WriteRequest {
    let mut request = WriteRequest::new("http://h/a/disk%20one.raw?x=1", "/nowhere");
    request.checksum = Some(checksum.to_owned());
    request
}

fn nothing_to_fetch(_: &str) -> Result<Vec<u8>, Error> {
    panic!("nothing to fetch")
}

#[test]
fn every_text_is_read_or_refused_with_a_reason() {
    let upper = hash('A');
    let long = format!("{upper}{upper}");
    let md5 = &upper[..32];
    let sha256 = Some(Algorithm::Sha256);
    // Text, algorithm that is said beside it, MD5 allowed, outcome.
    type Row<'a> = (&'a str, Option<Algorithm>, bool, Result<Algorithm, &'a str>);
    let table: [Row<'_>; 16] = [
        (&upper, None, false, Ok(Algorithm::Sha256)),
        (&format!(" {upper}\n"), None, false, Ok(Algorithm::Sha256)),
        (
            &format!("sha256:{upper}"),
            None,
            false,
            Ok(Algorithm::Sha256),
        ),
        (
            &format!("SHA-256:{upper}"),
            sha256,
            false,
            Ok(Algorithm::Sha256),
        ),
        (&long, None, false, Ok(Algorithm::Sha512)),
        (&long, Some(Algorithm::Sha512), false, Ok(Algorithm::Sha512)),
        (
            &format!("sha512:{long}"),
            None,
            false,
            Ok(Algorithm::Sha512),
        ),
        (md5, None, true, Ok(Algorithm::Md5)),
        (md5, None, false, Err("--allow-md5")),
        (
            &format!("md5:{md5}"),
            None,
            false,
            Err("agent_md5_checksum_enable"),
        ),
        (
            md5,
            sha256,
            true,
            Err("said to be sha256 (64 hex digits) but has the length of md5"),
        ),
        (
            &format!("sha512:{upper}"),
            None,
            false,
            Err("said to be sha512"),
        ),
        (
            &format!("sha512:{long}"),
            sha256,
            false,
            Err("sha256 and sha512 at once"),
        ),
        ("sha256:12", None, false, Err("2 characters long")),
        (
            "crc:12",
            None,
            false,
            Err("\"crc\" is not known, use sha256 or sha512"),
        ),
        (
            "nonsense",
            None,
            false,
            Err("expected 64 hex digits (sha256) or 128 (sha512)"),
        ),
    ];
    for (text, said, allow_md5, outcome) in table {
        let mut request = request(text);
        request.checksum_algorithm = said;
        request.allow_md5 = allow_md5;
        match (resolve(&request, None, nothing_to_fetch), outcome) {
            (Ok(expected), Ok(algorithm)) => {
                assert_eq!(expected.algorithm, algorithm, "{text}");
                assert!(!expected.hex.contains('A'), "lower case");
                assert_eq!(expected.origin, "request");
            }
            (Err(error), Err(words)) => {
                assert_eq!(error.kind(), ErrorKind::Checksum);
                assert!(error.to_string().contains(words), "{text}: {error}");
            }
            (found, _) => panic!("{text}: {found:?}"),
        }
    }
}

#[test]
fn a_url_is_fetched_and_named() {
    let text = format!("{}  disk one.raw\n", hash('c'));
    let expected = resolve(&request("http://u:secret@h/SUMS"), None, |url| {
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
fn a_sums_file_that_does_not_help_is_named() {
    let sums = format!("SHA512 (disk one.raw) = {}", hash('c'));
    for (text, words) in [
        (sums.as_str(), "http://h/SUMS is said to be sha512"),
        ("", "the sums file http://h/SUMS is empty"),
        ("aa  disk one.raw", "2 hex digits"),
    ] {
        let fetch = |_: &str| Ok(text.as_bytes().to_vec());
        let error = resolve(&request("http://h/SUMS"), None, fetch).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    // Only MD5 in it.
    let md5 = format!("{}  disk one.raw", &hash('c')[..32]);
    let fetch = |_: &str| Ok(md5.clone().into_bytes());
    let error = resolve(&request("http://h/SUMS"), None, fetch).unwrap_err();
    assert!(
        error.to_string().contains("from http://h/SUMS is MD5"),
        "{error}"
    );
}

#[test]
fn a_registry_names_the_digest_itself() {
    let implied = Implied {
        algorithm: Algorithm::Sha256,
        hex: hash('a'),
        origin: "the manifest of oci://r/n@sha256:1".to_owned(),
        pinned: true,
    };
    let resolve = |checksum: Option<&str>, implied: &Implied| {
        let mut request = request("");
        request.checksum = checksum.map(str::to_owned);
        super::resolve(&request, Some(implied), nothing_to_fetch)
    };
    let expected = resolve(None, &implied).unwrap();
    assert_eq!(
        (expected.hex, expected.origin),
        (hash('a'), implied.origin.clone())
    );
    assert_eq!(
        resolve(Some(&hash('A')), &implied).unwrap().origin,
        "request"
    );
    let error = resolve(Some(&hash('b')), &implied).unwrap_err().to_string();
    assert!(error.contains("belongs to another image"), "{error}");
    let long = format!("{0}{0}", hash('a'));
    let error = resolve(Some(&long), &implied).unwrap_err().to_string();
    assert!(error.contains("give that one, or none"), "{error}");

    let by_tag = Implied {
        pinned: false,
        ..implied
    };
    let error = resolve(None, &by_tag).unwrap_err().to_string();
    assert!(error.contains("(now oci://r/n@sha256:1)"), "{error}");
    assert!(resolve(Some(&hash('a')), &by_tag).is_ok());
}

//! Images in OCI registries.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use serde_json::Value;
use serde_json::json;
use wrought_image::BasicAuth;
use wrought_image::Error;
use wrought_image::ErrorKind;
use wrought_image::RegistryLogin;
use wrought_image::Secret;
use wrought_image::WriteReport;
use wrought_image::WriteRequest;

use crate::fetch;
use crate::scripted::Asked;
use crate::scripted::Reply;
use crate::scripted::Scripted;
use crate::support::MIB;
use crate::support::disk;
use crate::support::sha256;

/// "me:secret" in base64.
const BASIC: &str = "Basic bWU6c2VjcmV0";

fn layer(kind: &str, bytes: &[u8]) -> Value {
    json!({"mediaType": kind, "digest": sha256(bytes), "size": bytes.len()})
}

fn manifest(layers: &[Value]) -> Vec<u8> {
    let value = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": layer("application/vnd.oci.empty.v1+json", b"{}"),
        "layers": layers,
    });
    serde_json::to_vec(&value).unwrap()
}

/// A registry with one image, `os/disk`, and the tag `13`.
struct Registry {
    documents: Vec<Vec<u8>>,
    image: Vec<u8>,
}

impl Registry {
    fn of(image: &[u8]) -> Self {
        let documents = vec![manifest(&[layer("application/vnd.example.disk", image)])];
        Self {
            documents,
            image: image.to_vec(),
        }
    }

    /// `/v2/…` without any check of credentials.
    fn answer(&self, asked: &Asked) -> Reply {
        let by_digest = |bytes: &[u8], kind: &str| {
            asked.target == format!("/v2/os/disk/{kind}/{}", sha256(bytes))
        };
        if by_digest(&self.image, "blobs") {
            return Reply::ranged(asked, &self.image);
        }
        let accept = asked.header("accept").unwrap_or_default();
        assert!(accept.contains("image.manifest.v1+json"), "{asked:?}");
        if asked.target == "/v2/os/disk/manifests/13" {
            return Reply::body(&self.documents[0]);
        }
        let found = self.documents.iter().find(|d| by_digest(d, "manifests"));
        found.map_or(Reply::new(404), |bytes| Reply::body(bytes))
    }

    fn digest(&self) -> String {
        sha256(&self.documents[0])
    }

    fn start(self) -> Scripted {
        Scripted::start(move |asked| self.answer(asked))
    }
}

fn reference(server: &Scripted, digest: &str) -> String {
    format!("oci://{}/os/disk@{digest}", server.host)
}

/// Without a checksum: the manifest has it.
fn pull(
    reference: &str,
    image: &[u8],
    edit: impl FnOnce(&mut WriteRequest),
) -> Result<WriteReport, Error> {
    fetch(&[reference], image, |request| {
        request.checksum = None;
        edit(request);
    })
}

fn me() -> BasicAuth {
    BasicAuth {
        user: "me".to_owned(),
        password: Secret::new("secret"),
    }
}

#[test]
fn an_image_by_digest_needs_no_checksum() {
    let image = disk(4 * MIB, 1);
    let registry = Registry::of(&image);
    let digest = registry.digest();
    let server = registry.start();
    let reference = reference(&server, &digest);
    let report = pull(&reference, &image, |_| {}).unwrap();
    assert_eq!(report.source, reference);
    assert_eq!(
        report.checksum_source,
        format!("the manifest of {reference}")
    );
    assert_eq!(format!("sha256:{}", report.digest), sha256(&image));

    // A checksum beside it must be the same.
    fetch(&[&reference], &image, |_| {}).unwrap();
    let error = fetch(&[&reference], &image, |request| {
        request.checksum = Some(sha256(b"another"));
    })
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Checksum);
    assert!(
        error.to_string().contains("belongs to another image"),
        "{error}"
    );
}

#[test]
fn a_tag_needs_a_checksum_and_tells_its_digest() {
    let image = disk(2 * MIB, 2);
    let registry = Registry::of(&image);
    let digest = registry.digest();
    let server = registry.start();
    let tag = format!("oci://{}/os/disk:13", server.host);
    let error = pull(&tag, &image, |_| {}).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&reference(&server, &digest)), "{text}");
    let report = fetch(&[&tag], &image, |_| {}).unwrap();
    assert_eq!(report.source, reference(&server, &digest));
}

#[test]
fn a_token_is_fetched_and_renewed_and_kept_from_the_store() {
    let image = disk(5 * MIB, 3);
    let registry = Registry::of(&image);
    let digest = registry.digest();
    // Tokens are numbered; each is good for three requests.
    let given = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&given);
    let tokens = Scripted::start(move |asked| {
        assert_eq!(asked.header("authorization"), Some(BASIC));
        let wanted = "/token?a=b&service=reg%26istry&scope=repository%3Aos%2Fdisk%3Apull";
        assert_eq!(asked.target, wanted);
        let number = count.fetch_add(1, Ordering::Relaxed) + 1;
        Reply::body(format!("{{\"access_token\": \"t{number}\"}}").as_bytes())
    });
    let bytes = image.clone();
    let store = Scripted::start(move |asked| {
        assert_eq!(asked.header("authorization"), None);
        let reply = Reply::ranged(asked, &bytes);
        if asked.number < 3 {
            reply.cut(MIB)
        } else {
            reply
        }
    });
    let challenge = format!(
        "Bearer realm=\"{}\",service=\"reg&istry\",scope=\"repository:os/disk:pull\"",
        tokens.url("/token?a=b")
    );
    let blobs = store.url("/blob");
    let used = AtomicUsize::new(0);
    let current = Arc::clone(&given);
    let server = Scripted::start(move |asked| {
        let token = format!("Bearer t{}", current.load(Ordering::Relaxed));
        let good = asked.header("authorization") == Some(token.as_str())
            && used.fetch_add(1, Ordering::Relaxed) % 3 != 2;
        match good {
            false => Reply::new(401).header("www-authenticate", challenge.clone()),
            true if asked.target.contains("/blobs/") => Reply::redirect(&blobs),
            true => registry.answer(asked),
        }
    });
    let url = reference(&server, &digest);
    let report = pull(&url, &image, |request| {
        // Credentials of other registries are not for this one.
        request.http.logins = vec![
            RegistryLogin {
                host: "elsewhere:5000".to_owned(),
                auth: BasicAuth {
                    user: "x".to_owned(),
                    password: Secret::new("x"),
                },
            },
            RegistryLogin {
                host: server.host.clone(),
                auth: me(),
            },
        ];
    });
    assert_eq!(report.unwrap().bytes_in, image.len() as u64);
    assert_eq!(given.load(Ordering::Relaxed), 3);
    assert_eq!(store.asked().len(), 4);
}

#[test]
fn a_registry_may_want_a_password() {
    let image = disk(2 * MIB, 4);
    let registry = Registry::of(&image);
    let digest = registry.digest();
    let server = Scripted::start(move |asked| match asked.header("authorization") {
        Some(BASIC) => registry.answer(asked),
        _ => Reply::new(401).header("www-authenticate", "Basic realm=\"r\""),
    });
    let url = reference(&server, &digest);
    pull(&url, &image, |request| request.http.basic_auth = Some(me())).unwrap();
    let error = pull(&url, &image, |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Source);
    assert!(
        error.to_string().contains("give some with --user"),
        "{error}"
    );
    let error = pull(&url, &image, |request| {
        request.http.basic_auth = Some(BasicAuth {
            user: "me".to_owned(),
            password: Secret::new("wrong"),
        });
    });
    let text = error.unwrap_err().to_string();
    assert!(
        text.contains("with the credentials that were given"),
        "{text}"
    );
    assert!(!text.contains("wrong"), "{text}");
}

#[test]
fn an_index_leads_to_this_machine_s_image() {
    let image = disk(2 * MIB, 5);
    let mut registry = Registry::of(&image);
    let other = manifest(&[layer("application/vnd.example.disk", b"other")]);
    let entry = |bytes: &[u8], architecture: &str| json!({"digest": sha256(bytes), "platform": {"architecture": architecture}});
    let index = json!({"schemaVersion": 2, "manifests": [
        entry(&other, "s390x"),
        entry(&registry.documents[0], std::env::consts::ARCH),
    ]});
    registry
        .documents
        .insert(0, serde_json::to_vec(&index).unwrap());
    let digest = registry.digest();
    let server = registry.start();
    pull(&reference(&server, &digest), &image, |_| {}).unwrap();
}

#[test]
fn what_is_wrong_is_said_in_a_sentence() {
    let image = disk(2 * MIB, 6);
    let disk_layer = layer("application/vnd.example.disk", &image);
    let tar = layer("application/vnd.oci.image.layer.v1.tar+gzip", b"x");
    let long = serde_json::to_vec(&json!({"schemaVersion": 2, "x": "y".repeat(5 << 20)})).unwrap();
    for (document, words) in [
        (
            manifest(&[disk_layer.clone(), disk_layer.clone()]),
            "2 disk images",
        ),
        (manifest(&[tar]), "may be a container's image"),
        (b"<html>".to_vec(), "not JSON"),
        (long, "longer than 4194304 bytes"),
    ] {
        let mut registry = Registry::of(&image);
        registry.documents = vec![document];
        let digest = registry.digest();
        let server = registry.start();
        let error = pull(&reference(&server, &digest), &image, |_| {}).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Source);
        assert!(error.chain().contains(words), "{words}: {}", error.chain());
        assert!(!error.is_retryable());
    }

    // Another manifest than was asked for.
    let (right, wrong) = (manifest(&[disk_layer]), manifest(&[]));
    let server = Scripted::start(move |_| Reply::body(&wrong));
    let error = pull(&reference(&server, &sha256(&right)), &image, |_| {}).unwrap_err();
    assert!(error.to_string().contains("expected sha256:"), "{error}");

    let server = Registry::of(&image).start();
    let error = pull(&reference(&server, &sha256(b"?")), &image, |_| {}).unwrap_err();
    assert!(
        error.to_string().contains("has no manifest sha256:"),
        "{error}"
    );

    let error = pull("oci://host/Name@sha256:1", &image, |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Request);
}

#[test]
fn a_blob_of_another_length_is_refused() {
    let image = disk(2 * MIB, 7);
    let mut wrong = layer("application/vnd.example.disk", &image);
    wrong["size"] = json!(7);
    let mut registry = Registry::of(&image);
    registry.documents = vec![manifest(&[wrong])];
    let digest = registry.digest();
    let server = registry.start();
    let error = pull(&reference(&server, &digest), &image, |_| {}).unwrap_err();
    assert!(
        error.to_string().contains("7 bytes, now 2097152"),
        "{error}"
    );
}

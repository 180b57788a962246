//! Manifests and indexes of images.

use serde_json::Value;

use super::reference::Digest;

/// Media types that are asked for.
pub(super) const ACCEPTED: &str = "application/vnd.oci.image.manifest.v1+json, \
     application/vnd.oci.image.index.v1+json, \
     application/vnd.docker.distribution.manifest.v2+json, \
     application/vnd.docker.distribution.manifest.list.v2+json";

/// What stands in for a layer where there is none.
const EMPTY: &str = "application/vnd.oci.empty.v1+json";
/// The annotation with the name of the file that a layer was.
const TITLE: &str = "org.opencontainers.image.title";
/// Disk types of images that are for no hypervisor's own format.
const DISK_TYPES: [&str; 4] = ["raw", "qcow2", "qemu", "metal"];

/// What a registry answers for a manifest.
#[derive(Debug)]
pub(super) enum Document {
    Image(Image),
    Index(Index),
}

/// The manifest of one image.
#[derive(Debug)]
pub(super) struct Image {
    layers: Vec<Layer>,
}

/// One blob of an image.
#[derive(Debug, Clone)]
pub(super) struct Layer {
    pub(super) digest: Digest,
    pub(super) size: u64,
    media_type: String,
    titled: bool,
}

/// Images for several machines.
#[derive(Debug)]
pub(super) struct Index {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    digest: Digest,
    architecture: String,
    disk_type: Option<String>,
}

impl Document {
    /// Reads a manifest; the error is a clause about it.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let value: Value = serde_json::from_slice(bytes)
            .map_err(|error| format!("its manifest is not JSON ({error})"))?;
        if value["schemaVersion"] != 2 {
            return Err("its manifest is of an old kind that has no digests".to_owned());
        }
        if let Some(entries) = value["manifests"].as_array() {
            let entries: Result<_, _> = entries.iter().map(Entry::parse).collect();
            return Ok(Self::Index(Index { entries: entries? }));
        }
        let Some(layers) = value["layers"].as_array() else {
            return Err("its manifest lists no layers".to_owned());
        };
        let layers: Result<_, _> = layers.iter().map(Layer::parse).collect();
        Ok(Self::Image(Image { layers: layers? }))
    }
}

fn digest(value: &Value) -> Result<Digest, String> {
    let text = value["digest"].as_str().unwrap_or_default();
    Digest::parse(text).ok_or_else(|| {
        let shown: String = text.chars().take(80).collect();
        format!("its manifest holds the digest {shown:?}, expected sha256 or sha512")
    })
}

impl Layer {
    fn parse(value: &Value) -> Result<Self, String> {
        let size = value["size"]
            .as_u64()
            .ok_or("a layer in its manifest has no size")?;
        Ok(Self {
            digest: digest(value)?,
            size,
            media_type: value["mediaType"].as_str().unwrap_or_default().to_owned(),
            titled: value["annotations"][TITLE].is_string(),
        })
    }

    /// Whether this may be a disk. What it really is, its content tells; only
    /// the filesystems of containers and documents are known not to be. Tools
    /// that push any file call it a tar, but note the file's name.
    fn may_be_disk(&self) -> bool {
        let kind = &self.media_type;
        let tar = kind.contains(".tar") || kind.contains("rootfs");
        kind != EMPTY
            && !kind.ends_with("json")
            && !kind.starts_with("text/")
            && (!tar || self.titled)
    }
}

impl Image {
    /// The one disk of the image.
    pub(super) fn disk(&self) -> Result<Layer, String> {
        let disks: Vec<&Layer> = self
            .layers
            .iter()
            .filter(|layer| layer.may_be_disk())
            .collect();
        if let [disk] = disks.as_slice() {
            return Ok((*disk).clone());
        }
        let mut kinds: Vec<&str> = self
            .layers
            .iter()
            .map(|layer| layer.media_type.as_str())
            .collect();
        kinds.truncate(5);
        let kinds = kinds.join(", ");
        Err(if disks.is_empty() {
            format!("it holds no disk image but {kinds}; it may be a container's image")
        } else {
            format!(
                "it holds {} disk images ({kinds}), expected exactly one",
                disks.len()
            )
        })
    }
}

impl Entry {
    fn parse(value: &Value) -> Result<Self, String> {
        Ok(Self {
            digest: digest(value)?,
            architecture: value["platform"]["architecture"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            disk_type: value["annotations"]["disktype"].as_str().map(str::to_owned),
        })
    }

    fn fits(&self, architecture: &str) -> bool {
        let docker = match architecture {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        self.architecture == architecture || self.architecture == docker
    }
}

impl Index {
    /// The image for a machine of this architecture.
    pub(super) fn choose(&self, architecture: &str) -> Result<Digest, String> {
        let mut fitting: Vec<&Entry> = self
            .entries
            .iter()
            .filter(|entry| entry.fits(architecture))
            .collect();
        if fitting.len() > 1 {
            fitting.retain(|entry| {
                let kind = entry.disk_type.as_deref();
                kind.is_some_and(|kind| DISK_TYPES.contains(&kind))
            });
        }
        if let [entry] = fitting.as_slice() {
            return Ok(entry.digest.clone());
        }
        let mut listed: Vec<String> = self.entries.iter().map(Entry::describe).collect();
        listed.truncate(12);
        Err(format!(
            "its index has {} images for {architecture}, expected one; it lists {}",
            fitting.len(),
            listed.join(", ")
        ))
    }
}

impl Entry {
    fn describe(&self) -> String {
        let architecture = if self.architecture.is_empty() {
            "no architecture"
        } else {
            &self.architecture
        };
        match &self.disk_type {
            Some(kind) => format!("{architecture} ({kind})"),
            None => architecture.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn layer(kind: &str, digit: &str, title: Option<&str>) -> Value {
        json!({
            "mediaType": kind,
            "digest": format!("sha256:{}", digit.repeat(64)),
            "size": 5,
            "annotations": title.map(|title| json!({TITLE: title})),
        })
    }

    fn disk(layers: &[Value]) -> Result<String, String> {
        let bytes = serde_json::to_vec(&json!({"schemaVersion": 2, "layers": layers})).unwrap();
        match Document::parse(&bytes)? {
            Document::Image(image) => image.disk().map(|layer| layer.digest.hex[..1].to_owned()),
            Document::Index(_) => Err("an index".to_owned()),
        }
    }

    #[test]
    fn exactly_one_layer_is_the_disk() {
        let qcow2 = layer("application/vnd.example.disk.qcow2", "a", None);
        let zst = layer("application/zstd", "b", Some("disk.raw.zst"));
        let tar = "application/vnd.oci.image.layer.v1.tar";
        let rootfs = layer(&format!("{tar}+gzip"), "c", None);
        let pushed = layer(tar, "d", Some("disk.raw"));
        let empty = layer(EMPTY, "e", None);
        assert_eq!(disk(std::slice::from_ref(&qcow2)), Ok("a".to_owned()));
        assert_eq!(disk(&[empty.clone(), zst.clone()]), Ok("b".to_owned()));
        assert_eq!(disk(&[pushed]), Ok("d".to_owned()));
        let error = disk(&[qcow2, zst]).unwrap_err();
        assert!(error.contains("2 disk images"), "{error}");
        for layers in [vec![rootfs], vec![empty], vec![]] {
            let error = disk(&layers).unwrap_err();
            assert!(error.contains("no disk image"), "{error}");
        }
    }

    #[test]
    fn an_index_is_resolved_by_architecture_and_kind_of_disk() {
        let entry = |arch: &str, kind: Option<&str>, digit: &str| {
            json!({
                "digest": format!("sha256:{}", digit.repeat(64)),
                "platform": {"architecture": arch, "os": "linux"},
                "annotations": kind.map(|kind| json!({"disktype": kind})),
            })
        };
        let choose = |entries: &[Value]| {
            let value = json!({"schemaVersion": 2, "manifests": entries});
            match Document::parse(&serde_json::to_vec(&value).unwrap()).unwrap() {
                Document::Index(index) => index
                    .choose("x86_64")
                    .map(|digest| digest.hex[..1].to_owned()),
                Document::Image(_) => Err("an image".to_owned()),
            }
        };
        let arm = entry("arm64", None, "a");
        assert_eq!(
            choose(&[arm.clone(), entry("amd64", None, "b")]),
            Ok("b".to_owned())
        );
        assert_eq!(
            choose(&[
                entry("x86_64", Some("hyperv"), "c"),
                entry("x86_64", Some("qemu"), "d"),
                entry("aarch64", Some("qemu"), "e")
            ]),
            Ok("d".to_owned())
        );
        let error = choose(&[arm]).unwrap_err();
        assert!(
            error.contains("0 images for x86_64") && error.contains("arm64"),
            "{error}"
        );
    }

    #[test]
    fn other_documents_are_named() {
        for (text, word) in [
            ("<html>", "not JSON"),
            (r#"{"schemaVersion": 1}"#, "old kind"),
            (r#"{"schemaVersion": 2}"#, "no layers"),
            (
                r#"{"schemaVersion": 2, "layers": [{"digest": "md5:1", "size": 1}]}"#,
                "md5:1",
            ),
        ] {
            let error = Document::parse(text.as_bytes()).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}

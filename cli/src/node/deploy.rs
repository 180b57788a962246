//! `wrought node deploy` and `rebuild`: what to write, then the verb.

use std::path::Path;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Context;
use clap::Args;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use super::change::add;
use super::states;
use super::states::Wait;
use crate::client::Client;
use crate::exit::Failure;
use crate::exit::Kind;
use crate::exit::OrExit;
use crate::exit::Outcome;
use crate::private;

/// The largest metadata or user data file that is read.
const FILE_LIMIT: u64 = 16 * 1024 * 1024;

/// The digest of an image, or where it is published.
#[derive(Debug, Clone, PartialEq)]
enum Checksum {
    Digest { algorithm: String, hex: String },
    Url(String),
}

impl FromStr for Checksum {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains("://") {
            return Ok(Self::Url(text.to_owned()));
        }
        let (algorithm, hex) = text
            .split_once(':')
            .ok_or_else(|| "expected ALGO:HEX or a URL".to_owned())?;
        let digits = match algorithm {
            "md5" => 32,
            "sha1" => 40,
            "sha256" => 64,
            "sha384" => 96,
            "sha512" => 128,
            _ => return Err(format!("{algorithm:?} is no hash such as sha256 or sha512")),
        };
        if hex.len() != digits || !hex.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(format!(
                "a digest of {algorithm} has {digits} hexadecimal digits"
            ));
        }
        Ok(Self::Digest {
            algorithm: algorithm.to_owned(),
            hex: hex.to_lowercase(),
        })
    }
}

/// The image
#[derive(Debug, Args)]
struct Image {
    /// URL of the image: http, https, or `oci://HOST/NAME@sha256:…`
    #[arg(long, value_name = "URL")]
    image: String,
    /// Digest of the image file, such as `sha256:…`, or the URL of a file that
    /// holds it; an image in a registry that is named by its digest needs none
    #[arg(long, value_name = "ALGO:HEX|URL")]
    checksum: Option<Checksum>,
    /// Format of the image, such as `raw` or `qcow2` [default: detected]
    #[arg(long)]
    format: Option<String>,
}

/// The config drive
#[derive(Debug, Args)]
struct ConfigDrive {
    /// Metadata for the instance: a file with a JSON object
    #[arg(long, value_name = "FILE")]
    configdrive_meta: Option<PathBuf>,
    /// User data for the instance, such as a cloud-config
    #[arg(long, value_name = "FILE")]
    user_data: Option<PathBuf>,
}

/// `wrought node deploy`
#[derive(Debug, Args)]
pub(crate) struct Deploy {
    /// UUID or name
    node: String,
    #[command(flatten)]
    image: Image,
    #[command(flatten)]
    configdrive: ConfigDrive,
    #[command(flatten)]
    wait: Wait,
}

/// `wrought node rebuild`
#[derive(Debug, Args)]
pub(crate) struct Rebuild {
    /// UUID or name
    node: String,
    /// URL of another image
    #[arg(long, value_name = "URL")]
    image: Option<String>,
    /// Its digest, such as `sha256:…`, or the URL of a file that holds it
    #[arg(long, value_name = "ALGO:HEX|URL", requires = "image")]
    checksum: Option<Checksum>,
    /// Its format, such as `raw` or `qcow2` [default: detected]
    #[arg(long, requires = "image")]
    format: Option<String>,
    #[command(flatten)]
    configdrive: ConfigDrive,
    #[command(flatten)]
    wait: Wait,
}

impl Deploy {
    pub(crate) async fn run(self, client: &Client, json: bool) -> Outcome {
        let body = self.configdrive.body("active")?;
        self.image.set(client, &self.node).await?;
        states::provision(client, &self.node, &body).await?;
        self.wait.follow(client, &self.node, json).await
    }
}

impl Rebuild {
    pub(crate) async fn run(self, client: &Client, json: bool) -> Outcome {
        let body = self.configdrive.body("rebuild")?;
        if let Some(image) = self.image {
            let image = Image {
                image,
                checksum: self.checksum,
                format: self.format,
            };
            image.set(client, &self.node).await?;
        }
        states::provision(client, &self.node, &body).await?;
        self.wait.follow(client, &self.node, json).await
    }
}

/// Keys of `instance_info` that describe one image; those of an earlier image
/// must not stay beside the new ones.
const IMAGE_KEYS: [&str; 5] = [
    "image_source",
    "image_checksum",
    "image_os_hash_algo",
    "image_os_hash_value",
    "image_disk_format",
];

impl Image {
    /// Writes the image into the node's `instance_info`.
    async fn set(&self, client: &Client, node: &str) -> Outcome {
        let pinned = self.image.starts_with("oci://") && self.image.contains("@sha");
        if self.checksum.is_none() && !pinned {
            let text = "no --checksum was given; only an image in a registry that is named by its \
                        digest (oci://HOST/NAME@sha256:…) needs none";
            return Err(Failure::new(Kind::Usage, text));
        }
        let found = client
            .get(&["nodes", node], &[("fields", "instance_info")])
            .await?;
        let patch = self.patch(&found["instance_info"]);
        client
            .patch(&["nodes", node], &[], &Value::Array(patch))
            .await?;
        Ok(())
    }

    fn patch(&self, present: &Value) -> Vec<Value> {
        let mut wanted: Map<String, Value> = Map::new();
        wanted.insert("image_source".to_owned(), json!(self.image));
        match &self.checksum {
            Some(Checksum::Digest { algorithm, hex }) => {
                wanted.insert("image_os_hash_algo".to_owned(), json!(algorithm));
                wanted.insert("image_os_hash_value".to_owned(), json!(hex));
            }
            Some(Checksum::Url(url)) => {
                wanted.insert("image_checksum".to_owned(), json!(url));
            }
            None => {}
        }
        if let Some(format) = &self.format {
            wanted.insert("image_disk_format".to_owned(), json!(format));
        }
        IMAGE_KEYS
            .iter()
            .filter_map(|key| {
                let path = format!("/instance_info/{key}");
                match wanted.get(*key) {
                    Some(value) => Some(add(&path, value.clone())),
                    None if present.get(*key).is_some() => {
                        Some(json!({"op": "remove", "path": path}))
                    }
                    None => None,
                }
            })
            .collect()
    }
}

impl ConfigDrive {
    /// The body of the verb.
    fn body(&self, verb: &str) -> Outcome<Value> {
        let mut drive = Map::new();
        if let Some(file) = &self.configdrive_meta {
            drive.insert("meta_data".to_owned(), metadata(file)?);
        }
        if let Some(file) = &self.user_data {
            let text = private::read(file, FILE_LIMIT).or_exit(Kind::Io)?;
            drive.insert("user_data".to_owned(), Value::from(text));
        }
        let mut body = json!({ "target": verb });
        if !drive.is_empty() {
            body["configdrive"] = Value::Object(drive);
        }
        Ok(body)
    }
}

fn metadata(file: &Path) -> Outcome<Value> {
    let text = private::read(file, FILE_LIMIT).or_exit(Kind::Io)?;
    let value: Value = serde_json::from_str(&text)
        .with_context(|| format!("reading the metadata {}", file.display()))
        .or_exit(Kind::Data)?;
    if value.is_object() {
        return Ok(value);
    }
    let text = format!("the metadata {} are no JSON object", file.display());
    Err(Failure::new(Kind::Data, text))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::json;

    use super::Checksum;
    use super::ConfigDrive;
    use super::Deploy;
    use super::Image;
    use super::Wait;
    use crate::client::tests::Double;
    use crate::exit::Kind;

    #[test]
    fn checksums_are_checked_before_anything_is_sent() {
        let good = format!("sha256:{}", "AB".repeat(32));
        let digest = Checksum::Digest {
            algorithm: "sha256".to_owned(),
            hex: "ab".repeat(32),
        };
        assert_eq!(good.parse(), Ok(digest));
        let url = "https://images.example/SHA256SUMS";
        assert_eq!(url.parse(), Ok(Checksum::Url(url.to_owned())));
        for bad in ["sha256:abc", "abcdef", "crc:00", "sha256:"] {
            assert!(bad.parse::<Checksum>().is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn only_a_digest_in_the_reference_stands_in_for_a_checksum() {
        let image = |url: &str| Image {
            image: url.to_owned(),
            checksum: None,
            format: None,
        };
        let answers = [
            (200, json!({"instance_info": {"image_checksum": "old"}})),
            (200, json!({})),
        ];
        let (double, client) = Double::start(&answers).await;
        for url in ["http://h/a", "oci://h/os:13"] {
            let failure = image(url).set(&client, "n").await.unwrap_err();
            assert_eq!(failure.kind, Kind::Usage, "{url}");
        }
        assert!(double.asked().is_empty());
        let url = "oci://h/os@sha256:00";
        image(url).set(&client, "n").await.unwrap();
        let expected = json!([
            {"op": "add", "path": "/instance_info/image_source", "value": url},
            {"op": "remove", "path": "/instance_info/image_checksum"},
        ]);
        assert_eq!(double.asked()[1].2, expected);
    }

    #[tokio::test]
    async fn image_and_config_drive_travel() {
        let dir = tempfile::tempdir().unwrap();
        let (meta, user) = (dir.path().join("meta"), dir.path().join("user"));
        std::fs::write(&meta, "{\"hostname\": \"h\"}").unwrap();
        std::fs::write(&user, "#cloud-config\n").unwrap();
        let before = json!({"instance_info": {"image_checksum": "http://old", "kept": 1}});
        let answers = [(200, before), (200, json!({})), (202, Value::Null)];
        let (double, client) = Double::start(&answers).await;
        let deploy = Deploy {
            node: "n".to_owned(),
            image: Image {
                image: "http://images.example/a".to_owned(),
                checksum: Some(format!("md5:{}", "0".repeat(32)).parse().unwrap()),
                format: Some("raw".to_owned()),
            },
            configdrive: ConfigDrive {
                configdrive_meta: Some(meta.clone()),
                user_data: Some(user),
            },
            wait: Wait {
                wait: false,
                timeout: 1,
            },
        };
        deploy.run(&client, false).await.unwrap();
        let asked = double.asked();
        let add = |key: &str, value: &str| json!({"op": "add", "path": format!("/instance_info/{key}"), "value": value});
        let expected = json!([
            add("image_source", "http://images.example/a"),
            {"op": "remove", "path": "/instance_info/image_checksum"},
            add("image_os_hash_algo", "md5"),
            add("image_os_hash_value", &"0".repeat(32)),
            add("image_disk_format", "raw"),
        ]);
        assert_eq!(asked[1].2, expected);
        let expected = json!({"target": "active", "configdrive":
            {"meta_data": {"hostname": "h"}, "user_data": "#cloud-config\n"}});
        assert_eq!(asked[2].2, expected);

        std::fs::write(&meta, "[]").unwrap();
        let drive = ConfigDrive {
            configdrive_meta: Some(meta),
            user_data: None,
        };
        assert_eq!(drive.body("active").unwrap_err().kind, Kind::Data);
    }
}

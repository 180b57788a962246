//! A config drive made here: a FAT file system with the files that
//! cloud-init and its like read.

use std::io;
use std::io::Seek;
use std::io::SeekFrom;
use std::io::Write;

use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use crate::deploy::configdrive::PayloadError;
use crate::deploy::configdrive::SIZE;
use crate::deploy::configdrive::fat;
use crate::deploy::configdrive::fat::Node;
use crate::deploy::configdrive::fat::Shape;

/// The label, padded with blanks as FAT wants it.
const FAT_LABEL: [u8; 11] = *b"config-2   ";
/// A FAT16 has at least 4085 clusters; the rest is room for its structures.
const LEAST_SECTORS: u64 = 4608;
/// Keys of the object with the names of their files.
const NAMES: [(&str, &str); 4] = [
    ("meta_data", "meta_data.json"),
    ("user_data", "user_data"),
    ("network_data", "network_data.json"),
    ("vendor_data", "vendor_data.json"),
];

/// The files of a config drive, ready to be written.
#[derive(Clone, PartialEq, Eq)]
pub struct Files(Vec<(&'static str, Vec<u8>)>);

impl std::fmt::Debug for Files {
    /// Names and sizes only: user data is full of secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map()
            .entries(self.0.iter().map(|(name, bytes)| (name, bytes.len())))
            .finish()
    }
}

impl Files {
    /// Reads the object. `meta_data` is made up from the node when it is not
    /// there, since a config drive without one is not taken for one.
    pub fn parse(object: &Map<String, Value>, node: &str) -> Result<Self, PayloadError> {
        if let Some(key) = object
            .keys()
            .find(|key| !NAMES.iter().any(|(name, _)| name == key))
        {
            return Err(PayloadError::UnknownKey(key.clone()));
        }
        let mut files = Vec::new();
        for (key, name) in NAMES {
            let bytes = match object.get(key) {
                None | Some(Value::Null) if key == "meta_data" => {
                    json!({"uuid": node}).to_string().into_bytes()
                }
                None | Some(Value::Null) => continue,
                Some(Value::String(text)) => text.clone().into_bytes(),
                Some(value @ (Value::Object(_) | Value::Array(_))) => {
                    value.to_string().into_bytes()
                }
                Some(other) => {
                    return Err(PayloadError::BadValue {
                        key,
                        found: other.to_string(),
                    });
                }
            };
            files.push((name, bytes));
        }
        let files = Self(files);
        let room = files.room(4096);
        if room > SIZE {
            return Err(PayloadError::TooLarge {
                at_least: room,
                limit: SIZE,
            });
        }
        Ok(files)
    }

    /// Bytes of the smallest partition with sectors of so many bytes that is
    /// sure to hold the files.
    pub fn room(&self, sector: u32) -> u64 {
        LEAST_SECTORS * u64::from(sector).max(512)
            + self
                .0
                .iter()
                .map(|(_, bytes)| bytes.len() as u64)
                .sum::<u64>()
    }

    /// Makes the file system in a volume that is all zeroes. In a partition
    /// of ours it is FAT32 on 512-byte sectors; on larger ones 64 MiB are
    /// too few clusters for that, and it is FAT16.
    pub fn write_fat<T>(&self, volume: &mut T, sector: u32, serial: u32) -> io::Result<()>
    where
        T: Write + Seek,
    {
        let length = volume.seek(SeekFrom::End(0))?;
        let files = self
            .0
            .iter()
            .map(|(name, bytes)| Node::File(name, bytes))
            .collect();
        let root = [Node::Folder(
            "openstack",
            vec![Node::Folder("latest", files)],
        )];
        fat::write(
            volume,
            &Shape {
                length,
                sector,
                serial,
                label: FAT_LABEL,
            },
            &root,
        )
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::Path;
    use std::process::Command;

    use serde_json::Value;
    use serde_json::json;

    use super::Files;
    use crate::deploy::configdrive::PayloadError;

    fn parse(value: Value) -> Result<Files, PayloadError> {
        Files::parse(value.as_object().unwrap(), "node-1")
    }

    fn run(tool: &str, arguments: &[&str], image: &Path) -> String {
        let output = Command::new(tool)
            .args(arguments)
            .arg(image)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "{tool}: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        text
    }

    #[test]
    fn blkid_and_mtools_read_it() {
        let files = parse(json!({
            "meta_data": {"uuid": "u", "hostname": "h1"},
            "user_data": "#cloud-config\n",
            "network_data": {"links": []},
            "vendor_data": {},
        }))
        .unwrap();
        for (sector, kind) in [(512, "FAT32"), (4096, "FAT16")] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("image");
            let file = File::options()
                .create_new(true)
                .read(true)
                .write(true)
                .open(&path)
                .unwrap();
            file.set_len(64 << 20).unwrap();
            files.write_fat(&mut &file, sector, 0x1234_5678).unwrap();
            let blkid = run("/usr/sbin/blkid", &["-p"], &path);
            assert!(blkid.contains("LABEL=\"config-2\""), "{blkid}");
            assert!(blkid.contains(&format!("VERSION=\"{kind}\"")), "{blkid}");
            let fsck = run("/usr/sbin/fsck.vfat", &["-n", "-v"], &path);
            assert!(!fsck.contains("xpected"), "{fsck}");
            let image = path.to_str().unwrap();
            let copy = folder.path().join("copy");
            for (name, expected) in [
                ("meta_data.json", "{\"hostname\":\"h1\",\"uuid\":\"u\"}"),
                ("user_data", "#cloud-config\n"),
                ("network_data.json", "{\"links\":[]}"),
                ("vendor_data.json", "{}"),
            ] {
                std::fs::remove_file(&copy).ok();
                let source = format!("::openstack/latest/{name}");
                run("mcopy", &["-n", "-i", image, &source], &copy);
                assert_eq!(std::fs::read_to_string(&copy).unwrap(), expected);
            }
        }
    }

    #[test]
    fn what_cannot_be_used_is_refused() {
        let error = parse(json!({"meta-data": {}})).unwrap_err().to_string();
        assert!(error.contains("'meta-data'"), "{error}");
        let error = parse(json!({"user_data": 5})).unwrap_err().to_string();
        assert!(error.contains("user_data"), "{error}");
        let large = "x".repeat(50 << 20);
        assert!(matches!(
            parse(json!({"user_data": large})),
            Err(PayloadError::TooLarge { .. })
        ));
    }

    #[test]
    fn shows_no_content() {
        let files = parse(json!({"user_data": "password"})).unwrap();
        assert_eq!(
            format!("{files:?}"),
            "{\"meta_data.json\": 17, \"user_data\": 8}"
        );
    }
}

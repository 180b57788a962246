//! Parameters on virtual media: `PARAMS.TXT`, `CA.PEM`, `IMAGECA.PEM` and
//! `NETDATA.JSN` in the root of the ISO that the conductor made for this node.
//!
//! The disc is read from its block device, without a mount. Only CD drives
//! and removable disks up to 4 GiB are looked at, so that nothing that a
//! tenant left on a disk of the machine is ever taken for parameters.

use std::fs;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use tracing::info;
use wrought_formats::iso9660::ReadError;
use wrought_formats::iso9660::Reader;

use super::Trust;
use super::Words;
use crate::system::read_line;

/// Volume identifier of our ISO.
pub const VOLUME_ID: &str = "WROUGHT_VMEDIA";
const PARAMS: &str = "PARAMS.TXT";
const CA: &str = "CA.PEM";
const IMAGE_CA: &str = "IMAGECA.PEM";
const NETWORK_DATA: &str = "NETDATA.JSN";
/// Bytes that each file may have.
const LIMIT: u64 = 64 * 1024;
/// A removable disk larger than this is no virtual medium.
const LARGEST: u64 = 4 << 30;
/// How long the disc is waited for: BMCs attach it slowly.
const WAIT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_secs(1);

/// Virtual media cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    /// No disc of ours appeared.
    #[error(
        "no virtual medium with volume {VOLUME_ID} appeared within {} s, found {found}: is the ISO still inserted?", WAIT.as_secs()
    )]
    Missing {
        /// The devices that were looked at.
        found: String,
    },
    /// A file on the disc cannot be used.
    #[error("virtual medium {device}: file {name} cannot be read")]
    File {
        /// The block device.
        device: String,
        /// Name on the disc.
        name: &'static str,
        /// What is wrong.
        #[source]
        source: ReadError,
    },
    /// A file on the disc is not text.
    #[error("virtual medium {device}: file {name} is not UTF-8 text")]
    Text {
        /// The block device.
        device: String,
        /// Name on the disc.
        name: &'static str,
    },
}

/// What the disc holds.
#[derive(Debug)]
pub struct Media {
    /// The parameters.
    pub words: Words,
    /// The CA of the API, if it is there.
    pub trust: Option<Trust>,
    /// CAs of image servers, PEM, if they are there.
    pub image_ca: Option<String>,
    /// The network, OpenStack's `network_data.json`, if it is described.
    pub network_data: Option<String>,
}

/// Waits for the disc and reads it.
pub fn wait() -> Result<Media, MediaError> {
    info!("virtual media: waiting for the disc");
    let mut waited = Duration::ZERO;
    loop {
        let devices = candidates(Path::new("/sys/block"));
        for device in &devices {
            if let Some(media) = read(device)? {
                info!("virtual media: parameters read from {}", device.display());
                return Ok(media);
            }
        }
        if waited >= WAIT {
            let names: Vec<String> = devices
                .iter()
                .map(|device| device.display().to_string())
                .collect();
            let found = if names.is_empty() {
                "no such drive".to_owned()
            } else {
                names.join(", ")
            };
            return Err(MediaError::Missing { found });
        }
        std::thread::sleep(POLL);
        waited += POLL;
    }
}

/// Devices that may be virtual media: `/sys/block/sr*`, and removable disks
/// that are small enough.
fn candidates(sys_block: &Path) -> Vec<PathBuf> {
    let mut devices = Vec::new();
    let Ok(entries) = fs::read_dir(sys_block) else {
        return devices;
    };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let attribute = |name: &str| read_line(entry.path().join(name));
        let sectors: u64 = attribute("size")
            .and_then(|text| text.parse().ok())
            .unwrap_or(0);
        let is_cd = name.starts_with("sr");
        let is_small_removable = name.starts_with("sd")
            && attribute("removable").as_deref() == Some("1")
            && sectors.saturating_mul(512) <= LARGEST;
        if sectors > 0 && (is_cd || is_small_removable) {
            devices.push(Path::new("/dev").join(name));
        }
    }
    devices.sort();
    devices
}

/// Reads one device; nothing if it holds no disc of ours.
fn read(device: &Path) -> Result<Option<Media>, MediaError> {
    let Ok(file) = File::open(device) else {
        return Ok(None);
    };
    let read =
        |offset: u64, buffer: &mut [u8]| -> io::Result<()> { file.read_exact_at(buffer, offset) };
    let Ok(mut reader) = Reader::open(read) else {
        return Ok(None);
    };
    if reader.volume_id() != VOLUME_ID {
        return Ok(None);
    }
    let device = device.display().to_string();
    let has = |name| reader.list().iter().any(|entry| entry.name == name);
    let (has_ca, has_image_ca, has_network) = (has(CA), has(IMAGE_CA), has(NETWORK_DATA));
    let mut text = |name: &'static str| {
        let file_error = |source| MediaError::File {
            device: device.clone(),
            name,
            source,
        };
        let bytes = reader.read_file(name, LIMIT).map_err(file_error)?;
        String::from_utf8(bytes).map_err(|_| MediaError::Text {
            device: device.clone(),
            name,
        })
    };
    let words = Words::from_lines(&text(PARAMS)?);
    let trust = if has_ca {
        Some(Trust::Pem(text(CA)?))
    } else {
        None
    };
    let image_ca = if has_image_ca {
        Some(text(IMAGE_CA)?)
    } else {
        None
    };
    let network_data = if has_network {
        Some(text(NETWORK_DATA)?)
    } else {
        None
    };
    Ok(Some(Media {
        words,
        trust,
        image_ca,
        network_data,
    }))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use wrought_formats::iso9660::Builder;
    use wrought_formats::iso9660::Content;

    use super::Trust;
    use super::candidates;
    use super::read;

    fn iso(volume: &str) -> Vec<u8> {
        let params: &[u8] = b"ipa-api-url=https://192.0.2.1:6385\nipa-agent-token=x\n";
        let ca: &[u8] = b"-----BEGIN CERTIFICATE-----\n";
        let files = [
            ("PARAMS.TXT", params),
            ("CA.PEM", ca),
            ("IMAGECA.PEM", ca),
            ("NETDATA.JSN", b"{}"),
        ];
        let mut builder = Builder::new(volume);
        for (name, content) in files {
            builder = builder.file(name, content.len() as u64);
        }
        let layout = builder.layout().unwrap();
        let mut image = vec![0; layout.total_len() as usize];
        for piece in layout.pieces() {
            let at = piece.offset as usize;
            let bytes = match piece.content {
                Content::Metadata => layout.metadata(),
                Content::File(index) => files[index].1,
                _ => continue,
            };
            image[at..at + bytes.len()].copy_from_slice(bytes);
        }
        image
    }

    #[test]
    fn reads_our_disc_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sr0");
        fs::write(&path, iso("WROUGHT_VMEDIA")).unwrap();
        let media = read(&path).unwrap().unwrap();
        assert_eq!(
            media.words.get("ipa-api-url"),
            Some("https://192.0.2.1:6385")
        );
        assert_eq!(
            media.trust,
            Some(Trust::Pem("-----BEGIN CERTIFICATE-----\n".to_owned()))
        );
        assert_eq!(media.network_data.as_deref(), Some("{}"));

        fs::write(&path, iso("OTHER")).unwrap();
        assert!(read(&path).unwrap().is_none());
        fs::write(&path, [0; 4096]).unwrap();
        assert!(read(&path).unwrap().is_none());
    }

    #[test]
    fn only_cds_and_small_removable_disks_count() {
        let sys = tempfile::tempdir().unwrap();
        let disk = |name: &str, sectors: &str, removable: &str| {
            let path = sys.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("size"), sectors).unwrap();
            fs::write(path.join("removable"), removable).unwrap();
        };
        disk("sda", "2048\n", "0\n");
        disk("sdb", "2048\n", "1\n");
        disk("sdc", "20000000\n", "1\n");
        disk("sr0", "20000000\n", "1\n");
        disk("sr1", "0\n", "1\n");
        let names: Vec<String> = candidates(sys.path())
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        assert_eq!(names, ["/dev/sdb", "/dev/sr0"]);
    }
}

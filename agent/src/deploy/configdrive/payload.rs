//! What a config drive is made of, in all the forms in which it comes.

use std::fmt;
use std::io;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;

use base64::engine::general_purpose::STANDARD;
use base64::read::DecoderReader;
use flate2::read::MultiGzDecoder;
use serde_json::Value;

use crate::deploy::configdrive::Files;
use crate::deploy::configdrive::SIZE;

/// Why a config drive cannot be used. Its content is never shown.
#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
    /// A key that no file belongs to.
    #[error(
        "the config drive has the key '{0}'; there are meta_data, user_data, network_data and vendor_data"
    )]
    UnknownKey(String),
    /// A value that no file can be made of.
    #[error("the config drive's {key} is {found}; a text or an object is expected")]
    BadValue {
        /// Which key.
        key: &'static str,
        /// What it is.
        found: String,
    },
    /// Neither object nor text.
    #[error("the config drive is neither an object nor a text (Base64 or a URL)")]
    BadKind,
    /// More than fits.
    #[error("the config drive has at least {at_least} bytes, the most is {limit}")]
    TooLarge {
        /// Bytes seen so far.
        at_least: u64,
        /// The most, bytes.
        limit: u64,
    },
    /// A text that cannot be decoded.
    #[error("the config drive cannot be decoded; Base64 of an image is expected, gzip or not")]
    Decode(#[source] io::Error),
    /// A config drive of no bytes.
    #[error("the config drive decodes to no bytes at all")]
    Empty,
}

/// A config drive as it was given.
#[derive(Debug, Clone)]
pub enum Payload {
    /// Files to make a file system of.
    Files(Files),
    /// A ready image.
    Image(Image),
    /// Where a ready image is to be fetched from.
    Url(String),
}

impl Payload {
    /// Reads the parameter; `None` when there is no config drive. `node` is
    /// who it is for.
    pub fn parse(value: &Value, node: &str) -> Result<Option<Self>, PayloadError> {
        match value {
            Value::Null => Ok(None),
            Value::String(text) if text.trim().is_empty() => Ok(None),
            Value::String(text) if is_url(text) => Ok(Some(Self::Url(text.trim().to_owned()))),
            Value::String(text) => Ok(Some(Self::Image(Image::new(text.as_bytes().to_vec())))),
            Value::Object(object) => {
                Files::parse(object, node).map(|files| Some(Self::Files(files)))
            }
            _ => Err(PayloadError::BadKind),
        }
    }
}

fn is_url(text: &str) -> bool {
    let start = text
        .trim_start()
        .get(..8)
        .unwrap_or_default()
        .to_ascii_lowercase();
    start.starts_with("http://") || start == "https://"
}

/// A ready image: its bytes, or Base64 of them, either with gzip or without.
/// It is decoded again for each use, so that it is in memory only once.
#[derive(Clone)]
pub struct Image {
    bytes: Vec<u8>,
    base64: bool,
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image")
            .field("length", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

impl Image {
    /// An image in any of the forms, told by the content.
    pub fn new(bytes: Vec<u8>) -> Self {
        let letter = |byte: &u8| {
            byte.is_ascii_alphanumeric() || byte.is_ascii_whitespace() || b"+/=".contains(byte)
        };
        let base64 = bytes.iter().all(letter);
        Self { bytes, base64 }
    }

    /// The image's bytes, decoded on the way.
    pub fn reader(&self) -> Result<Box<dyn Read + '_>, PayloadError> {
        let plain: Box<dyn Read + '_> = if self.base64 {
            Box::new(DecoderReader::new(WithoutBlanks(&self.bytes), &STANDARD))
        } else {
            Box::new(self.bytes.as_slice())
        };
        let mut plain = BufReader::with_capacity(64 << 10, plain);
        let start = plain.fill_buf().map_err(PayloadError::Decode)?;
        // RFC 1952 §2.3.1.
        if start.starts_with(&[0x1f, 0x8b]) {
            return Ok(Box::new(MultiGzDecoder::new(plain)));
        }
        Ok(Box::new(plain))
    }

    /// Decodes to the end, to know the size in bytes.
    pub fn measure(&self) -> Result<u64, PayloadError> {
        let mut limited = self.reader()?.take(SIZE + 1);
        let length = io::copy(&mut limited, &mut io::sink()).map_err(PayloadError::Decode)?;
        match length {
            0 => Err(PayloadError::Empty),
            _ if length > SIZE => Err(PayloadError::TooLarge {
                at_least: length,
                limit: SIZE,
            }),
            _ => Ok(length),
        }
    }
}

/// Base64 text may be broken into lines.
struct WithoutBlanks<'a>(&'a [u8]);

impl Read for WithoutBlanks<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            let Some((byte, rest)) = self.0.split_first() else {
                break;
            };
            self.0 = rest;
            if !byte.is_ascii_whitespace() {
                buffer[filled] = *byte;
                filled += 1;
            }
        }
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::io::Write;

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use serde_json::json;

    use super::Image;
    use super::Payload;
    use super::PayloadError;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn decoded(image: &Image) -> Vec<u8> {
        let mut bytes = Vec::new();
        image.reader().unwrap().read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn every_form_gives_the_same_image() {
        let image: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
        let lines: Vec<String> = STANDARD
            .encode(&image)
            .as_bytes()
            .chunks(76)
            .map(|line| String::from_utf8_lossy(line).into_owned())
            .collect();
        for form in [
            image.clone(),
            gzip(&image),
            STANDARD.encode(&image).into_bytes(),
            STANDARD.encode(gzip(&image)).into_bytes(),
            lines.join("\n").into_bytes(),
        ] {
            let given = Image::new(form);
            assert_eq!(given.measure().unwrap(), 200_000);
            assert!(decoded(&given) == image);
        }
    }

    #[test]
    fn limits_and_nonsense() {
        let large = Image::new(gzip(&vec![0; 65 << 20]));
        assert!(matches!(
            large.measure(),
            Err(PayloadError::TooLarge { .. })
        ));
        assert!(matches!(
            Image::new(b"abc".to_vec()).measure(),
            Err(PayloadError::Decode(_))
        ));
        let cut = gzip(&[7; 100_000]);
        assert!(Image::new(cut[..cut.len() / 2].to_vec()).measure().is_err());
    }

    #[test]
    fn kinds() {
        assert!(Payload::parse(&json!(null), "n").unwrap().is_none());
        assert!(Payload::parse(&json!("  "), "n").unwrap().is_none());
        let url = Payload::parse(&json!("https://h/c"), "n").unwrap();
        assert!(matches!(url, Some(Payload::Url(url)) if url == "https://h/c"));
        assert!(matches!(
            Payload::parse(&json!({}), "n"),
            Ok(Some(Payload::Files(_)))
        ));
        assert!(matches!(
            Payload::parse(&json!("YWJj"), "n"),
            Ok(Some(Payload::Image(_)))
        ));
        assert!(matches!(
            Payload::parse(&json!(7), "n"),
            Err(PayloadError::BadKind)
        ));
    }
}

//! Load options: what a `Boot####` variable holds (UEFI 2.10, §3.1.3).

use crate::boot::device_path::utf16;

/// The entry is tried by the boot manager.
pub const ACTIVE: u32 = 1;
/// Longest description that is accepted when reading, in characters.
const LONGEST_DESCRIPTION: usize = 1024;

/// One load option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadOption {
    /// Attribute bits; [`ACTIVE`] among them.
    pub attributes: u32,
    /// What a person sees.
    pub description: String,
    /// Device paths, packed.
    pub device_paths: Vec<u8>,
    /// Passed to the loader.
    pub optional_data: Vec<u8>,
}

/// A variable that is not a load option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It ends too early.
    #[error("a load option ends after {length} bytes, inside its {part}")]
    Short {
        /// Bytes there are.
        length: usize,
        /// What is not whole.
        part: &'static str,
    },
}

impl LoadOption {
    /// An active entry for one device path.
    pub fn new(description: &str, device_paths: Vec<u8>) -> Self {
        Self {
            attributes: ACTIVE,
            description: description.to_owned(),
            device_paths,
            optional_data: Vec::new(),
        }
    }

    /// The bytes of the variable.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(self.attributes.to_le_bytes());
        let length = u16::try_from(self.device_paths.len()).unwrap_or(u16::MAX);
        bytes.extend(length.to_le_bytes());
        bytes.extend(utf16(&self.description));
        bytes.extend(&self.device_paths);
        bytes.extend(&self.optional_data);
        bytes
    }

    /// Reads a variable. A description that is not sound UTF-16 is shown
    /// with replacement characters.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let short = |part| Malformed::Short {
            length: bytes.len(),
            part,
        };
        let (attributes, rest) = bytes.split_first_chunk::<4>().ok_or(short("attributes"))?;
        let (length, rest) = rest.split_first_chunk::<2>().ok_or(short("path length"))?;
        let mut units = Vec::new();
        let mut ended = false;
        let mut used = 0;
        for unit in rest.chunks_exact(2).take(LONGEST_DESCRIPTION) {
            used += 2;
            let unit = u16::from_le_bytes([unit[0], unit[1]]);
            if unit == 0 {
                ended = true;
                break;
            }
            units.push(unit);
        }
        if !ended {
            return Err(short("description"));
        }
        let length = usize::from(u16::from_le_bytes(*length));
        let tail = &rest[used..];
        let (paths, data) = tail.split_at_checked(length).ok_or(short("device paths"))?;
        Ok(Self {
            attributes: u32::from_le_bytes(*attributes),
            description: String::from_utf16_lossy(&units),
            device_paths: paths.to_vec(),
            optional_data: data.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::LoadOption;
    use super::Malformed;
    use proptest::prelude::*;

    #[test]
    fn bytes_of_the_specification() {
        let option = LoadOption::new("ab", vec![0x7f, 0xff, 4, 0]);
        assert_eq!(
            option.encode(),
            [1, 0, 0, 0, 4, 0, b'a', 0, b'b', 0, 0, 0, 0x7f, 0xff, 4, 0]
        );
        assert_eq!(LoadOption::decode(&option.encode()), Ok(option));
    }

    #[test]
    fn cut_short() {
        let bytes = LoadOption::new("ab", vec![0x7f, 0xff, 4, 0]).encode();
        for length in 0..bytes.len() {
            let error = LoadOption::decode(&bytes[..length]).unwrap_err();
            assert!(matches!(error, Malformed::Short { length: found, .. } if found == length));
        }
    }

    proptest! {
        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(option) = LoadOption::decode(&bytes) {
                prop_assert!(option.device_paths.len() <= bytes.len());
            }
        }
    }
}

//! IDENTIFY DEVICE: what an ATA drive can do and how its security stands.

use std::time::Duration;

use crate::disk::drive::DriveError;
use crate::disk::drive::Passthrough;
use crate::disk::drive::Transfer;
use crate::disk::drive::ata::SHORT_LIMIT;
use crate::disk::drive::ata::TaskFile;
use crate::disk::drive::ata::submit;
use crate::disk::drive::sanitize::Action;

/// IDENTIFY DEVICE (ACS-4 §7.13).
pub(crate) const IDENTIFY_DEVICE: u8 = 0xec;
const NAME: &str = "IDENTIFY DEVICE";
const BYTES: usize = 512;

/// What counts for an erase (ACS-4 table 45).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Kinds of sanitize, the best first (word 59).
    pub(crate) sanitize: Vec<Action>,
    /// Security commands are there (words 82 and 128).
    pub(crate) security: bool,
    /// A password is set (words 85 and 128).
    pub(crate) enabled: bool,
    /// The drive wants it (word 128).
    pub(crate) locked: bool,
    /// Security commands are refused until the next power cycle (word 128).
    pub(crate) frozen: bool,
    /// Too many wrong passwords (word 128).
    pub(crate) expired: bool,
    /// Enhanced erase is there (word 128).
    pub(crate) enhanced: bool,
    /// Time that a normal erase takes (word 89).
    pub(crate) normal_time: Option<Duration>,
    /// Time that an enhanced erase takes (word 90).
    pub(crate) enhanced_time: Option<Duration>,
}

impl Identity {
    /// Asks the drive.
    pub(crate) fn read(drive: &dyn Passthrough) -> Result<Self, DriveError> {
        let mut page = [0_u8; BYTES];
        let task = TaskFile {
            command: IDENTIFY_DEVICE,
            count: 1,
            ..TaskFile::default()
        };
        submit(drive, NAME, task, Transfer::In(&mut page), SHORT_LIMIT)?;
        let wrong = |wrong| {
            Err(DriveError::Answer {
                command: NAME,
                wrong,
            })
        };
        if page.iter().all(|byte| *byte == 0) {
            return wrong("is empty");
        }
        // Word 255: A5h makes the other byte a checksum of all 512.
        if page[510] == 0xa5 && page.iter().fold(0_u8, |sum, b| sum.wrapping_add(*b)) != 0 {
            return wrong("has a wrong checksum");
        }
        Ok(Self::decode(&page))
    }

    fn decode(page: &[u8; BYTES]) -> Self {
        let word = |number: usize| u16::from_le_bytes([page[2 * number], page[2 * number + 1]]);
        let bit = |number, bit: u32| word(number) & 1 << bit != 0;
        // Words 83 and 87 say in bits 15:14 whether 82 to 87 are valid.
        let valid = |number| word(number) >> 14 == 0b01;
        let listed = valid(83) && bit(82, 1);
        let switched = valid(87) && bit(85, 1);
        // Bit 12 is the feature set; 13 crypto scramble, 15 block erase, 14
        // overwrite.
        let kinds = [
            (13, Action::Crypto),
            (15, Action::Block),
            (14, Action::Overwrite),
        ];
        let sanitize = kinds
            .into_iter()
            .filter(|(b, _)| bit(59, 12) && bit(59, *b));
        Self {
            sanitize: sanitize.map(|(_, action)| action).collect(),
            security: listed && bit(128, 0),
            enabled: switched || bit(128, 1),
            locked: bit(128, 2),
            frozen: bit(128, 3),
            expired: bit(128, 4),
            enhanced: bit(128, 5),
            normal_time: erase_time(word(89)),
            enhanced_time: erase_time(word(90)),
        }
    }
}

/// Words 89 and 90: units of two minutes, in 15 bits when the highest is
/// set, else in 8; 0 is unknown, the largest is "more than".
fn erase_time(word: u16) -> Option<Duration> {
    let units = if word & 0x8000 == 0 {
        word & 0xff
    } else {
        word & 0x7fff
    };
    (units != 0).then(|| Duration::from_secs(u64::from(units) * 120))
}

#[cfg(test)]
mod tests {
    use super::erase_time;
    use std::time::Duration;

    #[test]
    fn times_of_both_formats() {
        assert_eq!(erase_time(0), None);
        assert_eq!(erase_time(2), Some(Duration::from_secs(240)));
        assert_eq!(erase_time(0x8000 | 300), Some(Duration::from_secs(36_000)));
    }
}

//! By what means a disk can be erased, and which level that reaches.

use std::fmt;

use crate::disk::drive::nvme::FormatErase;
use crate::disk::drive::sanitize::Action;

/// A way for a drive to erase itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// NVMe Sanitize.
    NvmeSanitize(Action),
    /// NVMe Format NVM.
    NvmeFormat(FormatErase),
    /// ATA SANITIZE DEVICE.
    AtaSanitize(Action),
    /// ATA SECURITY ERASE UNIT, enhanced or not.
    AtaSecurityErase {
        /// All media, reallocated sectors too, with a pattern of the vendor.
        enhanced: bool,
    },
    /// SCSI SANITIZE.
    ScsiSanitize(Action),
    /// Discard of all copies, as SD cards and eMMC have it.
    SecureDiscard,
}

/// What is true of the data afterwards, the strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// The key that all data was encrypted with is gone.
    CryptographicErase,
    /// All media were erased by the drive, hidden areas too.
    BlockErase,
    /// The drive has overwritten all its media, hidden areas too.
    MediaOverwrite,
    /// The drive has erased all user data, how is its own affair.
    UserDataErase,
    /// All copies of the data were discarded.
    SecureDiscard,
    /// All addresses were overwritten from outside; what the drive has
    /// taken out of use is not reached.
    Overwrite,
    /// Only what makes the disk look used is gone; the data stays.
    MetadataOnly,
    /// Nothing was done.
    Untouched,
}

impl Level {
    /// The word in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CryptographicErase => "crypto-erase",
            Self::BlockErase => "block-erase",
            Self::MediaOverwrite => "media-overwrite",
            Self::UserDataErase => "user-data-erase",
            Self::SecureDiscard => "secure-discard",
            Self::Overwrite => "overwrite",
            Self::MetadataOnly => "metadata-only",
            Self::Untouched => "untouched",
        }
    }
}

fn sanitize_level(action: Action) -> Level {
    match action {
        Action::Crypto => Level::CryptographicErase,
        Action::Block => Level::BlockErase,
        Action::Overwrite => Level::MediaOverwrite,
    }
}

fn sanitize_name(action: Action) -> &'static str {
    match action {
        Action::Crypto => "cryptographic erase",
        Action::Block => "block erase",
        Action::Overwrite => "overwrite",
    }
}

impl Means {
    /// What it reaches when the drive keeps its word.
    pub fn level(self) -> Level {
        match self {
            Self::NvmeSanitize(action) | Self::AtaSanitize(action) | Self::ScsiSanitize(action) => {
                sanitize_level(action)
            }
            Self::NvmeFormat(FormatErase::Crypto) => Level::CryptographicErase,
            Self::NvmeFormat(FormatErase::UserData) | Self::AtaSecurityErase { .. } => {
                Level::UserDataErase
            }
            Self::SecureDiscard => Level::SecureDiscard,
        }
    }

    /// Whether it takes as long as writing all of the disk.
    pub fn is_slow(self) -> bool {
        matches!(
            self,
            Self::NvmeSanitize(Action::Overwrite)
                | Self::AtaSanitize(Action::Overwrite)
                | Self::ScsiSanitize(Action::Overwrite)
                | Self::AtaSecurityErase { .. }
        )
    }
}

impl fmt::Display for Means {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NvmeSanitize(action) => write!(f, "NVMe sanitize, {}", sanitize_name(*action)),
            Self::NvmeFormat(FormatErase::Crypto) => {
                f.write_str("NVMe format, cryptographic erase")
            }
            Self::NvmeFormat(FormatErase::UserData) => f.write_str("NVMe format, user data erase"),
            Self::AtaSanitize(action) => write!(f, "ATA sanitize, {}", sanitize_name(*action)),
            Self::AtaSecurityErase { enhanced: true } => f.write_str("ATA enhanced security erase"),
            Self::AtaSecurityErase { enhanced: false } => f.write_str("ATA security erase"),
            Self::ScsiSanitize(action) => write!(f, "SCSI sanitize, {}", sanitize_name(*action)),
            Self::SecureDiscard => f.write_str("secure discard"),
        }
    }
}

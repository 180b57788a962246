//! API microversions 1.N.

use std::fmt;
use std::str::FromStr;

/// Header that asks for a microversion and tells the one granted.
pub const HEADER: &str = "x-openstack-ironic-api-version";
/// Header that tells the lowest microversion.
pub const HEADER_MIN: &str = "x-openstack-ironic-api-minimum-version";
/// Header that tells the highest microversion.
pub const HEADER_MAX: &str = "x-openstack-ironic-api-maximum-version";
/// The generic header: `baremetal 1.N`.
pub const HEADER_GENERIC: &str = "openstack-api-version";

/// The N of a microversion 1.N.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Microversion(pub u16);

impl Microversion {
    /// The lowest; also what a request without a header gets.
    pub const MIN: Self = Self(1);
    /// The highest.
    pub const MAX: Self = Self(115);
}

impl fmt::Display for Microversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.0)
    }
}

/// A header value that names no version we have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadVersion {
    /// Not of the form 1.N.
    #[error("{0:?} is not of the form 1.N")]
    Malformed(String),
    /// A good version that we do not have.
    #[error("version {0} is outside of {min} to {max}", min = Microversion::MIN, max = Microversion::MAX)]
    Unsupported(String),
}

impl FromStr for Microversion {
    type Err = BadVersion;

    /// Reads `1.N` or `latest`.
    fn from_str(text: &str) -> Result<Self, BadVersion> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("latest") {
            return Ok(Self::MAX);
        }
        let malformed = || BadVersion::Malformed(text.to_owned());
        let (major, minor) = text.split_once('.').ok_or_else(malformed)?;
        let number = |part: &str| {
            if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
                return Err(malformed());
            }
            part.parse::<u16>().map_err(|_| malformed())
        };
        let (major, minor) = (number(major)?, Self(number(minor)?));
        if major != 1 || minor < Self::MIN || minor > Self::MAX {
            return Err(BadVersion::Unsupported(text.to_owned()));
        }
        Ok(minor)
    }
}

#[cfg(test)]
mod tests {
    use super::BadVersion;
    use super::Microversion;

    #[test]
    fn reads_versions() {
        assert_eq!("1.82".parse(), Ok(Microversion(82)));
        assert_eq!("latest".parse(), Ok(Microversion::MAX));
        for bad in ["1", "1.", ".5", "1.+5", "one", ""] {
            assert!(
                matches!(bad.parse::<Microversion>(), Err(BadVersion::Malformed(_))),
                "{bad}"
            );
        }
        for bad in ["0.9", "2.0", "1.0", "1.116"] {
            assert!(
                matches!(bad.parse::<Microversion>(), Err(BadVersion::Unsupported(_))),
                "{bad}"
            );
        }
    }
}

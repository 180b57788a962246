//! MAC addresses.

use std::fmt;
use std::str::FromStr;

/// A MAC address, shown as `aa:bb:cc:dd:ee:ff`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

/// Text that is no MAC address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a MAC address")]
pub struct BadMac(String);

impl Mac {
    /// Whether it could belong to a NIC: not all zeroes and not a group
    /// address.
    pub fn is_usable(self) -> bool {
        self.0 != [0; 6] && self.0[0] & 1 == 0
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for Mac {
    type Err = BadMac;

    /// Reads colons or hyphens, any case, with or without the hardware type
    /// that PXE puts before it (`01-`).
    fn from_str(text: &str) -> Result<Self, BadMac> {
        let error = || BadMac(text.to_owned());
        let parts: Vec<&str> = text.trim().split([':', '-']).collect();
        let parts = match parts.as_slice() {
            [_, rest @ ..] if parts.len() == 7 => rest,
            parts => parts,
        };
        let mut mac = [0; 6];
        if parts.len() != mac.len() {
            return Err(error());
        }
        for (byte, part) in mac.iter_mut().zip(parts) {
            if part.len() != 2 {
                return Err(error());
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| error())?;
        }
        Ok(Self(mac))
    }
}

#[cfg(test)]
mod tests {
    use super::Mac;

    #[test]
    fn reads_every_spelling() {
        for text in [
            "52:54:00:AB:cd:ef",
            "52-54-00-ab-cd-ef",
            "01-52-54-00-ab-cd-ef\n",
        ] {
            assert_eq!(
                text.parse::<Mac>().unwrap().to_string(),
                "52:54:00:ab:cd:ef",
                "{text}"
            );
        }
        for text in [
            "",
            "52:54:00:ab:cd",
            "52:54:00:ab:cd:e",
            "5254:00:ab:cd:ef:00",
            "01:02:03:04:05:06:07:08",
        ] {
            assert!(text.parse::<Mac>().is_err(), "{text}");
        }
    }

    #[test]
    fn group_and_zero_addresses_are_not_usable() {
        assert!(!Mac([0; 6]).is_usable());
        assert!(!Mac([1, 0, 0x5e, 0, 0, 1]).is_usable());
        assert!(Mac([0x52, 0x54, 0, 0, 0, 1]).is_usable());
    }
}

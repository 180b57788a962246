//! Root device hints: which disk a node's owner means.
//!
//! A set of hints is a JSON object of keys and expressions, all of which must
//! hold. Keys and operators are Ironic's:
//!
//! | expression | holds when the disk's value |
//! |---|---|
//! | `x` | is x |
//! | `= n` | is at least n |
//! | `== != >= <= > < n` | compares so, as numbers |
//! | `s== s!= s>= s<= s> s< x` | compares so, as texts |
//! | `<in> x` | contains x |
//! | `<all-in> x y` | contains every word |
//! | `<or> x <or> y` | is one of these |
//! | `<range-in> [ a b ]` | lies between, `(` and `)` leave the ends out |
//!
//! Texts are compared trimmed and in lower case. A disk that lacks the value
//! does not match.

mod expression;
mod matching;
mod parse;

pub use expression::Expression;
pub use expression::NumberOp;
pub use expression::TextOp;
pub use matching::Candidate;
pub use parse::HintError;
pub use parse::parse;

use std::fmt;

/// What a hint is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// Size in GiB, fractions count.
    Size,
    /// Model.
    Model,
    /// World wide name.
    Wwn,
    /// Serial number, any that the disk has.
    Serial,
    /// Vendor.
    Vendor,
    /// World wide name with its vendor's extension.
    WwnWithExtension,
    /// The vendor's extension alone.
    WwnVendorExtension,
    /// Device node or any link to it below `/dev/disk`.
    Name,
    /// Whether it turns.
    Rotational,
    /// SCSI address.
    Hctl,
    /// Link below `/dev/disk/by-path`.
    ByPath,
    /// How it is attached.
    Tran,
}

/// All keys with their names.
pub(crate) const KEYS: [(&str, Key); 12] = [
    ("size", Key::Size),
    ("model", Key::Model),
    ("wwn", Key::Wwn),
    ("serial", Key::Serial),
    ("vendor", Key::Vendor),
    ("wwn_with_extension", Key::WwnWithExtension),
    ("wwn_vendor_extension", Key::WwnVendorExtension),
    ("name", Key::Name),
    ("rotational", Key::Rotational),
    ("hctl", Key::Hctl),
    ("by_path", Key::ByPath),
    ("tran", Key::Tran),
];

impl Key {
    /// The key's name in a hint object.
    pub fn name(self) -> &'static str {
        KEYS.iter()
            .find(|(_, key)| *key == self)
            .map_or("", |(name, _)| name)
    }
}

/// One key with what is asked of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Hint {
    /// What it is about.
    pub key: Key,
    /// What must hold.
    pub expression: Expression,
    /// As it was written.
    pub written: String,
}

/// Hints that must all hold.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Hints(pub Vec<Hint>);

impl fmt::Display for Hints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, hint) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{}: {}", hint.key.name(), hint.written)?;
        }
        Ok(())
    }
}

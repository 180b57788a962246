//! Reading small attribute files of the kernel, with a bound.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// No attribute that we read is longer; sysfs itself ends at a page.
const LIMIT: u64 = 4096;
/// Longest listing in `/proc` that we read.
const LISTING_LIMIT: u64 = 4 << 20;

fn bounded(path: &Path, limit: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)
        .ok()?
        .take(limit)
        .read_to_end(&mut bytes)
        .ok()?;
    Some(bytes)
}

/// The bytes of an attribute; absent when it is not there or not readable,
/// which for a device that lacks a feature is the same thing.
pub(crate) fn bytes(path: &Path) -> Option<Vec<u8>> {
    bounded(path, LIMIT)
}

/// The text of an attribute, trimmed, inner runs of blanks made one; absent
/// when empty.
pub(crate) fn text(path: &Path) -> Option<String> {
    clean(&bytes(path)?)
}

/// An attribute that is a number.
pub(crate) fn number(path: &Path) -> Option<u64> {
    text(path)?.parse().ok()
}

/// An attribute that is 0 or 1.
pub(crate) fn flag(path: &Path) -> bool {
    number(path) == Some(1)
}

/// A listing such as `/proc/self/mountinfo`; empty when it is not there.
pub(crate) fn listing(path: &Path) -> String {
    bounded(path, LISTING_LIMIT)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}

/// Names in a directory, sorted; empty when it is not there.
pub(crate) fn names(path: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(path) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort_unstable();
    names
}

/// Text from device bytes: control characters out, blanks trimmed.
pub(crate) fn clean(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let text: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then_some(text)
}

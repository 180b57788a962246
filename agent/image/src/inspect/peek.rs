//! Single pieces of an image, as far as they are cheap to get.

use crate::error::Error;
use crate::source::Source;

/// The part of an image that may be looked at.
pub(super) struct Peek<'a> {
    head: &'a [u8],
    size: Option<u64>,
    /// A source that is read anywhere at no cost.
    source: Option<Box<dyn Source>>,
}

impl<'a> Peek<'a> {
    pub(super) fn new(head: &'a [u8], size: Option<u64>, source: Option<Box<dyn Source>>) -> Self {
        Self { head, size, source }
    }

    /// The first bytes of the image: all of it, or 1 MiB.
    pub(super) fn head(&self) -> &'a [u8] {
        self.head
    }

    /// Bytes of the image, when known.
    pub(super) fn size(&self) -> Option<u64> {
        self.size
    }

    /// Some bytes of the image, fewer at its end; `None` when they are not
    /// cheap to get.
    pub(super) fn bytes(&mut self, at: u64, len: usize) -> Result<Option<Vec<u8>>, Error> {
        let held = usize::try_from(at)
            .ok()
            .and_then(|start| self.head.get(start..start.checked_add(len)?));
        if let Some(bytes) = held {
            return Ok(Some(bytes.to_vec()));
        }
        match &mut self.source {
            Some(source) => read(&mut **source, at, len).map(Some),
            None => Ok(None),
        }
    }
}

/// Reads `len` bytes, fewer at the end of the source.
pub(super) fn read(source: &mut dyn Source, at: u64, len: usize) -> Result<Vec<u8>, Error> {
    source.seek(at, Some(at.saturating_add(len as u64)));
    let mut bytes = vec![0; len];
    let mut filled = 0;
    while filled < bytes.len() {
        match source.read(&mut bytes[filled..])? {
            0 => break,
            count => filled += count,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

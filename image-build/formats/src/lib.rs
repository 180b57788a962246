//! Bytes to structures and back: disk, image and archive formats, without I/O.
//!
//! Every parser here takes bytes that may be hostile: arithmetic is checked,
//! sizes are bounded, refusals are typed and say what was found and what
//! would have been right. Callers do the reading and writing.

pub mod cpio;
pub mod detect;
pub mod gpt;
pub mod iso9660;
pub mod mbr;
pub mod qcow2;
pub mod xz;
pub mod zstd;

//! The config drive: a small partition labelled `config-2` at the disk's
//! end, from which the deployed system learns who it is.
//!
//! It comes as an object of files, of which a FAT file system is made, or as
//! a ready image in Base64, gzip or not, or as a URL of either.

mod fat;
mod files;
mod payload;
mod place;

pub use files::Files;
pub use payload::Image;
pub use payload::Payload;
pub use payload::PayloadError;
pub use place::Content;
pub use place::PlaceError;
pub use place::Placed;
pub use place::place;

/// Name of the partition and label of its file system.
pub const LABEL: &str = "config-2";
/// Size of the partition, and the most that a config drive may have.
pub const SIZE: u64 = 64 << 20;

//! The data path: source → verify → decode → sink.
//!
//! [`write`] streams one image from an HTTP(S) server or a file to a block
//! device or a plain file, in memory that does not depend on the image's
//! size, and leaves the target unbootable unless every byte was verified.
//! It blocks and runs threads of its own; call it from a blocking context.
//! [`inspect`] says what an image is and whether it would be written.
//!
//! The order on the disk is the crate's promise: both ends of the disk are
//! zeroed and flushed before the first data byte; the first and last MiB of
//! the image are held back in memory until the digest is right and all else
//! is flushed; any failure zeroes both ends again.

mod budget;
mod buffer;
mod cancel;
mod checksum;
pub mod cli;
mod cluster;
mod container;
mod control;
mod decoder;
mod error;
mod finish;
mod foreign;
#[doc(hidden)]
pub mod fuzzing;
mod halt;
mod inspect;
mod layout;
mod pipeline;
mod progress;
mod qcow2;
mod queue;
mod raw;
mod readback;
mod redact;
mod report;
mod request;
mod sink;
mod size;
mod source;
mod table;
mod target;
mod worker;
mod write;

pub use cancel::CancelToken;
pub use error::DiskState;
pub use error::Error;
pub use error::ErrorKind;
pub use error::Stage;
pub use inspect::ImageFacts;
pub use inspect::Qcow2Facts;
pub use inspect::inspect;
pub use progress::Progress;
pub use progress::ProgressFn;
pub use report::PartitionInfo;
pub use report::TableKind;
pub use report::TableReport;
pub use report::WriteReport;
pub use request::Algorithm;
pub use request::BasicAuth;
pub use request::DEFAULT_MEMORY;
pub use request::HttpOptions;
pub use request::LEAST_MEMORY;
pub use request::Layout;
pub use request::RegistryLogin;
pub use request::Retry;
pub use request::Secret;
pub use request::WriteRequest;
pub use wrought_formats::detect::Format;

/// The TLS configuration towards image servers, for other things that are
/// fetched from them.
///
/// # Errors
/// A CA that cannot be used.
pub fn tls_config(options: &HttpOptions) -> Result<rustls::ClientConfig, Error> {
    source::tls_config(options)
}

/// Writes an image to a disk; see [`WriteRequest`] for what can be asked.
///
/// # Errors
/// [`Error`] with its kind, stage and offset; [`Error::disk`] says what the
/// target holds afterwards.
pub fn write(request: &WriteRequest) -> Result<WriteReport, Error> {
    write::write(request)
}

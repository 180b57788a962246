//! The one error of this crate: what went wrong, where, and what the target
//! holds now.

use std::error::Error as StdError;
use std::fmt;

/// Class of a failure; what a caller decides on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request itself is wrong or incomplete.
    Request,
    /// The source cannot be reached or read, or does not hold what it announced.
    Source,
    /// The digest differs, or the expected one cannot be found out.
    Checksum,
    /// The image is damaged, or of a kind that is not written.
    Format,
    /// The disk refuses, is in use, or failed.
    Target,
    /// The image does not fit the disk.
    TooLarge,
    /// The memory budget is too small for this image.
    Memory,
    /// The caller cancelled.
    Cancelled,
    /// A defect of this program.
    Internal,
}

impl ErrorKind {
    /// Stable lower-case name, for JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Source => "source",
            Self::Checksum => "checksum",
            Self::Format => "format",
            Self::Target => "target",
            Self::TooLarge => "too_large",
            Self::Memory => "memory",
            Self::Cancelled => "cancelled",
            Self::Internal => "internal",
        }
    }

    /// Exit code of the command line (sysexits).
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Request => 64,
            Self::Checksum | Self::Format | Self::TooLarge | Self::Memory => 65,
            Self::Source => 69,
            Self::Cancelled | Self::Internal => 70,
            Self::Target => 74,
        }
    }
}

/// What was being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// Looking at the request, the target and the start of the source.
    Check,
    /// Reading from the source.
    Fetch,
    /// Comparing digests.
    Verify,
    /// Understanding the image's format.
    Decode,
    /// Writing to the target.
    Write,
    /// Waiting for the target to have everything on stable storage.
    Flush,
    /// Reading the target back.
    ReadBack,
    /// Writing the held-back ends and putting the partition table in order.
    Finish,
}

impl Stage {
    /// Stable lower-case name, for JSON and progress.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Fetch => "fetch",
            Self::Verify => "verify",
            Self::Decode => "decode",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::ReadBack => "read_back",
            Self::Finish => "finish",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a failed write left on the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DiskState {
    /// Not a byte was changed.
    Untouched,
    /// The first and last MiB are zero: nothing boots from it.
    EndsZeroed,
    /// Zeroing the ends failed as well: treat the content as unknown.
    Unknown,
}

/// A failed write or inspection. `Display` is one lower-case clause about
/// this layer; causes are in the source chain.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    stage: Stage,
    offset: Option<u64>,
    context: String,
    retryable: bool,
    disk: DiskState,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// A failure without a cause below it.
    pub fn new(kind: ErrorKind, stage: Stage, context: impl Into<String>) -> Self {
        Self {
            kind,
            stage,
            offset: None,
            context: context.into(),
            retryable: false,
            disk: DiskState::Untouched,
            source: None,
        }
    }

    /// Adds the cause.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Adds the byte offset (of the source when fetching, decoding or
    /// verifying, else of the target).
    #[must_use]
    pub fn at(mut self, offset: u64) -> Self {
        self.offset = Some(offset);
        self
    }

    /// Marks a failure that may go away by itself.
    #[must_use]
    pub fn retryable(mut self) -> Self {
        self.retryable = true;
        self
    }

    pub(crate) fn in_stage(mut self, stage: Stage) -> Self {
        self.stage = stage;
        self
    }

    pub(crate) fn with_disk(mut self, disk: DiskState) -> Self {
        self.disk = disk;
        self
    }

    pub(crate) fn cancelled(stage: Stage) -> Self {
        Self::new(ErrorKind::Cancelled, stage, "cancelled by the caller")
    }

    /// Class of the failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What was being done.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Byte offset, where one applies.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        self.offset
    }

    /// Whether the same request may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.retryable
    }

    /// What the target holds now.
    #[must_use]
    pub fn disk(&self) -> DiskState {
        self.disk
    }

    /// This clause and all causes, joined by `: `, for a log or an answer.
    #[must_use]
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut next = self.source();
        while let Some(error) = next {
            let clause = error.to_string();
            if !clause.is_empty() && !text.ends_with(&clause) {
                text.push_str(": ");
                text.push_str(&clause);
            }
            next = error.source();
        }
        text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)?;
        if let Some(offset) = self.offset {
            write!(f, " (at byte {offset})")?;
        }
        match self.disk {
            DiskState::Untouched => Ok(()),
            DiskState::EndsZeroed => {
                f.write_str("; the first and last MiB of the target were zeroed, it will not boot")
            }
            DiskState::Unknown => {
                f.write_str("; zeroing the ends of the target failed too, do not boot from it")
            }
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source
            .as_deref()
            .map(|source| source as &(dyn StdError + 'static))
    }
}

//! Which rows are measured.

use std::fmt;

use clap::ValueEnum;

/// An image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Kind {
    /// As it is on the disk.
    #[value(name = "raw")]
    Raw,
    /// Clusters as they are.
    #[value(name = "qcow2")]
    Qcow2,
    /// Clusters compressed with zlib.
    #[value(name = "qcow2-zlib")]
    Qcow2Zlib,
    /// Clusters compressed with zstd.
    #[value(name = "qcow2-zstd")]
    Qcow2Zstd,
    /// Raw in gzip.
    #[value(name = "raw.gz")]
    RawGz,
    /// Raw in zstd.
    #[value(name = "raw.zst")]
    RawZst,
    /// Raw in xz.
    #[value(name = "raw.xz")]
    RawXz,
    /// A disk of 20 GiB with little on it, as qcow2.
    #[value(name = "sparse")]
    Sparse,
}

impl Kind {
    /// All, as they are shown.
    pub(super) const ALL: [Self; 8] = [
        Self::Raw,
        Self::Qcow2,
        Self::Qcow2Zlib,
        Self::Qcow2Zstd,
        Self::RawGz,
        Self::RawZst,
        Self::RawXz,
        Self::Sparse,
    ];

    /// Its file in the images folder.
    pub(super) fn file_name(self) -> &'static str {
        match self {
            Self::Raw => "mixed.raw",
            Self::Qcow2 => "mixed-plain.qcow2",
            Self::Qcow2Zlib => "mixed-zlib.qcow2",
            Self::Qcow2Zstd => "mixed-zstd.qcow2",
            Self::RawGz => "mixed.raw.gz",
            Self::RawZst => "mixed.raw.zst",
            Self::RawXz => "mixed.raw.xz",
            Self::Sparse => "sparse.qcow2",
        }
    }

    /// Whether it is a qcow2 image.
    pub(super) fn is_qcow2(self) -> bool {
        matches!(
            self,
            Self::Qcow2 | Self::Qcow2Zlib | Self::Qcow2Zstd | Self::Sparse
        )
    }

    /// The program that takes the container off.
    pub(super) fn unpacker(self) -> Option<&'static str> {
        match self {
            Self::RawGz => Some("gzip"),
            Self::RawZst => Some("zstd"),
            Self::RawXz => Some("xz"),
            _ => None,
        }
    }
}

/// Where an image is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Place {
    /// A loop device with direct I/O.
    Loop,
    /// A file.
    File,
}

/// What the image is checked with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Hash {
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

impl Hash {
    /// As it is written in checksums and in the names of tools.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }
}

/// `raw.gz`, `loop` and so on.
pub(super) fn name_of(value: &impl ValueEnum) -> String {
    value
        .to_possible_value()
        .map_or_else(String::new, |value| value.get_name().to_owned())
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) kind: Kind,
    pub(super) place: Place,
    pub(super) hash: Hash,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, place) = (name_of(&self.kind), name_of(&self.place));
        write!(f, "{kind} to {place}, {}", self.hash.name())
    }
}

/// The rows that the options ask for.
pub(super) fn rows(options: &super::Options) -> Vec<Row> {
    let or = |chosen: &[Kind]| {
        if chosen.is_empty() {
            Kind::ALL.to_vec()
        } else {
            chosen.to_vec()
        }
    };
    let plain = options.to.is_empty() && options.hash.is_empty() && !options.full;
    let places = if options.to.is_empty() {
        [Place::Loop, Place::File].to_vec()
    } else {
        options.to.clone()
    };
    let hashes = if options.hash.is_empty() {
        [Hash::Sha256, Hash::Sha512].to_vec()
    } else {
        options.hash.clone()
    };
    let mut rows = Vec::new();
    for &hash in &hashes {
        for &place in &places {
            for &kind in &or(&options.rows) {
                // Every image once, and two of them in the other ways.
                let usual = place == Place::Loop && hash == Hash::Sha256;
                let chosen = matches!(kind, Kind::Raw | Kind::Qcow2Zlib)
                    && (place == Place::Loop || hash == Hash::Sha256);
                if !plain || usual || chosen {
                    rows.push(Row { kind, place, hash });
                }
            }
        }
    }
    rows
}

//! Telling an image's format by its content.

use std::fmt;

/// Container format of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Format {
    /// The bytes of the disk itself.
    Raw,
    /// QEMU copy-on-write, version 2 or 3.
    Qcow2,
    /// ISO 9660 image.
    Iso,
    /// VMware disk.
    Vmdk,
    /// Hyper-V disk, version 2.
    Vhdx,
    /// Hyper-V disk, version 1.
    Vhd,
    /// VirtualBox disk.
    Vdi,
    /// QEMU enhanced disk.
    Qed,
    /// QEMU copy-on-write, version 1.
    Qcow1,
    /// LUKS volume.
    Luks,
    /// gzip stream.
    Gzip,
    /// xz stream.
    Xz,
    /// Zstandard stream.
    Zstd,
    /// bzip2 stream.
    Bzip2,
}

impl Format {
    /// Name as `disk_format` and qemu-img write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Qcow2 => "qcow2",
            Self::Iso => "iso",
            Self::Vmdk => "vmdk",
            Self::Vhdx => "vhdx",
            Self::Vhd => "vpc",
            Self::Vdi => "vdi",
            Self::Qed => "qed",
            Self::Qcow1 => "qcow",
            Self::Luks => "luks",
            Self::Gzip => "gz",
            Self::Xz => "xz",
            Self::Zstd => "zst",
            Self::Bzip2 => "bz2",
        }
    }

    /// Reads a `disk_format` value. `gpt` is the same as `raw` here; an
    /// empty or `unknown` value is the caller's to treat as undeclared.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "raw" | "gpt" => Self::Raw,
            "qcow2" => Self::Qcow2,
            "iso" => Self::Iso,
            "vmdk" => Self::Vmdk,
            "vhdx" => Self::Vhdx,
            "vpc" | "vhd" => Self::Vhd,
            "vdi" => Self::Vdi,
            "qed" => Self::Qed,
            "qcow" => Self::Qcow1,
            "luks" => Self::Luks,
            "gz" | "gzip" => Self::Gzip,
            "xz" => Self::Xz,
            "zst" | "zstd" => Self::Zstd,
            "bz2" | "bzip2" => Self::Bzip2,
            _ => return None,
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

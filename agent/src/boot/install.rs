//! Making the firmware start what is on a disk.

use std::fmt;
use std::path::PathBuf;

use uuid::Uuid;

use crate::boot::device_path::HardDrive;
use crate::boot::device_path::PartitionSignature;
use crate::boot::device_path::file_on_partition;
use crate::boot::device_path::utf16;
use crate::boot::efivars::EfiVars;
use crate::boot::entries;
use crate::boot::entries::EntryError;
use crate::boot::entries::Position;
use crate::boot::load_option::LoadOption;
use crate::boot::loader;
use crate::boot::loader::Loader;
use crate::boot::loader::LoaderError;
use crate::disk;
use crate::disk::BlockFile;
use crate::disk::table::Table;
use crate::disk::table::TablePartition;

/// Why a disk will not be started.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// The disk cannot be read.
    #[error("look at what the disk has to start")]
    Disk(#[from] disk::Error),
    /// There is no partition table.
    #[error("{} has no partition table, so nothing on it can be started; is the image a whole disk?", .0.display())]
    NoTable(PathBuf),
    /// Boot mode UEFI, and no EFI system partition.
    #[error("{} has no EFI system partition, which boot mode uefi needs; {partitions}; use an image made for UEFI, or set capabilities boot_mode:bios", path.display())]
    NoEsp {
        /// The disk.
        path: PathBuf,
        /// All its partitions.
        partitions: String,
    },
    /// The EFI system partition has nothing to start.
    #[error("EFI system partition {number} of {}", path.display())]
    Loader {
        /// The disk.
        path: PathBuf,
        /// Number of the partition.
        number: u32,
        /// What is wrong.
        source: LoaderError,
    },
    /// The firmware's variables are not there.
    #[error("boot mode uefi is asked for, but this machine shows no EFI variables ({}): it was started in BIOS mode; set its boot mode to UEFI", .0.display())]
    NoVariables(PathBuf),
    /// A variable could not be set.
    #[error("set the boot entries in the firmware")]
    Entries(#[from] EntryError),
    /// Boot mode BIOS, and nothing that a BIOS could start.
    #[error("{} cannot be started in boot mode bios: {reason}; {partitions}; use an image made for BIOS, or set capabilities boot_mode:uefi", path.display())]
    NoBiosBoot {
        /// The disk.
        path: PathBuf,
        /// What is missing.
        reason: &'static str,
        /// All its partitions.
        partitions: String,
    },
}

/// What was done for the next start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Installed {
    /// Entries point at these loaders.
    Entries {
        /// Numbers of the entries, in their order.
        numbers: Vec<u16>,
        /// What they start.
        loaders: Vec<Loader>,
    },
    /// The loaders were found, the variables left alone, since the machine
    /// belongs to someone else.
    Found(Vec<Loader>),
    /// The disk has boot code of its own.
    BiosReady,
}

impl Installed {
    /// What was done for several disks that start the same system.
    #[must_use]
    pub fn together(all: Vec<Self>) -> Self {
        let (mut numbers, mut loaders) = (Vec::new(), Vec::new());
        for one in all {
            match one {
                Self::Entries {
                    numbers: more,
                    loaders: of,
                } => {
                    numbers.extend(more);
                    loaders.extend(of);
                }
                Self::Found(of) => loaders.extend(of),
                Self::BiosReady => {}
            }
        }
        match numbers.is_empty() {
            true => Self::Found(loaders),
            false => Self::Entries { numbers, loaders },
        }
    }
}

impl fmt::Display for Installed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entries { numbers, loaders } => {
                let entries: Vec<String> = numbers
                    .iter()
                    .zip(loaders)
                    .map(|(number, loader)| {
                        format!("Boot{number:04X} {:?} {}", loader.label, loader.path)
                    })
                    .collect();
                write!(f, "boot entries set: {}", entries.join(", "))
            }
            Self::Found(loaders) => {
                let paths: Vec<&str> = loaders.iter().map(|loader| loader.path.as_str()).collect();
                write!(f, "found {}; EFI variables left alone", paths.join(", "))
            }
            Self::BiosReady => f.write_str("the disk has its own boot code"),
        }
    }
}

/// Finds the loaders on a disk's EFI system partition and enters them into
/// the firmware; with no `vars`, only finds them. `wanted` tells which
/// partition, when there are several.
pub fn install_uefi(
    disk: &BlockFile,
    vars: Option<&EfiVars>,
    wanted: Option<Uuid>,
    position: Position,
) -> Result<Installed, BootError> {
    install_uefi_as(disk, vars, wanted, position, "")
}

/// The same with `suffix` behind every label: one of several disks that start
/// the same system.
pub fn install_uefi_as(
    disk: &BlockFile,
    vars: Option<&EfiVars>,
    wanted: Option<Uuid>,
    position: Position,
    suffix: &str,
) -> Result<Installed, BootError> {
    let table = read_table(disk)?;
    let esps = || {
        table
            .partitions
            .iter()
            .filter(|partition| partition.is_esp())
    };
    let by_guid = wanted.and_then(|guid| table.partitions.iter().find(|p| p.guid == Some(guid)));
    let Some(esp) = by_guid.or_else(|| esps().next()) else {
        let partitions = table.listing();
        return Err(BootError::NoEsp {
            path: disk.path().to_owned(),
            partitions,
        });
    };
    let loaders = loader::find(disk, esp.start, esp.length, loader::architecture());
    let mut loaders = loaders.map_err(|source| BootError::Loader {
        path: disk.path().to_owned(),
        number: esp.number,
        source,
    })?;
    for loader in &mut loaders {
        loader.label.push_str(suffix);
    }
    let Some(vars) = vars else {
        return Ok(Installed::Found(loaders));
    };
    let drive = hard_drive(disk, &table, esp);
    let options: Vec<LoadOption> = loaders
        .iter()
        .map(|loader| {
            let path = file_on_partition(&drive, &loader.path);
            let mut option = LoadOption::new(&loader.label, path);
            if !loader.options.is_empty() {
                option.optional_data = utf16(&loader.options);
            }
            option
        })
        .collect();
    let numbers = entries::install(vars, &options, position)?;
    Ok(Installed::Entries { numbers, loaders })
}

/// Checks that a BIOS would find something to start. Boot code is never put
/// there by us: it would mean to run the image's programs.
pub fn check_bios(disk: &BlockFile) -> Result<Installed, BootError> {
    let table = read_table(disk)?;
    let active = table.partitions.iter().any(|partition| partition.active);
    let core = table.partitions.iter().any(TablePartition::is_bios_boot);
    let reason = if !table.has_boot_code() {
        "its first sector has no boot code"
    } else if !active && !core {
        "it has neither an active partition nor a BIOS boot partition"
    } else {
        return Ok(Installed::BiosReady);
    };
    Err(BootError::NoBiosBoot {
        path: disk.path().to_owned(),
        reason,
        partitions: table.listing(),
    })
}

fn read_table(disk: &BlockFile) -> Result<Table, BootError> {
    Table::read(disk)?.ok_or_else(|| BootError::NoTable(disk.path().to_owned()))
}

fn hard_drive(disk: &BlockFile, table: &Table, esp: &TablePartition) -> HardDrive {
    let sector = u64::from(disk.logical_sector());
    let signature = match (esp.guid, table.mbr_signature()) {
        (Some(guid), _) => PartitionSignature::Guid(guid),
        (None, signature) => PartitionSignature::Mbr(signature.unwrap_or_default()),
    };
    HardDrive {
        number: esp.number,
        start_lba: esp.start / sector,
        size_lba: esp.length / sector,
        signature,
    }
}

#[cfg(test)]
mod tests;

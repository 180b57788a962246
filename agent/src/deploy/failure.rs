//! Errors of the layers below as failures of a command.

use wrought_image::ErrorKind;

use crate::boot::BootError;
use crate::burnin::BurnInError;
use crate::command::CommandFailure;
use crate::deploy::configdrive::PayloadError;
use crate::deploy::configdrive::PlaceError;
use crate::disk;
use crate::disk::NoRootDisk;
use crate::disk::erase::EraseError;
use crate::firmware::FirmwareError;
use crate::raid::RaidError;

/// A failed write of an image.
pub(super) fn write(id: &str, error: &wrought_image::Error) -> CommandFailure {
    let details = format!("image {id}: {} (stage {})", error.chain(), error.stage());
    match error.kind() {
        ErrorKind::Request => CommandFailure::invalid_params(details),
        ErrorKind::Source => CommandFailure::new(
            "ImageDownloadError",
            500,
            "Error downloading image",
            details,
        ),
        ErrorKind::Checksum => CommandFailure::new(
            "ImageChecksumError",
            500,
            "Error verifying image checksum",
            details,
        ),
        ErrorKind::Format => {
            CommandFailure::new("InvalidImage", 500, "Image cannot be used", details)
        }
        ErrorKind::Target | ErrorKind::TooLarge | ErrorKind::Memory => CommandFailure::new(
            "ImageWriteError",
            500,
            "Error writing image to device",
            details,
        ),
        _ => CommandFailure::execution(details),
    }
}

/// No disk to write to.
pub(super) fn no_root_disk(error: &NoRootDisk) -> CommandFailure {
    CommandFailure::device_not_found(error.to_string())
}

/// A disk that cannot be opened or changed.
pub(super) fn disk(error: &disk::Error) -> CommandFailure {
    CommandFailure::new(
        "BlockDeviceError",
        500,
        "Error working on a block device",
        CommandFailure::chain(error),
    )
}

/// A config drive that did not make it.
pub(super) fn configdrive(error: &PlaceError) -> CommandFailure {
    match error {
        PlaceError::Payload(payload) => payload_failure(payload),
        other => CommandFailure::new(
            "ConfigDriveError",
            500,
            "Error writing the config drive",
            CommandFailure::chain(other),
        ),
    }
}

/// A config drive that cannot be used as it was given.
pub(super) fn payload_failure(error: &PayloadError) -> CommandFailure {
    CommandFailure::invalid_params(CommandFailure::chain(error))
}

/// A disk that will not be started.
pub(super) fn boot(error: &BootError) -> CommandFailure {
    let details = CommandFailure::chain(error);
    match error {
        BootError::NoEsp { .. } | BootError::NoTable(_) => {
            CommandFailure::device_not_found(details)
        }
        _ => CommandFailure::new(
            "BootloaderError",
            500,
            "Error making the disk bootable",
            details,
        ),
    }
}

/// Disks that were not emptied.
pub(super) fn erase(error: &EraseError) -> CommandFailure {
    CommandFailure::new(
        "BlockDeviceEraseError",
        500,
        "Error erasing block device",
        error.to_string(),
    )
}

/// What the firmware remembers, and keeps.
pub(super) fn firmware(error: &FirmwareError) -> CommandFailure {
    let details = CommandFailure::chain(error);
    match error {
        FirmwareError::Arguments(_) => CommandFailure::invalid_params(details),
        _ => CommandFailure::execution(details),
    }
}

/// A burn-in that was not passed, or not possible.
pub(super) fn burnin(error: &BurnInError) -> CommandFailure {
    let details = CommandFailure::chain(error);
    match error {
        BurnInError::Setting { .. } => CommandFailure::invalid_params(details),
        _ => CommandFailure::execution(details),
    }
}

/// A software RAID that was not made or not deleted.
pub(super) fn raid(error: &RaidError) -> CommandFailure {
    let details = CommandFailure::chain(error);
    CommandFailure::new(
        "SoftwareRAIDError",
        500,
        "Error creating or deleting software RAID",
        details,
    )
}

//! ATA's security feature set: a password is set only to be allowed to
//! erase, and is gone with the erase.

use std::time::Duration;

use crate::disk::drive::DriveError;
use crate::disk::drive::Passthrough;
use crate::disk::drive::Transfer;
use crate::disk::drive::ata::Identity;
use crate::disk::drive::ata::SHORT_LIMIT;
use crate::disk::drive::ata::TaskFile;
use crate::disk::drive::ata::submit;

/// Commands (ACS-4 §7.39 to §7.45).
pub(crate) const SET_PASSWORD: u8 = 0xf1;
pub(crate) const UNLOCK: u8 = 0xf2;
pub(crate) const ERASE_PREPARE: u8 = 0xf3;
pub(crate) const ERASE_UNIT: u8 = 0xf4;
pub(crate) const DISABLE_PASSWORD: u8 = 0xf6;

const BLOCK: usize = 512;
/// Word 0 of ERASE UNIT: enhanced.
const ENHANCED: u16 = 1 << 1;
/// The user password, which is no secret: zeroes, as other tools set it for
/// an erase. A drive that lost power in the middle is unlocked with it.
const PASSWORD: [u8; 32] = [0; 32];
/// What a drive may be locked with by an erase that did not end. Five wrong
/// ones close a drive until its next power cycle.
const CANDIDATES: [[u8; 32]; 2] = [PASSWORD, named(b"NULL")];
/// When the drive does not tell how long an erase takes.
const UNKNOWN_TIME: Duration = Duration::from_secs(12 * 3600);
/// Drives are late now and then.
const MARGIN: Duration = Duration::from_secs(3600);

const fn named(name: &[u8; 4]) -> [u8; 32] {
    let mut password = [0; 32];
    let mut at = 0;
    while at < name.len() {
        password[at] = name[at];
        at += 1;
    }
    password
}

/// ACS-4 tables 127 to 133: word 0 has the kind of the password and flags,
/// words 1 to 16 the password. The kind is "user", and when one is set the
/// master password keeps its power ("high").
fn block(word0: u16, password: &[u8; 32]) -> [u8; BLOCK] {
    let mut bytes = [0; BLOCK];
    bytes[..2].copy_from_slice(&word0.to_le_bytes());
    bytes[2..34].copy_from_slice(password);
    bytes
}

fn send(
    drive: &dyn Passthrough,
    name: &'static str,
    command: u8,
    bytes: &[u8; BLOCK],
    limit: Duration,
) -> Result<(), DriveError> {
    let task = TaskFile {
        command,
        count: 1,
        ..TaskFile::default()
    };
    submit(drive, name, task, Transfer::Out(bytes), limit).map(drop)
}

/// Unlocks a drive that an interrupted erase left locked; gives what the
/// drive says of itself then.
pub(crate) fn unlock(drive: &dyn Passthrough, found: Identity) -> Result<Identity, DriveError> {
    if !found.locked {
        return Ok(found);
    }
    if found.expired {
        let expired = "; it takes no more passwords until its next power cycle";
        return Err(DriveError::Locked { expired });
    }
    for password in &CANDIDATES {
        match send(
            drive,
            "SECURITY UNLOCK",
            UNLOCK,
            &block(0, password),
            SHORT_LIMIT,
        ) {
            Ok(()) => {}
            Err(DriveError::Refused { .. }) => continue,
            Err(error) => return Err(error),
        }
        let now = Identity::read(drive)?;
        if !now.locked {
            return Ok(now);
        }
    }
    Err(DriveError::Locked { expired: "" })
}

/// Takes a password off that an interrupted erase left.
fn disable(drive: &dyn Passthrough) -> Result<(), DriveError> {
    let name = "SECURITY DISABLE PASSWORD";
    for password in &CANDIDATES {
        match send(
            drive,
            name,
            DISABLE_PASSWORD,
            &block(0, password),
            SHORT_LIMIT,
        ) {
            Ok(()) => return Ok(()),
            Err(DriveError::Refused { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Err(DriveError::Locked { expired: "" })
}

/// Erases the drive, in its enhanced way when told so. It is left without a
/// password, whether the erase succeeds or not, as far as the drive lets us.
pub(crate) fn erase(
    drive: &dyn Passthrough,
    identity: &Identity,
    enhanced: bool,
) -> Result<(), DriveError> {
    if identity.frozen {
        return Err(DriveError::Frozen);
    }
    if identity.enabled {
        disable(drive)?;
    }
    let name = "SECURITY SET PASSWORD";
    send(drive, name, SET_PASSWORD, &block(0, &PASSWORD), SHORT_LIMIT)?;
    let erased = erase_unit(drive, identity, enhanced);
    // It is gone after an erase (ACS-4 §7.43.1); look, instead of believing.
    let after = Identity::read(drive)?;
    if after.enabled {
        let unlocked = unlock(drive, after)?;
        if unlocked.enabled {
            disable(drive)?;
        }
        erased?;
        return Err(DriveError::Failed {
            command: "SECURITY ERASE UNIT",
            detail: "its password was still set afterwards".to_owned(),
        });
    }
    erased
}

fn erase_unit(
    drive: &dyn Passthrough,
    identity: &Identity,
    enhanced: bool,
) -> Result<(), DriveError> {
    let task = TaskFile {
        command: ERASE_PREPARE,
        ..TaskFile::default()
    };
    let prepare = "SECURITY ERASE PREPARE";
    submit(drive, prepare, task, Transfer::None, SHORT_LIMIT)?;
    let (word0, time) = if enhanced {
        (ENHANCED, identity.enhanced_time)
    } else {
        (0, identity.normal_time)
    };
    let limit = time.map_or(UNKNOWN_TIME, |time| time + MARGIN);
    let bytes = block(word0, &PASSWORD);
    send(drive, "SECURITY ERASE UNIT", ERASE_UNIT, &bytes, limit)
}

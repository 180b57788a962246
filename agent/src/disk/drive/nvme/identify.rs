//! What an NVMe drive can do, and how a namespace is formatted.

use crate::disk::drive::DriveError;
use crate::disk::drive::Passthrough;
use crate::disk::drive::nvme::Admin;
use crate::disk::drive::nvme::IDENTIFY;
use crate::disk::drive::nvme::SHORT_LIMIT;
use crate::disk::drive::nvme::submit;
use crate::disk::drive::sanitize::Action;

/// Every identify structure has this size.
const PAGE: usize = 4096;
/// CNS values (figure 273).
const CNS_NAMESPACE: u32 = 0x00;
const CNS_CONTROLLER: u32 = 0x01;
const CNS_ACTIVE_NAMESPACES: u32 = 0x02;

/// OACS (figure 275, bytes 257:256): Format NVM is supported.
const OACS_FORMAT: u8 = 1 << 1;
/// FNA (byte 524): format, or erase, always applies to all namespaces.
const FNA_ALL: u8 = 0b11;
/// FNA: cryptographic erase is supported.
const FNA_CRYPTO: u8 = 1 << 2;

/// What counts for an erase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Abilities {
    /// Format NVM is there.
    pub(crate) format: bool,
    /// Format can change the encryption key.
    pub(crate) format_crypto: bool,
    /// Format, or its erase, takes all namespaces.
    pub(crate) format_takes_all: bool,
    /// Kinds of sanitize, the best first.
    pub(crate) sanitize: Vec<Action>,
    /// The drive has further namespaces, whose data sanitize would take too.
    pub(crate) shared: bool,
    /// LBA format in use with its metadata and protection settings, as
    /// Format NVM takes it in its dword 10.
    pub(super) layout: u32,
}

impl Abilities {
    /// Asks the drive of a namespace.
    pub(crate) fn read(drive: &dyn Passthrough, namespace: u32) -> Result<Self, DriveError> {
        let controller = identify(drive, 0, CNS_CONTROLLER)?;
        let page = identify(drive, namespace, CNS_NAMESPACE)?;
        let others = match identify(drive, 0, CNS_ACTIVE_NAMESPACES) {
            Ok(list) => Some(list),
            // Before NVMe 1.1 there was no such list.
            Err(DriveError::Refused { .. }) => None,
            Err(error) => return Err(error),
        };
        Ok(Self::decode(
            &controller,
            &page,
            others.as_deref(),
            namespace,
        ))
    }

    fn decode(controller: &[u8], page: &[u8], list: Option<&[u8]>, namespace: u32) -> Self {
        let (oacs, fna) = (controller[256], controller[524]);
        // SANICAP, bytes 331:328: crypto, block, overwrite in bits 0 to 2.
        let sanicap = controller[328];
        let kinds = [Action::Crypto, Action::Block, Action::Overwrite];
        let sanitize = (0..)
            .zip(kinds)
            .filter(|(bit, _)| sanicap & 1 << bit != 0)
            .map(|(_, action)| action)
            .collect();
        // FLBAS (NVM figure 97, byte 26) and DPS (byte 29) as figure 330 of
        // Format NVM has them: LBAF low, MSET, PI, PIL, LBAF high.
        let (flbas, dps) = (page[26], page[29]);
        let low = u32::from(flbas & 0x0f);
        let extended = u32::from((flbas >> 4) & 1);
        let high = u32::from((flbas >> 5) & 0b11);
        let protection = u32::from(dps & 0b111);
        let first = u32::from((dps >> 3) & 1);
        Self {
            format: oacs & OACS_FORMAT != 0,
            format_crypto: fna & FNA_CRYPTO != 0,
            format_takes_all: fna & FNA_ALL != 0,
            sanitize,
            shared: shared(controller, list, namespace),
            layout: low | extended << 4 | protection << 5 | first << 8 | high << 12,
        }
    }
}

/// Whether there is a namespace beside this one: by the list of active ones,
/// else by NN, the largest number (bytes 519:516).
fn shared(controller: &[u8], list: Option<&[u8]>, namespace: u32) -> bool {
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0_u32, |value, byte| value << 8 | u32::from(*byte))
    };
    match list {
        Some(list) => list
            .chunks_exact(4)
            .map(number)
            .take_while(|id| *id != 0)
            .any(|id| id != namespace),
        None => number(&controller[516..520]) != 1,
    }
}

fn identify(drive: &dyn Passthrough, nsid: u32, structure: u32) -> Result<Vec<u8>, DriveError> {
    let mut page = vec![0_u8; PAGE];
    let command = Admin {
        opcode: IDENTIFY,
        nsid,
        cdw10: structure,
        limit: SHORT_LIMIT,
        ..Admin::default()
    };
    submit(drive, "Identify", &command, &mut page)?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::Abilities;
    use crate::disk::drive::sanitize::Action;

    #[test]
    fn abilities_and_layout() {
        let (mut controller, mut namespace) = (vec![0; 4096], vec![0; 4096]);
        controller[256] = 0b10;
        controller[328] = 0b101;
        controller[516] = 1;
        controller[524] = 0b101;
        // LBA format 0x12 with metadata at the end, protection type 1 first.
        namespace[26] = 0b0011_0010;
        namespace[29] = 0b1001;
        let found = Abilities::decode(&controller, &namespace, None, 1);
        assert!(found.format && found.format_crypto && found.format_takes_all);
        assert_eq!(found.sanitize, [Action::Crypto, Action::Overwrite]);
        assert!(!found.shared);
        assert_eq!(found.layout, 0x2 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 12);

        let mut list = vec![0; 4096];
        list[0] = 1;
        assert!(!Abilities::decode(&controller, &namespace, Some(&list), 1).shared);
        list[4] = 7;
        assert!(Abilities::decode(&controller, &namespace, Some(&list), 1).shared);
        controller[516] = 2;
        assert!(Abilities::decode(&controller, &namespace, None, 1).shared);
    }
}

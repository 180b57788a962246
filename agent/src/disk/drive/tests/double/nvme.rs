//! An NVMe drive. Figures are those of the NVM Express base specification
//! 2.0 and the NVM command set specification 1.0.

use std::io;
use std::sync::Mutex;
use std::time::Duration;

use super::Look;
use super::Medium;
use super::Play;
use super::unexpected;
use crate::disk::drive::Passthrough;
use crate::disk::drive::ScsiReply;
use crate::disk::drive::Transfer;
use crate::disk::drive::nvme::Admin;
use crate::disk::drive::nvme::FORMAT;
use crate::disk::drive::nvme::GET_LOG_PAGE;
use crate::disk::drive::nvme::IDENTIFY;
use crate::disk::drive::nvme::SANITIZE;

/// Status codes (figures 95 and 96).
const INVALID_OPCODE: u32 = 0x001;
const INVALID_FIELD: u32 = 0x002;

#[derive(Debug)]
pub(crate) struct Nvme {
    pub(crate) medium: Medium,
    /// OACS bit 1 (figure 275, bytes 257:256).
    pub(crate) format: bool,
    /// FNA (byte 524).
    pub(crate) fna: u8,
    /// SANICAP bits 2:0 (bytes 331:328): crypto, block, overwrite.
    pub(crate) sanicap: u8,
    /// Active namespaces; empty for a drive that has no such list.
    pub(crate) namespaces: Vec<u32>,
    /// Refuses these: opcode, lower bits of dword 10, status.
    pub(crate) refuses: Vec<(u8, u32, u32)>,
    /// Does not answer at all.
    pub(crate) dead: bool,
    /// SSTAT that is shown instead of the play's.
    pub(crate) odd_status: Option<u8>,
    pub(crate) play: Mutex<Play>,
    /// SANACT of the last sanitize (figure 303).
    pub(crate) action: Mutex<u8>,
}

impl Nvme {
    /// One that can do everything.
    pub(crate) fn new(path: &std::path::Path) -> Self {
        Self {
            medium: Medium::new(path),
            format: true,
            fna: 0b100,
            sanicap: 0b111,
            namespaces: vec![1],
            refuses: Vec::new(),
            dead: false,
            odd_status: None,
            play: Mutex::default(),
            action: Mutex::new(0),
        }
    }

    fn identify(&self, command: &Admin, page: &mut [u8]) -> u32 {
        assert_eq!(page.len(), 4096, "every identify structure has 4096 bytes");
        page.fill(0);
        match command.cdw10 {
            // Figure 97 (NVM): NSZE, NCAP, NUSE, FLBAS, LBAF0 with LBADS 9.
            0x00 => {
                assert_eq!(command.nsid, 1);
                page[..8].copy_from_slice(&0x2_0000_u64.to_le_bytes());
                page[8..16].copy_from_slice(&0x2_0000_u64.to_le_bytes());
                page[26] = 0x00;
                page[128..132].copy_from_slice(&[0, 0, 9, 0]);
            }
            // Figure 275.
            0x01 => {
                page[..2].copy_from_slice(&0x1b36_u16.to_le_bytes()); // VID
                page[256] = u8::from(self.format) << 1; // OACS
                page[328] = self.sanicap; // SANICAP
                let largest = self.namespaces.last().copied().unwrap_or(1);
                page[516..520].copy_from_slice(&largest.to_le_bytes()); // NN
                page[524] = self.fna; // FNA
            }
            // Figure 274: numbers above the one asked for, in their order.
            0x02 if !self.namespaces.is_empty() => {
                for (slot, id) in page.chunks_mut(4).zip(&self.namespaces) {
                    slot.copy_from_slice(&id.to_le_bytes());
                }
            }
            _ => return INVALID_FIELD,
        }
        0
    }

    /// Figure 249.
    fn sanitize_log(&self, page: &mut [u8]) {
        page.fill(0);
        let (sprog, sstat) = match self.play.lock().unwrap().look(&self.medium) {
            Look::Idle => (0xffff, 0b000),
            Look::Succeeded => (0xffff, 0b001),
            Look::Running(part) => (part, 0b010),
            Look::Failed => (0xffff, 0b011),
        };
        page[..2].copy_from_slice(&sprog.to_le_bytes()); // SPROG
        page[2] = self.odd_status.unwrap_or(sstat); // SSTAT
        page[4] = *self.action.lock().unwrap(); // SCDW10
        page[8..32].fill(0xff); // estimated times: none
    }
}

impl Passthrough for &Nvme {
    fn nvme(&self, command: &Admin, data: &mut [u8]) -> io::Result<u32> {
        if self.dead {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        let low = command.cdw10 & 0xfff;
        if let Some((_, _, status)) = self
            .refuses
            .iter()
            .find(|(opcode, bits, _)| *opcode == command.opcode && low & bits == *bits)
        {
            self.medium
                .note(format!("refused {:#04x} {low:#x}", command.opcode));
            return Ok(*status);
        }
        Ok(match command.opcode {
            IDENTIFY => self.identify(command, data),
            GET_LOG_PAGE => {
                // Figure 197: LID 81h, NUMDL for 512 bytes.
                assert_eq!(command.cdw10, 0x81 | 127 << 16);
                assert_eq!((command.nsid, data.len()), (0xffff_ffff, 512));
                self.sanitize_log(data);
                0
            }
            // Figure 330: LBAF 3:0, SES 11:9.
            FORMAT if self.format => {
                let ses = command.cdw10 >> 9 & 0b111;
                self.medium.note(format!("format ses {ses}"));
                if ses == 2 && self.fna & 0b100 == 0 {
                    return Ok(INVALID_FIELD);
                }
                self.medium.erase();
                0
            }
            // Figure 303: SANACT 2:0, AUSE 3, OWPASS 7:4.
            SANITIZE if self.sanicap != 0 => {
                let action = u8::try_from(command.cdw10 & 0b111).unwrap();
                self.medium.note(format!("sanitize {action}"));
                if action == 0b001 {
                    self.play.lock().unwrap().ended = None;
                    return Ok(0);
                }
                assert_eq!(command.cdw10 & 1 << 3, 1 << 3, "a failure can be left");
                *self.action.lock().unwrap() = action;
                self.play.lock().unwrap().start();
                0
            }
            _ => INVALID_OPCODE,
        })
    }

    fn namespace(&self) -> io::Result<u32> {
        Ok(1)
    }

    fn scsi(&self, _: &[u8], _: Transfer<'_>, _: Duration) -> io::Result<ScsiReply> {
        Err(unexpected("a SCSI command"))
    }

    fn secure_discard(&self, _: u64, _: u64) -> io::Result<()> {
        Err(unexpected("a secure discard"))
    }

    fn pause(&self, _: Duration) {}
}

//! A SCSI drive. Tables are those of SPC-5 and SBC-4.

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

#[derive(Debug)]
pub(crate) struct Scsi {
    pub(crate) medium: Medium,
    /// Service actions of SANITIZE that are there (SBC-4 table 92).
    pub(crate) actions: Vec<u8>,
    /// REPORT SUPPORTED OPERATION CODES is there.
    pub(crate) tells: bool,
    /// Sense comes with a check condition instead of as data.
    pub(crate) sense_by_condition: bool,
    /// This is all that REQUEST SENSE says.
    pub(crate) odd_sense: Option<Vec<u8>>,
    /// Refuses these service actions all the same.
    pub(crate) refuses: Vec<u8>,
    pub(crate) play: Mutex<Play>,
    /// So often it has something to announce before it does what it is told.
    pub(crate) announcements: Mutex<u32>,
}

impl Scsi {
    pub(crate) fn new(path: &std::path::Path) -> Self {
        Self {
            medium: Medium::new(path),
            actions: vec![1, 2, 3],
            tells: true,
            sense_by_condition: false,
            odd_sense: None,
            refuses: Vec::new(),
            play: Mutex::default(),
            announcements: Mutex::new(0),
        }
    }
}

/// Fixed format sense data (SPC-5 table 47).
fn fixed(key: u8, asc: u8, ascq: u8, progress: Option<u16>) -> Vec<u8> {
    let mut sense = vec![0; 18];
    sense[0] = 0x70; // response code: current
    sense[2] = key;
    sense[7] = 10; // additional length
    sense[12] = asc;
    sense[13] = ascq;
    if let Some(progress) = progress {
        sense[15] = 0x80; // SKSV
        sense[16..18].copy_from_slice(&progress.to_be_bytes());
    }
    sense
}

/// Illegal request, invalid command operation code (SPC-5 annex F).
fn unknown() -> ScsiReply {
    ScsiReply {
        status: 2,
        sense: fixed(0x5, 0x20, 0x00, None),
    }
}

impl Passthrough for &Scsi {
    fn nvme(&self, _: &Admin, _: &mut [u8]) -> io::Result<u32> {
        Err(unexpected("an NVMe command"))
    }

    fn namespace(&self) -> io::Result<u32> {
        Err(unexpected("an NVMe command"))
    }

    fn scsi(&self, cdb: &[u8], transfer: Transfer<'_>, _: Duration) -> io::Result<ScsiReply> {
        let mut announcements = self.announcements.lock().unwrap();
        if *announcements > 0 {
            *announcements -= 1;
            // Unit attention, power on or reset (SPC-5 annex F); REQUEST SENSE
            // has it as data.
            let sense = fixed(0x6, 0x29, 0x00, None);
            return Ok(match transfer {
                Transfer::In(answer) if cdb[0] == 0x03 && !self.sense_by_condition => {
                    answer[..sense.len()].copy_from_slice(&sense);
                    ScsiReply::default()
                }
                _ => ScsiReply { status: 2, sense },
            });
        }
        drop(announcements);
        match (cdb[0], transfer) {
            // REPORT SUPPORTED OPERATION CODES (SPC-5 tables 249 and 252).
            (0xa3, Transfer::In(answer)) => {
                assert_eq!(cdb[1..5], [0x0c, 0b010, 0x48, 0]);
                if !self.tells {
                    return Ok(unknown());
                }
                answer[1] = if self.actions.contains(&cdb[5]) {
                    0b011
                } else {
                    0b001
                };
                answer[3] = 10; // CDB size
                Ok(ScsiReply::default())
            }
            // REQUEST SENSE (SPC-5 table 258; SBC-4 §4.11.3).
            (0x03, Transfer::In(answer)) => {
                assert_eq!(usize::from(cdb[4]), answer.len());
                let sense = match self.play.lock().unwrap().look(&self.medium) {
                    Look::Idle | Look::Succeeded => fixed(0, 0, 0, None),
                    // Not ready, sanitize in progress.
                    Look::Running(part) => fixed(0x2, 0x04, 0x1b, Some(part)),
                    // Medium error, SANITIZE COMMAND FAILED.
                    Look::Failed => fixed(0x3, 0x31, 0x03, None),
                };
                let sense = self.odd_sense.clone().unwrap_or(sense);
                if self.sense_by_condition {
                    return Ok(ScsiReply { status: 2, sense });
                }
                answer[..sense.len()].copy_from_slice(&sense);
                Ok(ScsiReply::default())
            }
            // SANITIZE (SBC-4 table 91).
            (0x48, transfer) => {
                let action = cdb[1] & 0x1f;
                self.medium.note(format!("sanitize {action:#x}"));
                if action == 0x1f {
                    self.play.lock().unwrap().ended = None;
                    return Ok(ScsiReply::default());
                }
                assert_eq!(cdb[1] & 0xa0, 0xa0, "IMMED and AUSE");
                if self.refuses.contains(&action) {
                    return Ok(unknown());
                }
                if let Transfer::Out(list) = transfer {
                    // SBC-4 table 94: count, pattern length, pattern.
                    assert_eq!((action, list), (1, &[1, 0, 0, 4, 0, 0, 0, 0][..]));
                    assert_eq!(cdb[7..9], [0, 8]);
                }
                self.play.lock().unwrap().start();
                Ok(ScsiReply::default())
            }
            _ => Ok(unknown()),
        }
    }

    fn secure_discard(&self, _: u64, _: u64) -> io::Result<()> {
        Err(unexpected("a secure discard"))
    }

    fn pause(&self, _: Duration) {}
}

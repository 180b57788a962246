//! An ATA drive behind a SCSI translation. Words and commands are those of
//! ACS-4, the wrapping that of SAT-4.

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

/// Registers of a command that was aborted (ACS-4 §6.2, §6.3): ERR with
/// DRDY and DSC, and ABRT.
const ABORTED: (u8, u8) = (0x51, 0x04);
const GOOD: (u8, u8) = (0x50, 0x00);

/// How the registers come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrapping {
    /// Descriptor sense with the ATA Status Return descriptor.
    Descriptor,
    /// Fixed sense, in which upper halves do not fit.
    Fixed,
    /// Not at all: good status, as some controllers do.
    Nothing,
}

/// How the drive's security stands.
#[derive(Debug, Clone, Default)]
pub(crate) struct Security {
    pub(crate) password: Option<[u8; 32]>,
    pub(crate) locked: bool,
    pub(crate) frozen: bool,
    pub(crate) attempts: u32,
    pub(crate) expired: bool,
    pub(crate) prepared: bool,
}

#[derive(Debug)]
pub(crate) struct Ata {
    pub(crate) medium: Medium,
    /// Word 59: bit 12 the feature set, 13 crypto, 14 overwrite, 15 block.
    pub(crate) word59: u16,
    /// The security feature set is there, and its enhanced erase.
    pub(crate) security_there: bool,
    pub(crate) enhanced: bool,
    pub(crate) security: Mutex<Security>,
    /// Erase keeps the password although it says that all went well.
    pub(crate) keeps_password: bool,
    /// ERASE UNIT fails: of the enhanced kind, of the normal kind.
    pub(crate) erase_fails: (bool, bool),
    /// Sanitize commands are frozen.
    pub(crate) sanitize_frozen: bool,
    /// The last sanitize has failed, before the agent came.
    pub(crate) play: Mutex<Play>,
    pub(crate) wrapping: Wrapping,
    /// The checksum of IDENTIFY DEVICE is wrong.
    pub(crate) bad_checksum: bool,
    /// The controller lets no ATA command through.
    pub(crate) deaf: bool,
}

impl Ata {
    /// A drive with security and no sanitize.
    pub(crate) fn new(path: &std::path::Path) -> Self {
        Self {
            medium: Medium::new(path),
            word59: 0,
            security_there: true,
            enhanced: true,
            security: Mutex::default(),
            keeps_password: false,
            erase_fails: (false, false),
            sanitize_frozen: false,
            play: Mutex::default(),
            wrapping: Wrapping::Descriptor,
            bad_checksum: false,
            deaf: false,
        }
    }

    /// IDENTIFY DEVICE (ACS-4 table 45).
    fn identify(&self, page: &mut [u8]) {
        assert_eq!(page.len(), 512);
        page.fill(0);
        let security = self.security.lock().unwrap();
        let there = u16::from(self.security_there);
        let enabled = u16::from(security.password.is_some());
        let mut word = |number: usize, value: u16| {
            page[2 * number..2 * number + 2].copy_from_slice(&value.to_le_bytes());
        };
        word(59, self.word59);
        word(82, there << 1); // security supported
        word(83, 0b01 << 14); // words 82 and 83 are valid
        word(85, enabled << 1); // security enabled
        word(87, 0b01 << 14); // words 85 to 87 are valid
        word(89, 0x8000 | 90); // normal erase: 180 minutes
        word(90, 1); // enhanced erase: 2 minutes
        word(
            128,
            there
                | enabled << 1
                | u16::from(security.locked) << 2
                | u16::from(security.frozen) << 3
                | u16::from(security.expired) << 4
                | u16::from(self.enhanced) << 5,
        );
        // Word 255: A5h, and a byte that makes the sum of all 512 zero.
        page[510] = 0xa5;
        let sum = page[..511].iter().fold(0_u8, |sum, b| sum.wrapping_add(*b));
        page[511] = sum.wrapping_neg().wrapping_add(u8::from(self.bad_checksum));
    }

    /// Security commands; the data block is that of tables 127 to 133: word
    /// 0, then 32 bytes of password.
    fn security(&self, command: u8, data: &[u8]) -> (u8, u8) {
        let mut security = self.security.lock().unwrap();
        let refused = !self.security_there || security.frozen;
        if refused {
            return ABORTED;
        }
        let given = || {
            assert_eq!(data.len(), 512);
            assert_eq!(data[0] & 1, 0, "the user password is meant");
            let mut password = [0; 32];
            password.copy_from_slice(&data[2..34]);
            password
        };
        match command {
            0xf1 => {
                self.medium.note("set password".to_owned());
                if security.locked {
                    return ABORTED;
                }
                security.password = Some(given());
            }
            0xf2 => {
                self.medium.note("unlock".to_owned());
                if security.expired {
                    return ABORTED;
                }
                if security.password != Some(given()) {
                    security.attempts += 1;
                    security.expired = security.attempts >= 5;
                    return ABORTED;
                }
                security.locked = false;
            }
            0xf3 => security.prepared = true,
            0xf4 => {
                let enhanced = data[0] & 2 != 0;
                self.medium
                    .note(if enhanced { "erase enhanced" } else { "erase" }.to_owned());
                let fails = if enhanced {
                    self.erase_fails.0
                } else {
                    self.erase_fails.1
                };
                let prepared = std::mem::take(&mut security.prepared);
                if !prepared || fails || security.password != Some(given()) {
                    return ABORTED;
                }
                if !self.keeps_password {
                    security.password = None;
                }
                self.medium.erase();
            }
            0xf6 => {
                self.medium.note("disable password".to_owned());
                if security.locked || security.password != Some(given()) {
                    return ABORTED;
                }
                security.password = None;
            }
            _ => return ABORTED,
        }
        GOOD
    }

    /// SANITIZE DEVICE (ACS-4 §7.38): registers, count and LBA that come back.
    fn sanitize(&self, feature: u16, count: u16, lba: u64) -> ((u8, u8), u16, u64) {
        let mut play = self.play.lock().unwrap();
        let there = |bit: u16| self.word59 & 1 << 12 != 0 && self.word59 & 1 << bit != 0;
        if self.word59 & 1 << 12 == 0 {
            return (ABORTED, 0, 0);
        }
        if feature == 0 {
            if count & 1 != 0 {
                self.medium.note("clear failure".to_owned());
                play.ended = None;
            }
            let frozen = u16::from(self.sanitize_frozen) << 13;
            return match play.look(&self.medium) {
                Look::Idle => (GOOD, frozen, 0xffff),
                Look::Running(part) => (GOOD, 1 << 14, u64::from(part)),
                Look::Succeeded => (GOOD, 1 << 15 | frozen, 0xffff),
                // Table 119: reason 01h, the last one was not successful.
                Look::Failed => (ABORTED, 0, 0x01),
            };
        }
        let (name, bit, key) = match feature {
            0x11 => ("crypto", 13, 0x4372_7970),
            0x12 => ("block", 15, 0x426b_4572),
            0x14 => ("overwrite", 14, 0x4f57_0000_0000),
            _ => return (ABORTED, 0, 0x02),
        };
        self.medium.note(format!("sanitize {name}"));
        if !there(bit) || lba != key || self.sanitize_frozen {
            return (ABORTED, 0, 0x02);
        }
        assert_eq!(count & 1 << 4, 1 << 4, "a failure can be left");
        play.start();
        drop(play);
        (GOOD, 0, 0)
    }
}

/// SAT-4 table 210: information is error, status, device and count; the
/// command-specific field has flags (EXTEND, upper count, upper LBA) and LBA.
fn fixed(status: u8, error: u8, count: u16, lba: u64) -> Vec<u8> {
    let [count_high, count_low] = count.to_be_bytes();
    let [l0, l1, l2, ..] = lba.to_le_bytes();
    let flags = 0x80 | u8::from(count_high != 0) << 6 | u8::from(lba >> 24 != 0) << 5;
    vec![
        0x70, 0, 0x01, error, status, 0, count_low, 10, flags, l0, l1, l2, 0x00, 0x1d, 0, 0, 0, 0,
    ]
}

impl Passthrough for &Ata {
    fn nvme(&self, _: &Admin, _: &mut [u8]) -> io::Result<u32> {
        Err(unexpected("an NVMe command"))
    }

    fn namespace(&self) -> io::Result<u32> {
        Err(unexpected("an NVMe command"))
    }

    fn scsi(&self, cdb: &[u8], transfer: Transfer<'_>, limit: Duration) -> io::Result<ScsiReply> {
        assert_eq!((cdb.len(), cdb[0]), (16, 0x85), "ATA PASS-THROUGH(16)");
        if self.deaf {
            // SPC-5 table 28: illegal request, invalid command operation code.
            return Ok(ScsiReply {
                status: 2,
                sense: vec![0x72, 0x05, 0x20, 0x00, 0, 0, 0, 0],
            });
        }
        // SAT-4 table 178: protocol and EXTEND, flags, then the registers in
        // pairs of an upper and a lower byte.
        let (protocol, extend) = (cdb[1] >> 1 & 0xf, cdb[1] & 1 == 1);
        let pair = |at: usize| u16::from_be_bytes([cdb[at], cdb[at + 1]]);
        let (feature, count) = (pair(3), pair(5));
        let lba = [cdb[11], cdb[9], cdb[7], cdb[12], cdb[10], cdb[8]];
        let lba = lba.iter().fold(0, |lba, byte| lba << 8 | u64::from(*byte));
        let command = cdb[14];
        let mut back = (0, 0);
        let registers = match (command, transfer) {
            (0xec, Transfer::In(page)) => {
                assert_eq!((protocol, cdb[2]), (4, 0x0e), "PIO in, one block");
                self.identify(page);
                return Ok(ScsiReply::default());
            }
            (0xb4, Transfer::None) => {
                assert!(extend && protocol == 3, "a 48-bit command without data");
                let (registers, count, lba) = self.sanitize(feature, count, lba);
                back = (count, lba);
                registers
            }
            (command, Transfer::Out(data)) => {
                assert_eq!(
                    (protocol, cdb[2], count),
                    (5, 0x26, 1),
                    "PIO out, one block"
                );
                if command == 0xf4 {
                    // Words 89 and 90 with an hour more.
                    let minutes = if data[0] & 2 != 0 { 62 } else { 240 };
                    assert_eq!(limit, Duration::from_secs(minutes * 60));
                }
                self.security(command, data)
            }
            (command, _) => self.security(command, &[]),
        };
        if self.wrapping == Wrapping::Nothing && registers == GOOD {
            return Ok(ScsiReply::default());
        }
        let ((status, error), (count, lba)) = (registers, back);
        if self.wrapping == Wrapping::Fixed {
            return Ok(ScsiReply {
                status: 2,
                sense: fixed(status, error, count, lba),
            });
        }
        let [count_high, count_low] = count.to_be_bytes();
        let [l0, l1, l2, l3, l4, l5, _, _] = lba.to_le_bytes();
        // SPC-5 table 31 with SAT-4 table 209: recovered error, ATA
        // pass-through information available.
        let header = [0x72, 0x01, 0x00, 0x1d, 0, 0, 0, 14];
        let descriptor = [
            0x09,
            0x0c,
            u8::from(extend),
            error,
            count_high,
            count_low,
            l3,
            l0,
            l4,
            l1,
            l5,
            l2,
            0,
            status,
        ];
        Ok(ScsiReply {
            status: 2,
            sense: [&header[..], &descriptor[..]].concat(),
        })
    }

    fn secure_discard(&self, _: u64, _: u64) -> io::Result<()> {
        Err(unexpected("a secure discard"))
    }

    fn pause(&self, _: Duration) {}
}

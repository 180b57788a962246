//! Sense data: what a SCSI device, or an ATA drive behind a translation,
//! says of a command.

/// Sense keys (SPC-5 table 49).
pub(crate) const NO_SENSE: u8 = 0x0;
pub(crate) const RECOVERED: u8 = 0x1;
pub(crate) const NOT_READY: u8 = 0x2;
pub(crate) const UNIT_ATTENTION: u8 = 0x6;

/// Descriptor types (SPC-5 table 32; SAT-4 §12.2.2.6).
const SENSE_KEY_SPECIFIC: u8 = 0x02;
const ATA_STATUS_RETURN: u8 = 0x09;

/// Key, code and what goes with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sense {
    /// Sense key.
    pub(crate) key: u8,
    /// Additional sense code.
    pub(crate) asc: u8,
    /// Its qualifier.
    pub(crate) ascq: u8,
    /// Progress of an operation in parts of 65536 (SPC-5 §4.5.2.4.6).
    pub(crate) progress: Option<u16>,
}

/// What an ATA drive left in its registers (SAT-4 table 209).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AtaReturn {
    /// Error register.
    pub(crate) error: u8,
    /// Status register.
    pub(crate) status: u8,
    /// Count; `None` of its upper half where the translation leaves it out.
    pub(crate) count: Option<u16>,
    /// LBA, its lower 24 bits at least.
    pub(crate) lba: u64,
}

fn byte(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or_default()
}

/// Response code: 70h and 71h are the fixed format, 72h and 73h descriptors
/// (SPC-5 table 28).
fn response_code(bytes: &[u8]) -> u8 {
    byte(bytes, 0) & 0x7f
}

/// Descriptors of the descriptor format (SPC-5 table 31): from byte 8, each
/// a type, an additional length and that many bytes.
fn descriptors(bytes: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    let end = (8 + usize::from(byte(bytes, 7))).min(bytes.len());
    let mut rest = bytes.get(8..end).unwrap_or_default();
    while rest.len() >= 2 {
        let length = (2 + usize::from(rest[1])).min(rest.len());
        let (descriptor, behind) = rest.split_at(length);
        found.push(descriptor);
        rest = behind;
    }
    found
}

/// Reads sense data of either format. `None` when it is none.
pub(crate) fn parse(bytes: &[u8]) -> Option<Sense> {
    let progress = |flags: u8, high: u8, low: u8| {
        // SKSV, the highest bit, makes the field valid.
        (flags & 0x80 != 0).then(|| u16::from_be_bytes([high, low]))
    };
    match response_code(bytes) {
        // SPC-5 table 47: key in byte 2, codes in 12 and 13, sense key
        // specific from 15.
        0x70 | 0x71 => Some(Sense {
            key: byte(bytes, 2) & 0x0f,
            asc: byte(bytes, 12),
            ascq: byte(bytes, 13),
            progress: progress(byte(bytes, 15), byte(bytes, 16), byte(bytes, 17)),
        }),
        // SPC-5 table 31: key in byte 1, codes in 2 and 3; table 34: flags
        // in byte 4 of the descriptor.
        0x72 | 0x73 => {
            let specific = descriptors(bytes)
                .into_iter()
                .find(|descriptor| byte(descriptor, 0) == SENSE_KEY_SPECIFIC);
            Some(Sense {
                key: byte(bytes, 1) & 0x0f,
                asc: byte(bytes, 2),
                ascq: byte(bytes, 3),
                progress: specific.and_then(|d| progress(byte(d, 4), byte(d, 5), byte(d, 6))),
            })
        }
        _ => None,
    }
}

/// Reads the registers that an ATA PASS-THROUGH command gives back.
pub(crate) fn ata_return(bytes: &[u8]) -> Option<AtaReturn> {
    match response_code(bytes) {
        0x72 | 0x73 => {
            let d = descriptors(bytes)
                .into_iter()
                .find(|d| byte(d, 0) == ATA_STATUS_RETURN && d.len() >= 14)?;
            // Bytes of the descriptor: 4 and 5 count, 6 to 11 the LBA in
            // pairs of an upper and a lower byte.
            let lba = [d[10], d[8], d[6], d[11], d[9], d[7]];
            Some(AtaReturn {
                error: d[3],
                status: d[13],
                count: Some(u16::from_be_bytes([d[4], d[5]])),
                lba: lba.iter().fold(0, |lba, byte| lba << 8 | u64::from(*byte)),
            })
        }
        // SAT-4 table 210: only the lower halves fit; ASC 00h, ASCQ 1Dh says
        // that it is one.
        0x70 | 0x71 if bytes.len() >= 14 && (bytes[12], bytes[13]) == (0x00, 0x1d) => {
            Some(AtaReturn {
                error: bytes[3],
                status: bytes[4],
                // Flags in byte 8: bit 6 tells that the upper count is not 0.
                count: (bytes[8] & 0x40 == 0).then(|| u16::from(bytes[6])),
                lba: u64::from(bytes[9]) | u64::from(bytes[10]) << 8 | u64::from(bytes[11]) << 16,
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::ata_return;
    use super::parse;
    use proptest::prelude::*;

    #[test]
    fn both_formats_have_key_code_and_progress() {
        let mut fixed = [0_u8; 18];
        fixed[0] = 0x70;
        fixed[2] = 0x02;
        fixed[7] = 10;
        (fixed[12], fixed[13]) = (0x04, 0x1b);
        (fixed[15], fixed[16], fixed[17]) = (0x80, 0x40, 0x00);
        let sense = parse(&fixed).unwrap();
        assert_eq!((sense.key, sense.asc, sense.ascq), (2, 4, 0x1b));
        assert_eq!(sense.progress, Some(0x4000));

        let descriptors = [
            0x72, 0x02, 0x04, 0x1b, 0, 0, 0, 8, 0x02, 0x06, 0, 0, 0x80, 0x80, 0x01, 0,
        ];
        let sense = parse(&descriptors).unwrap();
        assert_eq!((sense.key, sense.asc, sense.ascq), (2, 4, 0x1b));
        assert_eq!(sense.progress, Some(0x8001));
        assert_eq!(parse(&[]), None);
    }

    #[test]
    fn registers_of_both_formats() {
        let bytes = [
            0x72, 0x01, 0x00, 0x1d, 0, 0, 0, 14, // header
            0x09, 0x0c, 0x01, 0x04, 0x80, 0x01, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x00, 0x51,
        ];
        let found = ata_return(&bytes).unwrap();
        assert_eq!((found.error, found.status), (0x04, 0x51));
        assert_eq!(found.count, Some(0x8001));
        assert_eq!(found.lba, 0x5533_1166_4422);

        let mut fixed = [0_u8; 18];
        fixed[0] = 0x70;
        (fixed[3], fixed[4], fixed[6]) = (0x04, 0x51, 0x07);
        (fixed[9], fixed[10], fixed[11]) = (0x01, 0x02, 0x03);
        fixed[13] = 0x1d;
        let found = ata_return(&fixed).unwrap();
        assert_eq!((found.error, found.status, found.lba), (4, 0x51, 0x03_0201));
        assert_eq!(found.count, Some(7));
        fixed[8] = 0x40;
        assert_eq!(ata_return(&fixed).unwrap().count, None);
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64), code in 0x70_u8..0x74) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first = code;
            }
            parse(&bytes);
            ata_return(&bytes);
        }
    }
}

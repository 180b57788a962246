//! Bytes ↔ messages: RMCP (§13.1), session headers (§13.6) and LAN messages
//! (§13.8). No I/O, and no secrets: what is signed or encrypted is handed in
//! and out as bytes. Everything read comes from the network and is taken as
//! hostile.

/// RMCP version 1.0, no acknowledgement, class IPMI.
const RMCP: [u8; 4] = [0x06, 0x00, 0xFF, 0x07];
/// Authentication type of the format of IPMI 2.0.
const FORMAT_RMCP_PLUS: u8 = 0x06;
/// "Next header" of the session trailer: always this.
const NEXT_HEADER: u8 = 0x07;
/// Slave address of the BMC.
const BMC: u8 = 0x20;
/// Software ID of a remote console.
const CONSOLE: u8 = 0x81;

/// What a datagram carries (§13.27.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Payload {
    Ipmi,
    OpenRequest,
    OpenResponse,
    Rakp1,
    Rakp2,
    Rakp3,
    Rakp4,
}

impl Payload {
    const fn code(self) -> u8 {
        match self {
            Self::Ipmi => 0x00,
            Self::OpenRequest => 0x10,
            Self::OpenResponse => 0x11,
            Self::Rakp1 => 0x12,
            Self::Rakp2 => 0x13,
            Self::Rakp3 => 0x14,
            Self::Rakp4 => 0x15,
        }
    }

    const fn of(code: u8) -> Option<Self> {
        Some(match code {
            0x00 => Self::Ipmi,
            0x10 => Self::OpenRequest,
            0x11 => Self::OpenResponse,
            0x12 => Self::Rakp1,
            0x13 => Self::Rakp2,
            0x14 => Self::Rakp3,
            0x15 => Self::Rakp4,
            _ => return None,
        })
    }
}

/// A command (§5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Command {
    /// As messages name it.
    pub(super) name: &'static str,
    /// Network function of the request; even.
    pub(super) netfn: u8,
    /// The command's number.
    pub(super) code: u8,
}

/// The answer to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) netfn: u8,
    pub(super) sequence: u8,
    pub(super) command: u8,
    pub(super) completion: u8,
    pub(super) data: Vec<u8>,
}

/// Two's complement of the sum (§13.8).
fn checksum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0u8, |sum, byte| sum.wrapping_sub(*byte))
}

/// A LAN message with a request; `sequence` below 64.
pub(super) fn request(command: Command, sequence: u8, data: &[u8]) -> Vec<u8> {
    let mut message = vec![BMC, command.netfn << 2];
    message.push(checksum(&message));
    let body = message.len();
    message.extend([CONSOLE, sequence << 2, command.code]);
    message.extend(data);
    message.push(checksum(&message[body..]));
    message
}

/// Reads a LAN message with an answer; none where it is damaged or not for us.
pub(super) fn answer(message: &[u8]) -> Option<Answer> {
    let (head, rest) = message.split_at_checked(3)?;
    let [to, netfn, _] = *head else { return None };
    let (data, sum) = rest.split_at_checked(rest.len().checked_sub(1)?)?;
    if to != CONSOLE || checksum(&head[..2]) != head[2] || checksum(data) != *sum.first()? {
        return None;
    }
    let (fixed, data) = data.split_at_checked(4)?;
    let [_, sequence, command, completion] = *fixed else {
        return None;
    };
    Some(Answer {
        netfn: netfn >> 2,
        sequence: sequence >> 2,
        command,
        completion,
        data: data.to_vec(),
    })
}

/// A datagram outside of a session, in the format of IPMI 1.5 (§13.6): the
/// first question goes out so.
pub(super) fn bare(message: &[u8]) -> Vec<u8> {
    let mut datagram = RMCP.to_vec();
    datagram.extend([0; 9]);
    datagram.push(u8::try_from(message.len()).unwrap_or(u8::MAX));
    datagram.extend(message);
    datagram
}

/// The message of such a datagram.
pub(super) fn from_bare(datagram: &[u8]) -> Option<&[u8]> {
    let rest = datagram.strip_prefix(&RMCP)?;
    let (head, message) = rest.split_at_checked(10)?;
    let length = usize::from(head[9]);
    (head[0] == 0).then_some(())?;
    message.get(..length)
}

/// A datagram of the format of IPMI 2.0 without protection: the messages that
/// open a session.
pub(super) fn plain(kind: Payload, payload: &[u8]) -> Vec<u8> {
    let mut datagram = RMCP.to_vec();
    datagram.extend([FORMAT_RMCP_PLUS, kind.code()]);
    datagram.extend([0; 8]);
    put_length(&mut datagram, payload);
    datagram.extend(payload);
    datagram
}

/// A datagram of a session up to its authentication code: `signed` gives the
/// part that the code is made over.
pub(super) struct Sealed {
    datagram: Vec<u8>,
}

impl Sealed {
    /// `session`: the BMC's ID of it. `payload`: encrypted.
    pub(super) fn new(session: u32, sequence: u32, payload: &[u8]) -> Self {
        let mut datagram = RMCP.to_vec();
        datagram.extend([FORMAT_RMCP_PLUS, 0xC0 | Payload::Ipmi.code()]);
        datagram.extend(session.to_le_bytes());
        datagram.extend(sequence.to_le_bytes());
        put_length(&mut datagram, payload);
        datagram.extend(payload);
        // What is signed is a multiple of four bytes, with the pad's length
        // and the next header at its end (§13.28.4).
        let signed = datagram.len() - RMCP.len() + 2;
        let pad = signed.next_multiple_of(4) - signed;
        datagram.extend(std::iter::repeat_n(0xFF, pad));
        datagram.push(u8::try_from(pad).unwrap_or_default());
        datagram.push(NEXT_HEADER);
        Self { datagram }
    }

    pub(super) fn signed(&self) -> &[u8] {
        &self.datagram[RMCP.len()..]
    }

    pub(super) fn with_code(mut self, code: &[u8]) -> Vec<u8> {
        self.datagram.extend(code);
        self.datagram
    }
}

fn put_length(datagram: &mut Vec<u8>, payload: &[u8]) {
    // Ours are a hundred bytes at most.
    let length = u16::try_from(payload.len()).unwrap_or(u16::MAX);
    datagram.extend(length.to_le_bytes());
}

/// A received datagram of the format of IPMI 2.0.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Received<'a> {
    pub(super) kind: Payload,
    pub(super) encrypted: bool,
    pub(super) authenticated: bool,
    pub(super) session: u32,
    pub(super) sequence: u32,
    pub(super) payload: &'a [u8],
    /// What an authentication code was made over, and the code; both empty
    /// where there is none.
    pub(super) signed: &'a [u8],
    pub(super) code: &'a [u8],
}

/// Reads a datagram; `code_length`: bytes of the session's authentication
/// codes.
pub(super) fn receive(datagram: &[u8], code_length: usize) -> Option<Received<'_>> {
    let rest = datagram.strip_prefix(&RMCP)?;
    let (head, after) = rest.split_at_checked(12)?;
    let word = |at: usize| {
        head.get(at..at + 4)?
            .try_into()
            .ok()
            .map(u32::from_le_bytes)
    };
    if head[0] != FORMAT_RMCP_PLUS {
        return None;
    }
    let kind = Payload::of(head[1] & 0x3F)?;
    let authenticated = head[1] & 0x40 != 0;
    let length = usize::from(u16::from_le_bytes([head[10], head[11]]));
    let payload = after.get(..length)?;
    let (signed, code) = match authenticated {
        false => (&[][..], &[][..]),
        true => {
            let split = rest.len().checked_sub(code_length)?;
            let (signed, code) = rest.split_at_checked(split)?;
            // Payload, pad, its length, next header.
            (signed.len() >= 12 + length + 2).then_some(())?;
            (signed, code)
        }
    };
    Some(Received {
        kind,
        encrypted: head[1] & 0x80 != 0,
        authenticated,
        session: word(2)?,
        sequence: word(6)?,
        payload,
        signed,
        code,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::any;
    use proptest::prelude::proptest;
    use proptest::prop_assert_eq;

    use super::Command;
    use super::Payload;
    use super::Sealed;
    use super::answer;
    use super::bare;
    use super::checksum;
    use super::from_bare;
    use super::plain;
    use super::receive;
    use super::request;

    /// Get Channel Authentication Capabilities.
    const CAPABILITIES: Command = Command {
        name: "Get Channel Authentication Capabilities",
        netfn: 0x06,
        code: 0x38,
    };

    #[test]
    fn a_request_is_as_the_specification_lays_it_out() {
        // §13.8: rsAddr, netFn/LUN, checksum, rqAddr, rqSeq/LUN, cmd, data,
        // checksum.
        let message = request(CAPABILITIES, 0, &[0x8E, 0x04]);
        assert_eq!(
            message,
            [0x20, 0x18, 0xC8, 0x81, 0x00, 0x38, 0x8E, 0x04, 0xB5]
        );
        let datagram = bare(&message);
        assert_eq!(datagram.len(), 4 + 10 + 9);
        assert_eq!(from_bare(&datagram), Some(&message[..]));
    }

    #[test]
    fn reads_an_answer_and_refuses_a_damaged_one() {
        let mut message = vec![0x81, 0x07 << 2, 0, 0x20, 5 << 2, 0x38, 0x00, 0x01, 0x02];
        message[2] = checksum(&message[..2]);
        message.push(checksum(&message[3..]));
        let read = answer(&message).unwrap();
        assert_eq!((read.netfn, read.sequence, read.command), (7, 5, 0x38));
        assert_eq!((read.completion, &read.data[..]), (0, &[1, 2][..]));
        for at in 0..message.len() {
            let mut damaged = message.clone();
            damaged[at] ^= 0x40;
            assert_eq!(answer(&damaged), None, "byte {at}");
        }
    }

    #[test]
    fn signs_a_multiple_of_four_bytes() {
        for length in 0..40 {
            let payload = vec![7; length];
            let sealed = Sealed::new(0x0102_0304, 9, &payload);
            assert_eq!(sealed.signed().len() % 4, 0);
            let signed = sealed.signed().to_vec();
            let datagram = sealed.with_code(&[1; 12]);
            let read = receive(&datagram, 12).unwrap();
            assert_eq!((read.session, read.sequence), (0x0102_0304, 9));
            assert_eq!((read.payload, read.signed), (&payload[..], &signed[..]));
            assert!(read.encrypted && read.authenticated);
            assert_eq!(read.code, [1; 12]);
        }
    }

    #[test]
    fn a_length_beyond_the_datagram_is_refused() {
        let mut datagram = plain(Payload::Rakp2, &[1, 2, 3]);
        assert_eq!(receive(&datagram, 0).unwrap().payload, [1, 2, 3]);
        datagram[14] = 4;
        assert_eq!(receive(&datagram, 0), None);
        let sealed = Sealed::new(1, 1, &[0; 16]).with_code(&[0; 12]);
        assert_eq!(receive(&sealed[..sealed.len() - 4], 12), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>, code in 0usize..40) {
            let _ = (answer(&bytes), from_bare(&bytes), receive(&bytes, code));
            let mut framed = vec![0x06, 0x00, 0xFF, 0x07, 0x06];
            framed.extend(&bytes);
            let _ = receive(&framed, code);
        }

        #[test]
        fn what_is_sent_can_be_read(data in proptest::collection::vec(any::<u8>(), 0..60)) {
            let datagram = plain(Payload::Rakp1, &data);
            prop_assert_eq!(receive(&datagram, 12).unwrap().payload, &data[..]);
        }
    }
}

//! The cipher suites (§13.28, §22.15.2) and the key exchange by RAKP
//! (§13.31–§13.32).

use aws_lc_rs::cipher::AES_128;
use aws_lc_rs::cipher::DecryptingKey;
use aws_lc_rs::cipher::DecryptionContext;
use aws_lc_rs::cipher::EncryptingKey;
use aws_lc_rs::cipher::UnboundCipherKey;
use aws_lc_rs::constant_time;
use aws_lc_rs::hmac;
use aws_lc_rs::rand;

/// Bytes of an AES block.
const BLOCK: usize = 16;
/// Length of the constants that further keys are made from (§13.32), whatever
/// the hash.
const CONSTANT: usize = 20;

/// A cipher suite with authentication, integrity and encryption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Suite {
    /// 3: RAKP-HMAC-SHA1, HMAC-SHA1-96, AES-CBC-128.
    Sha1,
    /// 17: RAKP-HMAC-SHA256, HMAC-SHA256-128, AES-CBC-128.
    Sha256,
}

impl Suite {
    /// Its number (table 22-20).
    pub(super) const fn number(self) -> u8 {
        match self {
            Self::Sha1 => 3,
            Self::Sha256 => 17,
        }
    }

    /// Numbers of the authentication, integrity and encryption algorithms.
    pub(super) const fn algorithms(self) -> [u8; 3] {
        match self {
            Self::Sha1 => [1, 1, 1],
            Self::Sha256 => [3, 4, 1],
        }
    }

    /// Bytes of a key exchange authentication code.
    pub(super) const fn exchange_length(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }

    /// Bytes of an authentication code of a message, and of the integrity
    /// check value of RAKP message 4.
    pub(super) const fn code_length(self) -> usize {
        match self {
            Self::Sha1 => 12,
            Self::Sha256 => 16,
        }
    }

    fn hmac(self, key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
        let algorithm = match self {
            Self::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => hmac::HMAC_SHA256,
        };
        let mut context = hmac::Context::with_key(&hmac::Key::new(algorithm, key));
        for part in parts {
            context.update(part);
        }
        context.sign().as_ref().to_vec()
    }
}

/// Whether two codes are the same, in a time that does not tell where they
/// differ.
pub(super) fn same(one: &[u8], other: &[u8]) -> bool {
    constant_time::verify_slices_are_equal(one, other).is_ok()
}

/// Bytes that nobody can guess.
pub(super) fn random<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).ok()?;
    Some(bytes)
}

/// What both sides know once RAKP messages 1 and 2 are exchanged.
pub(super) struct Exchange<'a> {
    pub(super) suite: Suite,
    /// The remote console's session ID, ours.
    pub(super) console_session: u32,
    /// The managed system's session ID.
    pub(super) system_session: u32,
    pub(super) console_random: [u8; 16],
    pub(super) system_random: [u8; 16],
    pub(super) system_guid: [u8; 16],
    /// Requested privilege with the lookup bit.
    pub(super) role: u8,
    pub(super) user: &'a str,
    pub(super) password: &'a [u8],
    /// K_G; the password where it is none.
    pub(super) kg: &'a [u8],
}

impl Exchange<'_> {
    fn user_length(&self) -> u8 {
        // Checked against 16 when the settings were read.
        u8::try_from(self.user.len()).unwrap_or(u8::MAX)
    }

    /// The code that RAKP message 2 must carry (§13.31): the BMC knows the
    /// password.
    pub(super) fn system_code(&self) -> Vec<u8> {
        self.suite.hmac(
            self.password,
            &[
                &self.console_session.to_le_bytes(),
                &self.system_session.to_le_bytes(),
                &self.console_random,
                &self.system_random,
                &self.system_guid,
                &[self.role, self.user_length()],
                self.user.as_bytes(),
            ],
        )
    }

    /// The code of RAKP message 3: we know it as well.
    pub(super) fn console_code(&self) -> Vec<u8> {
        self.suite.hmac(
            self.password,
            &[
                &self.system_random,
                &self.console_session.to_le_bytes(),
                &[self.role, self.user_length()],
                self.user.as_bytes(),
            ],
        )
    }

    /// The session integrity key, and the value that RAKP message 4 must carry.
    pub(super) fn finish(&self) -> (Keys, Vec<u8>) {
        let sik = self.suite.hmac(
            self.kg,
            &[
                &self.console_random,
                &self.system_random,
                &[self.role, self.user_length()],
                self.user.as_bytes(),
            ],
        );
        let mut check = self.suite.hmac(
            &sik,
            &[
                &self.console_random,
                &self.system_session.to_le_bytes(),
                &self.system_guid,
            ],
        );
        check.truncate(self.suite.code_length());
        (Keys::new(self.suite, &sik), check)
    }
}

/// The keys of a session.
pub(super) struct Keys {
    suite: Suite,
    integrity: Vec<u8>,
    encryption: [u8; BLOCK],
}

impl Keys {
    fn new(suite: Suite, sik: &[u8]) -> Self {
        let further = |number: u8| suite.hmac(sik, &[&[number; CONSTANT]]);
        let mut encryption = [0; BLOCK];
        for (to, from) in encryption.iter_mut().zip(further(2)) {
            *to = from;
        }
        Self {
            suite,
            integrity: further(1),
            encryption,
        }
    }

    /// The authentication code of a message.
    pub(super) fn code(&self, signed: &[u8]) -> Vec<u8> {
        let mut code = self.suite.hmac(&self.integrity, &[signed]);
        code.truncate(self.suite.code_length());
        code
    }

    /// Encrypts by AES-CBC-128 (§13.29): initialisation vector, then message
    /// and pad (1, 2, 3… and its length). None where the library fails.
    pub(super) fn encrypt(&self, message: &[u8]) -> Option<Vec<u8>> {
        let vector: [u8; BLOCK] = random()?;
        let mut text = message.to_vec();
        let pad = (text.len() + 1).next_multiple_of(BLOCK) - text.len() - 1;
        text.extend((1..=pad).filter_map(|number| u8::try_from(number).ok()));
        text.push(u8::try_from(pad).ok()?);
        let key = UnboundCipherKey::new(&AES_128, &self.encryption).ok()?;
        let key = EncryptingKey::ecb(key).ok()?;
        let mut sealed = vector.to_vec();
        let mut before = vector;
        for block in text.chunks_exact_mut(BLOCK) {
            block
                .iter_mut()
                .zip(before)
                .for_each(|(to, with)| *to ^= with);
            key.encrypt(block).ok()?;
            before.copy_from_slice(block);
            sealed.extend(&*block);
        }
        Some(sealed)
    }

    /// The inverse; none where the pad is not as it must be.
    pub(super) fn decrypt(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        let (vector, text) = sealed.split_at_checked(BLOCK)?;
        if text.is_empty() || text.len() % BLOCK != 0 {
            return None;
        }
        let key = UnboundCipherKey::new(&AES_128, &self.encryption).ok()?;
        let key = DecryptingKey::ecb(key).ok()?;
        let mut message = text.to_vec();
        for (index, block) in message.chunks_exact_mut(BLOCK).enumerate() {
            key.decrypt(block, DecryptionContext::None).ok()?;
            let before = match index {
                0 => vector,
                _ => &text[(index - 1) * BLOCK..index * BLOCK],
            };
            block
                .iter_mut()
                .zip(before)
                .for_each(|(to, with)| *to ^= with);
        }
        let pad = usize::from(message.pop()?);
        let length = message.len().checked_sub(pad)?;
        let sound = message[length..]
            .iter()
            .zip(1u8..)
            .all(|(found, expected)| *found == expected);
        (sound && pad < BLOCK).then_some(())?;
        message.truncate(length);
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::Keys;
    use super::Suite;

    #[test]
    fn what_was_encrypted_is_decrypted() {
        let keys = Keys::new(Suite::Sha256, b"session integrity key");
        for length in 0..70 {
            let message: Vec<u8> = (0..length).collect();
            let sealed = keys.encrypt(&message).unwrap();
            assert_eq!(sealed.len() % 16, 0);
            assert_eq!(keys.decrypt(&sealed).unwrap(), message);
        }
        for bad in [&[][..], &[0; 15], &[0; 16], &[0; 17], &[0; 40]] {
            assert_eq!(keys.decrypt(bad), None);
        }
    }

    #[test]
    fn codes_have_the_length_of_their_suite() {
        for (suite, code) in [(Suite::Sha1, 12), (Suite::Sha256, 16)] {
            let keys = Keys::new(suite, b"key");
            assert_eq!(keys.code(b"message").len(), code);
            assert_ne!(keys.code(b"message"), keys.code(b"massage"));
        }
    }

    #[test]
    fn hmacs_are_those_of_rfc_2202_and_4231() {
        // Test case 2 of both.
        let key = b"Jefe";
        let text: &[&[u8]] = &[b"what do ya want ", b"for nothing?"];
        let sha1 = Suite::Sha1.hmac(key, text);
        assert_eq!(&sha1[..4], [0xef, 0xfc, 0xdf, 0x6a]);
        let sha256 = Suite::Sha256.hmac(key, text);
        assert_eq!(&sha256[..4], [0x5b, 0xdc, 0xc1, 0x46]);
    }
}

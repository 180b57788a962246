//! Password hashes in the form of crypt(5): SHA-crypt, as
//! <https://www.akkadia.org/drepper/SHA-crypt.txt> describes it, with the rounds
//! that are meant when none are named.

use sha2::Digest;
use sha2::Sha256;
use sha2::Sha512;

use crate::config::PasswordHash;
use crate::error::Error;

/// The alphabet of salts and hashes, in the order of its values.
const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Characters of a salt.
const SALT: usize = 16;
/// Rounds that are meant when the text names none.
const ROUNDS: usize = 5000;
/// Bytes of a password that are taken: the work grows with them.
const LONGEST: usize = 1024;

/// Hashes a password with a fresh salt.
pub(crate) fn hashed(password: &str, method: PasswordHash) -> Result<String, Error> {
    if password.len() > LONGEST {
        return Err(Error::Invalid(format!(
            "The rescue password has {} bytes, at most {LONGEST} are possible.",
            password.len()
        )));
    }
    let mut bytes = [0u8; SALT];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::Step(format!("no random bytes for a salt: {error}")))?;
    let salt: String = bytes.iter().map(|byte| letter(u32::from(*byte))).collect();
    Ok(with_salt(password, &salt, method))
}

fn with_salt(password: &str, salt: &str, method: PasswordHash) -> String {
    let (password, salt) = (password.as_bytes(), salt.as_bytes());
    let (prefix, hash) = match method {
        PasswordHash::Sha256 => ("5", encode_256(&sha_crypt::<Sha256>(password, salt))),
        PasswordHash::Sha512 => ("6", encode_512(&sha_crypt::<Sha512>(password, salt))),
    };
    format!("${prefix}${}${hash}", String::from_utf8_lossy(salt))
}

/// The bytes of SHA-crypt; the step numbers are those of its description.
fn sha_crypt<D: Digest>(password: &[u8], salt: &[u8]) -> Vec<u8> {
    // 4–8
    let second = hash::<D>(&[password, salt, password]);
    // 1–3, 9–12
    let mut first = D::new();
    first.update(password);
    first.update(salt);
    first.update(stretched(&second, password.len()));
    let mut bits = password.len();
    while bits > 0 {
        if bits & 1 == 1 {
            first.update(&second);
        } else {
            first.update(password);
        }
        bits >>= 1;
    }
    let mut last = first.finalize().to_vec();
    // 13–16
    let by_length = hash::<D>(&vec![password; password.len()]);
    let password = stretched(&by_length, password.len());
    // 17–20
    let times = 16 + last.first().map_or(0, |byte| usize::from(*byte));
    let by_times = hash::<D>(&vec![salt; times]);
    let salt = stretched(&by_times, salt.len());
    // 21
    for round in 0..ROUNDS {
        let (odd, mut parts) = (round % 2 == 1, Vec::with_capacity(4));
        parts.push(if odd { &password } else { &last });
        if round % 3 != 0 {
            parts.push(&salt);
        }
        if round % 7 != 0 {
            parts.push(&password);
        }
        parts.push(if odd { &last } else { &password });
        let parts: Vec<&[u8]> = parts.into_iter().map(Vec::as_slice).collect();
        last = hash::<D>(&parts);
    }
    last
}

fn hash<D: Digest>(parts: &[&[u8]]) -> Vec<u8> {
    let mut digest = D::new();
    for part in parts {
        digest.update(part);
    }
    digest.finalize().to_vec()
}

/// A digest again and again, up to a length.
fn stretched(digest: &[u8], length: usize) -> Vec<u8> {
    digest.iter().copied().cycle().take(length).collect()
}

/// 22, e: triples of bytes as four letters each, in an order of its own.
fn encode_256(hash: &[u8]) -> String {
    let mut text = String::new();
    let (mut a, mut b, mut c) = (0, 10, 20);
    for _ in 0..10 {
        triple(&mut text, hash, [Some(a), Some(b), Some(c)], 4);
        (a, b, c) = ((c + 1) % 30, (a + 1) % 30, (b + 1) % 30);
    }
    triple(&mut text, hash, [None, Some(31), Some(30)], 3);
    text
}

/// 22, f: the same for the longer digest.
fn encode_512(hash: &[u8]) -> String {
    let mut text = String::new();
    let (mut a, mut b, mut c) = (0, 21, 42);
    for _ in 0..21 {
        triple(&mut text, hash, [Some(a), Some(b), Some(c)], 4);
        (a, b, c) = ((b + 1) % 63, (c + 1) % 63, (a + 1) % 63);
    }
    triple(&mut text, hash, [None, None, Some(63)], 2);
    text
}

/// Appends three bytes, the first one highest, as letters, the lowest six bits
/// first.
fn triple(text: &mut String, hash: &[u8], places: [Option<usize>; 3], letters: usize) {
    let byte = |place: Option<usize>| place.and_then(|place| hash.get(place)).map_or(0, |b| *b);
    let mut value = places
        .into_iter()
        .fold(0u32, |value, place| (value << 8) | u32::from(byte(place)));
    for _ in 0..letters {
        text.push(letter(value));
        value >>= 6;
    }
}

fn letter(value: u32) -> char {
    // Six bits are always within the alphabet.
    let place = usize::try_from(value & 63).unwrap_or_default();
    ALPHABET.get(place).map_or('.', |byte| char::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::hashed;
    use super::with_salt;
    use crate::config::PasswordHash;

    /// The description's own example, then what `openssl passwd` says.
    #[test]
    fn hashes_are_those_of_crypt() {
        for (password, salt, method, wanted) in VECTORS {
            assert_eq!(with_salt(password, salt, *method), *wanted, "{password}");
        }
    }

    const VECTORS: &[(&str, &str, PasswordHash, &str)] = &[
        (
            "Hello world!",
            "saltstring",
            PasswordHash::Sha256,
            "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5",
        ),
        (
            "Hello world!",
            "saltstring",
            PasswordHash::Sha512,
            "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1",
        ),
        (
            "a",
            "saltstring",
            PasswordHash::Sha256,
            "$5$saltstring$7cz4bTeQ7MnNssphNhFVrITtuJYY/1tdvLL2uzLvOk8",
        ),
        (
            "a",
            "saltstring",
            PasswordHash::Sha512,
            "$6$saltstring$MO53nAXQUKXVLlsbiXyPgMsR6q10N7eF7sPvanwdXnEeCj5kE3eYaRvFv0wVW1UZ4SnNTzc1v4OCOq1ASDQZY0",
        ),
        (
            "This is a rather long password, longer than any one block of either digest, to be sure of it.",
            "saltstring",
            PasswordHash::Sha256,
            "$5$saltstring$e1uN1v9tWTO4qmXOykTX7ZCPxO3Cv3Y/VQ2XLPe5Rw5",
        ),
        (
            "This is a rather long password, longer than any one block of either digest, to be sure of it.",
            "saltstring",
            PasswordHash::Sha512,
            "$6$saltstring$JhYRMWlzV.y9ppPaJ31kkA25UuyOgGhCkqwJiDZzSFSnGeIpTLpCilbo/bmhI5G2cCHkD0RF.yB5oQCR5IblI/",
        ),
        (
            "päß",
            "0123456789abcdef",
            PasswordHash::Sha256,
            "$5$0123456789abcdef$lxvKPgEzG0ABSFbc73U4eziZ80IlGIRSbmkrpK14Al3",
        ),
        (
            "päß",
            "0123456789abcdef",
            PasswordHash::Sha512,
            "$6$0123456789abcdef$SwAXnvlFCGsp535xRHnoON/.9i9/KtJNZvZuHNuiqkaIQGJTI/uaU4bsQnKROBc4TCRy3QYLnLluW6muaeAS80",
        ),
    ];

    #[test]
    fn salts_differ_and_length_is_bounded() {
        let of = |password: &str| hashed(password, PasswordHash::Sha256).unwrap();
        let (one, other) = (of("secret12"), of("secret12"));
        assert!(
            one.starts_with("$5$") && one.len() == 3 + 16 + 1 + 43,
            "{one}"
        );
        assert_ne!(one, other);
        assert!(hashed(&"x".repeat(1025), PasswordHash::Sha512).is_err());
    }
}

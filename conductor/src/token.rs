//! Unguessable texts: agent tokens and parts of addresses.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use subtle::ConstantTimeEq;

/// 256 random bits, URL-safe: 43 characters, Ironic's form of an agent token.
pub(crate) fn random() -> String {
    let mut bytes = [0u8; 32];
    if getrandom::fill(&mut bytes).is_err() {
        // Two random UUIDs come from the same source and panic by themselves
        // when the kernel has no randomness at all.
        bytes[..16].copy_from_slice(uuid::Uuid::new_v4().as_bytes());
        bytes[16..].copy_from_slice(uuid::Uuid::new_v4().as_bytes());
    }
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Whether two tokens are the same, in a time that does not tell where they
/// differ.
pub(crate) fn same(a: &str, b: &str) -> bool {
    a.as_bytes().ct_eq(b.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    #[test]
    fn form_and_comparison() {
        let (a, b) = (super::random(), super::random());
        assert_eq!(a.len(), 43);
        assert!(
            a.bytes()
                .all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_')
        );
        assert!(super::same(&a, &a.clone()) && !super::same(&a, &b) && !super::same(&a, ""));
    }
}

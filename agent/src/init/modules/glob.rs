//! The patterns of `modules.alias`: `*`, `?` and `[…]`, as in `fnmatch(3)`
//! without flags.

/// Whether the whole text matches the pattern. Time is bounded by the product
/// of the two lengths.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where to go on when what follows the last star does not fit.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if p < pattern.len() && pattern[p] == b'*' {
            retry = Some((p + 1, t));
            p += 1;
            continue;
        }
        if p == pattern.len() && t == text.len() {
            return true;
        }
        if let Some(width) = text.get(t).and_then(|byte| one(&pattern[p..], *byte)) {
            p += width;
            t += 1;
            continue;
        }
        match retry {
            Some((after_star, from)) if from < text.len() => {
                retry = Some((after_star, from + 1));
                (p, t) = (after_star, from + 1);
            }
            _ => return false,
        }
    }
}

/// Bytes of the pattern that match this one byte.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match *pattern.first()? {
        b'?' => Some(1),
        b'[' => class(pattern, byte),
        literal => (literal == byte).then_some(1),
    }
}

fn class(pattern: &[u8], byte: u8) -> Option<usize> {
    let negated = matches!(pattern.get(1), Some(b'!' | b'^'));
    let start = if negated { 2 } else { 1 };
    // A bracket in the first place belongs to the class.
    let end = start
        + 1
        + pattern
            .get(start + 1..)?
            .iter()
            .position(|byte| *byte == b']')?;
    let members = &pattern[start..end];
    let mut inside = false;
    let mut rest = members;
    while let Some((low, tail)) = rest.split_first() {
        if let [b'-', high, tail @ ..] = tail {
            inside |= (*low..=*high).contains(&byte);
            rest = tail;
        } else {
            inside |= *low == byte;
            rest = tail;
        }
    }
    (inside != negated).then_some(end + 1)
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;

    use proptest::prelude::ProptestConfig;
    use proptest::prop_assert_eq;
    use proptest::proptest;

    use super::matches;

    #[test]
    fn aliases_of_real_hardware() {
        let virtio = "pci:v00001AF4d00001041sv00001AF4sd00001100bc02sc00i00";
        assert!(matches("pci:v00001AF4d*sv*sd*bc*sc*i*", virtio));
        assert!(!matches("pci:v00008086d*sv*sd*bc*sc*i*", virtio));
        assert!(matches("scsi:t-0x00*", "scsi:t-0x00"));
        assert!(matches(
            "usb:v*p*d*dc*dsc*dp*ic08isc06ip[56]0in*",
            "usb:v1p2d3dc0dsc0dp0ic08isc06ip50in00"
        ));
        assert!(matches("acpi*:PNP0501:*", "acpi:PNP0501:"));
        assert!(!matches("a*b", "a"));
        assert!(!matches("[", "["), "an open class matches nothing");
    }

    fn fnmatch(pattern: &str, text: &str) -> bool {
        let (pattern, text) = (CString::new(pattern).unwrap(), CString::new(text).unwrap());
        // SAFETY: both are C strings that live through the call.
        unsafe { libc::fnmatch(pattern.as_ptr(), text.as_ptr(), libc::FNM_NOESCAPE) == 0 }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn agrees_with_the_c_library(pattern in "([ab:*?]|\\[[ab]{1,3}\\]|\\[!a\\]|\\[a-c\\]){0,10}", text in "[abc:]{0,12}") {
            prop_assert_eq!(matches(&pattern, &text), fnmatch(&pattern, &text));
        }
    }
}

//! MAC addresses, in one form.

/// A MAC address in lower case with colons; none when the text is not one.
pub fn normalised(text: &str) -> Option<String> {
    let text = text.trim().to_ascii_lowercase().replace('-', ":");
    let octet = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parts: Vec<&str> = text.split(':').collect();
    (parts.len() == 6 && parts.into_iter().all(octet)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::normalised;

    #[test]
    fn macs_have_one_form() {
        assert_eq!(
            normalised("52-54-00-AA-bb-01").as_deref(),
            Some("52:54:00:aa:bb:01")
        );
        for bad in [
            "zz",
            "52:54:00:aa:bb",
            "52:54:00:aa:bb:0g",
            "52:54:00:aa:bb:001",
            "",
        ] {
            assert_eq!(normalised(bad), None, "{bad}");
        }
    }
}

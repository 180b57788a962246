//! Sizes as people read them.

/// `1.5 GiB` and the like.
pub(crate) fn size(bytes: u64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes} bytes")
    } else {
        format!("{value:.1} {}", units[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn a_size_has_its_own_unit() {
        for (bytes, text) in [
            (1023, "1023 bytes"),
            (100 << 10, "100.0 KiB"),
            (90 << 20, "90.0 MiB"),
            (3 << 29, "1.5 GiB"),
            (5 << 50, "5120.0 TiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}

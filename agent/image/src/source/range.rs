//! The headers of partial answers (RFC 9110, 14.4).

/// A `Content-Range: bytes FIRST-LAST/TOTAL` header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ContentRange {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) total: Option<u64>,
}

impl ContentRange {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (range, total) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let first: u64 = first.trim().parse().ok()?;
        let last: u64 = last.trim().parse().ok()?;
        let total = match total.trim() {
            "*" => None,
            total => Some(total.parse().ok()?),
        };
        (first <= last && total.is_none_or(|total| last < total)).then_some(Self {
            first,
            last,
            total,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::ContentRange;

    #[test]
    fn only_sound_ranges_are_read() {
        let parse = ContentRange::parse;
        assert_eq!(
            parse("bytes 5-9/10"),
            Some(ContentRange {
                first: 5,
                last: 9,
                total: Some(10)
            })
        );
        assert_eq!(
            parse("bytes 5-9/*"),
            Some(ContentRange {
                first: 5,
                last: 9,
                total: None
            })
        );
        for bad in [
            "bytes 5-10/10",
            "bytes 9-5/10",
            "bytes */10",
            "5-9/10",
            "bytes -/3",
            "",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}

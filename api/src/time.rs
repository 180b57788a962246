//! Times as Ironic prints them: ISO 8601 in UTC, microseconds unless they are
//! zero, `+00:00`.

use jiff::Timestamp;
use jiff::tz::Offset;
use serde_json::Value;

/// A time as text.
pub(crate) fn text(time: Timestamp) -> String {
    let at = Offset::UTC.to_datetime(time);
    let (year, month, day) = (at.year(), at.month(), at.day());
    let (hour, minute, second) = (at.hour(), at.minute(), at.second());
    match at.subsec_nanosecond().unsigned_abs() / 1000 {
        0 => format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}+00:00"),
        micros => format!(
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}+00:00"
        ),
    }
}

/// A time that may be missing, as JSON.
pub(crate) fn value(time: Option<Timestamp>) -> Value {
    time.map_or(Value::Null, |time| Value::String(text(time)))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::text;

    #[test]
    fn prints_as_ironic_does() {
        let time = Timestamp::from_microsecond(1_796_058_141_533_480).unwrap();
        assert_eq!(text(time), "2026-11-30T17:02:21.533480+00:00");
        let time = Timestamp::from_second(0).unwrap();
        assert_eq!(text(time), "1970-01-01T00:00:00+00:00");
        let time = Timestamp::from_microsecond(-1).unwrap();
        assert_eq!(text(time), "1969-12-31T23:59:59.999999+00:00");
    }
}

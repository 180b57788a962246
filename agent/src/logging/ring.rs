//! The last lines that were said, in bounded memory.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::PoisonError;

/// Bytes that are kept.
const CAPACITY: usize = 256 * 1024;
/// Bytes of one line that are kept.
const LINE: usize = 4096;

/// Keeps the last 256 KiB of lines.
#[derive(Debug, Default)]
pub struct Ring(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    lines: VecDeque<Box<str>>,
    bytes: usize,
}

impl Ring {
    /// Adds a line, which ends with a newline; the oldest make room.
    pub fn push(&self, line: &str) {
        let end = line
            .char_indices()
            .nth(LINE)
            .map_or(line.len(), |(end, _)| end);
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept = line[..end].to_owned();
        if !kept.ends_with('\n') {
            kept.push('\n');
        }
        inner.bytes += kept.len();
        inner.lines.push_back(kept.into());
        while inner.bytes > CAPACITY {
            let Some(oldest) = inner.lines.pop_front() else {
                break;
            };
            inner.bytes -= oldest.len();
        }
    }

    /// All that is kept, oldest first.
    pub fn text(&self) -> String {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.lines.iter().map(AsRef::as_ref).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::CAPACITY;
    use super::Ring;

    #[test]
    fn keeps_the_last_lines() {
        let ring = Ring::default();
        for number in 0..20_000 {
            ring.push(&format!("this is line {number}\n"));
        }
        let text = ring.text();
        assert!(text.len() <= CAPACITY && text.len() > CAPACITY - 100);
        assert!(text.ends_with("this is line 19999\n"));
        assert!(text.starts_with("this is line "));
        ring.push(&"é".repeat(5000));
        assert!(ring.text().ends_with("éé\n"));
    }
}

//! What an executable prints, within bounds.

use std::fmt;

/// Bounds of what a process may print on its standard output, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Of one line.
    pub line: usize,
    /// Of everything.
    pub total: usize,
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes in a line or {} in all", self.line, self.total)
    }
}

/// Makes lines of what comes in pieces.
#[derive(Debug)]
pub struct Lines {
    bounds: Bounds,
    partial: Vec<u8>,
    read: usize,
}

impl Lines {
    /// With nothing read yet.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            partial: Vec::new(),
            read: 0,
        }
    }

    /// Takes a piece as far as its first line goes: how many bytes that were,
    /// and the line without its end, if it has ended.
    ///
    /// # Errors
    /// The bounds, where it is more than they allow.
    pub fn take(&mut self, piece: &[u8]) -> Result<(usize, Option<Vec<u8>>), Bounds> {
        let end = piece.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(piece.len(), |end| end + 1);
        self.partial
            .extend_from_slice(&piece[..end.unwrap_or(taken)]);
        self.read += taken;
        if self.partial.len() > self.bounds.line || self.read > self.bounds.total {
            return Err(self.bounds);
        }
        Ok((taken, end.map(|_| std::mem::take(&mut self.partial))))
    }

    /// The line that nothing has ended, once there is nothing more.
    pub fn last(&mut self) -> Option<Vec<u8>> {
        let last = std::mem::take(&mut self.partial);
        (!last.is_empty()).then_some(last)
    }
}

/// The end of what comes in pieces.
#[derive(Debug, Default)]
pub struct Tail(Vec<u8>);

impl Tail {
    /// Bytes that are kept.
    const KEPT: usize = 2048;

    /// Adds a piece.
    pub fn add(&mut self, piece: &[u8]) {
        self.0.extend_from_slice(piece);
        let over = self.0.len().saturating_sub(Self::KEPT);
        self.0.drain(..over);
    }

    /// As one line for people.
    pub fn plain(&self) -> String {
        plain(&self.0)
    }
}

/// A process's words as one line for people.
pub fn plain(words: &[u8]) -> String {
    let text = String::from_utf8_lossy(words);
    let text = text.trim().replace(['\n', '\r', '\t'], " ");
    text.chars()
        .filter(|c| !c.is_control())
        .take(1000)
        .collect()
}

/// How a process ended, with the end of its error output.
pub fn ended(status: std::process::ExitStatus, errors: &str) -> String {
    match errors {
        "" => format!("ended with {status}"),
        errors => format!("ended with {status}; its error output ends with: {errors}"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::Bounds;
    use super::Lines;
    use super::Tail;
    use super::ended;
    use super::plain;

    const BOUNDS: Bounds = Bounds { line: 4, total: 10 };

    #[test]
    fn pieces_become_lines() {
        let mut lines = Lines::new(BOUNDS);
        assert_eq!(lines.take(b"ab"), Ok((2, None)));
        assert_eq!(lines.take(b"c\nd"), Ok((2, Some(b"abc".to_vec()))));
        assert_eq!(lines.take(b"\n"), Ok((1, Some(Vec::new()))));
        assert_eq!(lines.last(), None);
        assert_eq!(lines.take(b"d"), Ok((1, None)));
        assert_eq!(lines.last(), Some(b"d".to_vec()));
    }

    #[test]
    fn bounds_hold() {
        assert_eq!(Lines::new(BOUNDS).take(b"abcde"), Err(BOUNDS));
        let mut lines = Lines::new(BOUNDS);
        for _ in 0..5 {
            assert_eq!(lines.take(b"a\n"), Ok((2, Some(b"a".to_vec()))));
        }
        assert_eq!(lines.take(b"\n"), Err(BOUNDS));
        assert_eq!(BOUNDS.to_string(), "4 bytes in a line or 10 in all");
    }

    #[test]
    fn the_end_is_kept_as_one_line() {
        let mut tail = Tail::default();
        tail.add(&[b'x'; 5000]);
        tail.add(b"\nlast\tone\x07\n");
        assert!(tail.plain().len() <= 1000 && tail.plain().starts_with('x'));
        assert_eq!(plain(b"\nlast\tone\x07\n"), "last one");
        let status = ExitStatus::from_raw(3 << 8);
        assert_eq!(ended(status, ""), "ended with exit status: 3");
        assert!(ended(status, "bad").ends_with("; its error output ends with: bad"));
    }
}

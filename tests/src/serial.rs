//! Reading a guest's serial console log.

use std::fs::File;
use std::io::Read;
use std::io::Seek;
use std::io::SeekFrom;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use anyhow::bail;

/// How much of a log is looked at; more than a boot ever writes.
const LIMIT: u64 = 4 << 20;

/// A view of a log from a point in time on.
#[derive(Debug, Clone)]
pub struct SerialLog {
    path: PathBuf,
    from: u64,
}

impl SerialLog {
    /// The log from its beginning.
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            from: 0,
        }
    }

    /// What comes from now on.
    pub fn from_now(&self) -> Self {
        let from = std::fs::metadata(&self.path).map_or(0, |meta| meta.len());
        Self {
            path: self.path.clone(),
            from,
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What there is so far, as plain text lines.
    pub fn text(&self) -> String {
        let mut raw = Vec::new();
        if let Ok(mut file) = File::open(&self.path)
            && file.seek(SeekFrom::Start(self.from)).is_ok()
        {
            // An unreadable log is an empty one: whoever waits for a line in
            // it then says that it did not come.
            file.take(LIMIT).read_to_end(&mut raw).ok();
        }
        plain(&String::from_utf8_lossy(&raw))
    }

    /// Waits until `find` gives something for the text so far.
    pub async fn wait<T>(
        &self,
        what: &str,
        limit: Duration,
        find: impl Fn(&str) -> Option<T>,
    ) -> Result<T> {
        let until = tokio::time::Instant::now() + limit;
        loop {
            let text = self.text();
            if let Some(found) = find(&text) {
                return Ok(found);
            }
            if tokio::time::Instant::now() >= until {
                bail!(
                    "{what} did not appear on the serial console within {} s; it ends with: {} \
                     (whole log: {})",
                    limit.as_secs(),
                    tail(&text, 3).join(" | "),
                    self.path.display()
                );
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    }
}

/// The last lines that are not blank.
pub fn tail(text: &str, lines: usize) -> Vec<&str> {
    let mut last: Vec<&str> = text
        .lines()
        .rev()
        .filter(|line| !line.trim().is_empty())
        .take(lines)
        .collect();
    last.reverse();
    last
}

/// Text without terminal control sequences (ECMA-48) and carriage returns.
/// A cursor movement begins a new line: firmware paints its screens that way.
pub fn plain(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut chars = raw.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => match chars.peek() {
                Some('[') => {
                    chars.next();
                    let last = chars.by_ref().find(|c| ('@'..='~').contains(c));
                    if matches!(last, Some('H' | 'f')) && !out.ends_with('\n') {
                        out.push('\n');
                    }
                }
                Some(']') => {
                    // An operating system command ends with BEL or ESC \.
                    for c in chars.by_ref() {
                        if matches!(c, '\u{7}' | '\\') {
                            break;
                        }
                    }
                }
                _ => {
                    chars.next();
                }
            },
            '\r' => {}
            '\n' | '\t' => out.push(c),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::SerialLog;
    use super::plain;
    use super::tail;

    #[test]
    fn control_sequences_are_taken_out() {
        assert_eq!(
            plain("\u{1b}[0m\u{1b}[32m  OK  \u{1b}[0m done\r\n"),
            "  OK   done\n"
        );
        assert_eq!(plain("a\u{1b}[2;1Hb"), "a\nb");
        assert_eq!(
            plain("\u{1b}]3008;start=1\u{1b}\\host login: "),
            "host login: "
        );
        assert_eq!(tail("one\n\ntwo\n  \n", 2), ["one", "two"]);
    }

    #[test]
    fn a_view_begins_where_it_was_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("serial.log");
        std::fs::write(&path, "old\n").unwrap();
        let view = SerialLog::new(&path).from_now();
        std::fs::write(&path, "old\nnew\n").unwrap();
        assert_eq!(view.text(), "new\n");
    }
}

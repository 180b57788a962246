//! `key=value` words as the kernel command line and `PARAMS.TXT` carry them.

use std::collections::BTreeMap;

/// Words by key; a word without `=` has an empty value. The last of equal
/// keys wins, as in the kernel.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Words(BTreeMap<String, String>);

impl std::fmt::Debug for Words {
    /// Values may be secrets: only the keys are shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Words {
    /// Splits a kernel command line. Double quotes keep blanks together, as
    /// the kernel reads them: `key="a b"` and `"key=a b"`.
    pub fn from_cmdline(line: &str) -> Self {
        let mut words = Self::default();
        let mut word = String::new();
        let mut quoted = false;
        for c in line.chars().chain([' ']) {
            match c {
                '"' => quoted = !quoted,
                c if c.is_whitespace() && !quoted => words.add(&std::mem::take(&mut word)),
                c => word.push(c),
            }
        }
        words.add(&word);
        words
    }

    /// Reads one `key=value` per line; blank lines and lines that start with
    /// `#` are left out. The value goes to the end of the line.
    pub fn from_lines(text: &str) -> Self {
        let mut words = Self::default();
        for line in text
            .lines()
            .map(str::trim)
            .filter(|line| !line.starts_with('#'))
        {
            words.add(line);
        }
        words
    }

    /// Adds one `key=value`; an empty word is left out.
    pub fn add(&mut self, word: &str) {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        if !key.is_empty() {
            self.0.insert(key.to_owned(), value.to_owned());
        }
    }

    /// Takes over all words of `other`, which win over those here.
    pub fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Takes a key out, for values that must not stay around.
    pub fn remove(&mut self, key: &str) -> Option<String> {
        self.0.remove(key)
    }
}

#[cfg(test)]
mod tests {
    use super::Words;

    #[test]
    fn splits_as_the_kernel_does() {
        let line = "BOOT_IMAGE=/vmlinuz quiet console=tty0 console=ttyS0,115200 \
                    a=\"x y\" \"b=x  y\" ipa-api-url=https://192.0.2.1:6385/?q=1 empty=\n";
        let words = Words::from_cmdline(line);
        assert_eq!(words.get("console"), Some("ttyS0,115200"));
        assert_eq!(words.get("quiet"), Some(""));
        assert_eq!(words.get("a"), Some("x y"));
        assert_eq!(words.get("b"), Some("x  y"));
        assert_eq!(
            words.get("ipa-api-url"),
            Some("https://192.0.2.1:6385/?q=1")
        );
        assert_eq!(words.get("empty"), Some(""));
        assert_eq!(words.get("missing"), None);
        // An open quote reaches to the end of the line.
        assert_eq!(Words::from_cmdline("x=\"1 2").get("x"), Some("1 2 "));
    }

    #[test]
    fn reads_lines_with_crlf_and_comments() {
        let words = Words::from_lines("# made by wrought\r\na=b c\r\n\r\nd=e=f\n");
        assert_eq!(words.get("a"), Some("b c"));
        assert_eq!(words.get("d"), Some("e=f"));
    }

    #[test]
    fn later_words_win_and_values_are_not_shown() {
        let mut words = Words::from_cmdline("a=1 ipa-agent-token=hunter2");
        words.merge(Words::from_lines("a=2"));
        assert_eq!(words.get("a"), Some("2"));
        assert!(!format!("{words:?}").contains("hunter2"));
    }
}

//! Sums files: GNU (`HEX *NAME`), BSD (`SHA256 (NAME) = HEX`) or one bare
//! digest.

use std::borrow::Cow;
use std::cmp::Reverse;

use super::is_hex;
use crate::request::Algorithm;

/// Names that an error lists.
const SHOWN: usize = 5;

/// A line of a sums file that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// Lower-case hex.
    pub(super) hex: String,
    /// Algorithm that a BSD line names.
    pub(super) algorithm: Option<Algorithm>,
}

impl Found {
    fn kind(&self) -> Option<Algorithm> {
        self.algorithm
            .or_else(|| Algorithm::from_hex_len(self.hex.len()))
    }
}

/// One line with a name.
struct Entry {
    found: Found,
    path: String,
}

impl Entry {
    fn name(&self) -> &str {
        base_name(&self.path)
    }

    /// Whether the listed path is the end of `path`, element by element.
    fn ends(&self, path: &str) -> bool {
        let listed = self.path.trim_start_matches("./").trim_start_matches('/');
        path == listed
            || path
                .strip_suffix(listed)
                .is_some_and(|rest| rest.ends_with('/'))
    }
}

/// The text of a sums file. Windows' shells write UTF-16.
pub(super) fn text(bytes: &[u8]) -> Cow<'_, str> {
    let unit: fn([u8; 2]) -> u16 = match bytes {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ => return String::from_utf8_lossy(bytes),
    };
    let units: Vec<u16> = bytes.as_chunks().0.iter().map(|pair| unit(*pair)).collect();
    Cow::Owned(String::from_utf16_lossy(&units))
}

/// Finds the digest of the image that lies at `paths`. Names are compared by
/// their last path element; of several algorithms the one that is wanted is
/// taken, else the strongest. The error is a clause about the file.
pub(super) fn find(
    text: &str,
    paths: &[String],
    wanted: Option<Algorithm>,
) -> Result<Found, String> {
    let text = text.trim_start_matches('\u{feff}');
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    let Some(first) = lines.first() else {
        return Err("is empty".to_owned());
    };
    if first.starts_with('<') {
        return Err("is a web page and no list of checksums".to_owned());
    }
    if let [bare] = lines.as_slice()
        && is_hex(bare)
    {
        return Ok(Found {
            hex: bare.to_ascii_lowercase(),
            algorithm: None,
        });
    }
    let entries: Vec<Entry> = lines.iter().filter_map(|line| entry(line)).collect();
    for path in paths {
        let name = base_name(path);
        let named: Vec<&Entry> = entries.iter().filter(|e| e.name() == name).collect();
        if !named.is_empty() {
            return choose(&named, path, wanted);
        }
    }
    let mut listed: Vec<&str> = entries.iter().map(Entry::name).collect();
    listed.truncate(SHOWN);
    let listed = match listed.as_slice() {
        [] => "no names at all".to_owned(),
        names => names.join(", "),
    };
    let name = paths.first().map_or("", |path| base_name(path));
    Err(format!("does not list {name:?}; it lists {listed}"))
}

/// One of the entries with the right name.
fn choose(named: &[&Entry], path: &str, wanted: Option<Algorithm>) -> Result<Found, String> {
    let strength = |entry: &&Entry| entry.found.kind().map(Algorithm::hex_len);
    let mut usable: Vec<&Entry> = named
        .iter()
        .copied()
        .filter(|entry| entry.found.kind().is_some())
        .collect();
    if let Some(wanted) = wanted {
        let fits = |entry: &&Entry| entry.found.kind() == Some(wanted);
        if usable.iter().any(fits) {
            usable.retain(fits);
        }
    }
    usable.sort_by_key(|entry| Reverse(strength(entry)));
    let Some(best) = usable.first().copied() else {
        let digits = named.first().map_or(0, |entry| entry.found.hex.len());
        return Err(format!(
            "lists {:?} with {digits} hex digits, which is neither sha256 (64) nor sha512 (128)",
            base_name(path)
        ));
    };
    usable.retain(|entry| strength(entry) == strength(&best));
    if usable.iter().all(|e| e.found.hex == best.found.hex) {
        return Ok(best.found.clone());
    }
    // The same name in several directories.
    usable.retain(|entry| entry.ends(path));
    match usable.as_slice() {
        [one, rest @ ..] if rest.iter().all(|entry| entry.found.hex == one.found.hex) => {
            Ok(one.found.clone())
        }
        _ => Err(format!(
            "lists {:?} more than once, with different digests; give the digest itself",
            base_name(path)
        )),
    }
}

fn entry(line: &str) -> Option<Entry> {
    bsd(line).or_else(|| gnu(line))
}

fn bsd(line: &str) -> Option<Entry> {
    let (head, hex) = line.rsplit_once('=')?;
    let (label, path) = head.trim_end().strip_suffix(')')?.split_once('(')?;
    let hex = hex.trim();
    is_hex(hex).then(|| Entry {
        found: Found {
            hex: hex.to_ascii_lowercase(),
            algorithm: Algorithm::from_name(label.trim()),
        },
        path: path.trim().to_owned(),
    })
}

fn gnu(line: &str) -> Option<Entry> {
    let (hex, path) = line.split_once([' ', '\t'])?;
    let path = path.trim_start();
    let path = path.strip_prefix('*').unwrap_or(path);
    // Odd names are escaped, which a backslash in front says.
    let (hex, path) = match hex.strip_prefix('\\') {
        Some(hex) => (hex, path.replace("\\\\", "\\")),
        None => (hex, path.to_owned()),
    };
    is_hex(hex).then(|| Entry {
        found: Found {
            hex: hex.to_ascii_lowercase(),
            algorithm: None,
        },
        path,
    })
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(digit: char) -> String {
        std::iter::repeat_n(digit, 64).collect()
    }

    fn look(text: &str, path: &str) -> Result<Found, String> {
        find(text, &[path.to_owned()], None)
    }

    #[test]
    fn every_known_form_is_found_by_base_name() {
        let (a, b) = (hash('a'), hash('b'));
        let upper = a.to_uppercase();
        let label = |name| Algorithm::from_name(name);
        let table = [
            ("two", format!("{b}  other.qcow2\n{a}  disk.qcow2\n"), None),
            (
                "binary, comment, CRLF",
                format!("# comment\r\n{b} *other.qcow2\r\n{a} *disk.qcow2\r\n"),
                None,
            ),
            ("./", format!("{a}  ./disk.qcow2"), None),
            (
                "directory, upper case, a longer name before",
                format!("{b}  /x/disk.qcow2.old\n{upper}  /srv/images/disk.qcow2\n"),
                None,
            ),
            ("bare", format!("{a}\n"), None),
            ("bare, CRLF, blank lines", format!("\n\n{upper}\r\n"), None),
            ("tab", format!("{a}\t disk.qcow2"), None),
            ("byte order mark", format!("\u{feff}{a}  disk.qcow2"), None),
            ("bsd", format!("SHA256 (disk.qcow2) = {a}"), label("sha256")),
            (
                "bsd with a directory",
                format!("SHA256 (x/other) = {b}\r\nSHA256 (./a/disk.qcow2) = {upper}\r\n"),
                label("sha256"),
            ),
            ("openssl", format!("SHA2-256(disk.qcow2)= {a}"), None),
            (
                "signed",
                format!(
                    "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n# disk.qcow2: 5 bytes\n\
                     SHA256 (disk.qcow2) = {a}\n-----BEGIN PGP SIGNATURE-----\n\niQ=\n"
                ),
                label("sha256"),
            ),
            (
                "md5 beside it",
                format!("{}  disk.qcow2\n{a}  disk.qcow2", &b[..32]),
                None,
            ),
        ];
        for (name, text, algorithm) in table {
            let wanted = Ok(Found {
                hex: a.clone(),
                algorithm,
            });
            assert_eq!(look(&text, "images/disk.qcow2"), wanted, "{name}");
        }
        let escaped = format!("\\{a}  di\\\\sk");
        assert!(look(&escaped, "di\\sk").is_ok());
    }

    #[test]
    fn the_wanted_algorithm_is_taken() {
        let (a, b) = (hash('a'), hash('b'));
        let both = format!("SHA256 (d) = {a}\nSHA512 (d) = {b}{b}");
        let found = |wanted| find(&both, &["d".to_owned()], wanted).unwrap().hex.len();
        assert_eq!(found(None), 128, "the strongest");
        assert_eq!(found(Some(Algorithm::Sha256)), 64);
        assert_eq!(found(Some(Algorithm::Sha512)), 128);
    }

    #[test]
    fn names_in_several_directories_are_told_apart_by_the_url() {
        let (a, b) = (hash('a'), hash('b'));
        let text = format!("{a}  ./amd64/disk.img\n{b}  ./arm64/disk.img\n");
        assert_eq!(look(&text, "h/amd64/disk.img").unwrap().hex, a);
        assert_eq!(look(&text, "h/arm64/disk.img").unwrap().hex, b);
        let error = look(&text, "h/disk.img").unwrap_err();
        assert!(error.contains("more than once"), "{error}");
        let error = look(&text, "h/xarm64/disk.img").unwrap_err();
        assert!(error.contains("more than once"), "{error}");
        let same = format!("{a}  x/disk.img\n{a}  y/disk.img\n");
        assert!(look(&same, "disk.img").is_ok());
    }

    #[test]
    fn what_is_not_listed_is_not_guessed() {
        let (a, b) = (hash('a'), hash('b'));
        for (text, word) in [
            (format!("{a}  other.qcow2\n"), "it lists other.qcow2"),
            (" \n#x\n".to_owned(), "is empty"),
            (format!("{a}\n{b}"), "no names at all"),
            ("<!DOCTYPE html><title>404".to_owned(), "web page"),
            (format!("{}  disk.qcow2", &a[..40]), "40 hex digits"),
        ] {
            let error = look(&text, "disk.qcow2").unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}

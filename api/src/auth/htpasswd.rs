//! A file of `user:hash` lines with bcrypt hashes, as `htpasswd -B` makes it.

use std::collections::HashMap;
use std::fs::File;
use std::fs::Metadata;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;

use super::AuthError;

/// Largest file that is read, in bytes.
const LIMIT: u64 = 1 << 20;

/// What tells that a file has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp(u64, u64, i64, i64);

impl Stamp {
    fn of(meta: &Metadata) -> Self {
        Self(meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec())
    }

    /// The stamp of a file as it is now.
    pub(super) fn read(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().as_ref().map(Self::of)
    }
}

/// Reads a small text file whole.
pub(super) fn read_file(path: &Path) -> Result<(String, Stamp), AuthError> {
    let fail = |source| AuthError::Read {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(fail)?;
    let stamp = Stamp::of(&file.metadata().map_err(fail)?);
    let mut text = String::new();
    file.take(LIMIT).read_to_string(&mut text).map_err(fail)?;
    Ok((text, stamp))
}

/// Lines that are neither empty nor comments, with their numbers.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()));
    numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Hashes by user.
pub(super) fn parse(path: &Path, text: &str) -> Result<HashMap<String, String>, AuthError> {
    let mut users = HashMap::new();
    for (line, content) in lines(text) {
        let parts = content.split_once(':').filter(|(user, _)| !user.is_empty());
        let (user, hash) = parts
            .filter(|(_, hash)| is_bcrypt(hash))
            .ok_or_else(|| bad(path, line, "user:hash with a bcrypt hash ($2y$…)"))?;
        users.insert(user.to_owned(), hash.to_owned());
    }
    Ok(users)
}

pub(super) fn bad(path: &Path, line: usize, expected: &'static str) -> AuthError {
    AuthError::Line {
        path: PathBuf::from(path),
        line,
        expected,
    }
}

fn is_bcrypt(hash: &str) -> bool {
    hash.len() == 60
        && ["$2a$", "$2b$", "$2y$"]
            .iter()
            .any(|kind| hash.starts_with(kind))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::parse;

    #[test]
    fn reads_users_and_names_bad_lines() {
        let hash = bcrypt::hash("x", 4).unwrap();
        let text = format!("# users\n\nadmin:{hash}\n");
        assert_eq!(
            parse(Path::new("f"), &text).unwrap().get("admin"),
            Some(&hash)
        );
        for bad in ["admin", ":$2y$", "admin:{SHA}x", "admin:$2y$04$short"] {
            let error = parse(Path::new("f"), bad).unwrap_err().to_string();
            assert!(
                error.starts_with("f, line 1: expected user:hash"),
                "{error}"
            );
        }
    }
}

//! Where this machine's apt looks for a Debian release, so that images come
//! from the same archive.

use std::fs;
use std::path::Path;

/// One-line sources for `suite` and its updates, out of the machine's own
/// configuration; empty when it has none for that release.
pub(crate) fn for_release(suite: &str, apt: &Path) -> Vec<String> {
    let mut texts = vec![(apt.join("sources.list"), false)];
    if let Ok(entries) = fs::read_dir(apt.join("sources.list.d")) {
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            match path.extension().and_then(|e| e.to_str()) {
                Some("list") => texts.push((path, false)),
                Some("sources") => texts.push((path, true)),
                _ => {}
            }
        }
    }
    let mut found = Vec::new();
    for (path, deb822) in texts {
        let Ok(text) = fs::read_to_string(path) else {
            continue;
        };
        let lines = if deb822 {
            stanzas(&text)
        } else {
            one_lines(&text)
        };
        found.extend(lines.into_iter().filter(|line| wanted(line, suite)));
    }
    found
}

/// A binary source of the release itself, its updates or security fixes,
/// with the component `main`.
fn wanted(line: &str, suite: &str) -> bool {
    let words: Vec<&str> = plain_words(line);
    let belongs = |name: &&str| {
        name.strip_prefix(suite)
            .is_some_and(|rest| matches!(rest, "" | "-updates" | "-security"))
    };
    words.first() == Some(&"deb")
        && words.get(2).is_some_and(belongs)
        && words.iter().skip(3).any(|component| *component == "main")
}

/// Words of a one-line source without its `[options]`.
fn plain_words(line: &str) -> Vec<&str> {
    let mut inside = false;
    line.split_whitespace()
        .filter(|word| {
            let was_inside = inside || word.starts_with('[');
            inside = was_inside && !word.ends_with(']');
            !was_inside
        })
        .collect()
}

fn one_lines(text: &str) -> Vec<String> {
    text.lines()
        .map(str::trim)
        .filter(|line| line.starts_with("deb "))
        .map(str::to_owned)
        .collect()
}

/// Sources in deb822 form as one-line sources.
fn stanzas(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for stanza in text.split("\n\n") {
        let field = |name: &str| {
            stanza
                .lines()
                .filter_map(|line| line.split_once(':'))
                .find(|(key, _)| key.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.trim())
        };
        let enabled = field("Enabled").is_none_or(|value| value != "no");
        let binary = field("Types").is_some_and(|t| t.split_whitespace().any(|t| t == "deb"));
        if !enabled || !binary {
            continue;
        }
        // A key that is spelt out in the file itself cannot be named in a line.
        let signed = field("Signed-By").filter(|by| by.starts_with('/'));
        let option = signed
            .map(|by| format!("[signed-by={by}] "))
            .unwrap_or_default();
        let components = field("Components").unwrap_or_default();
        for uri in field("URIs").unwrap_or_default().split_whitespace() {
            for suite in field("Suites").unwrap_or_default().split_whitespace() {
                lines.push(format!("deb {option}{uri} {suite} {components}"));
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::for_release;

    #[test]
    fn both_forms_are_read_and_others_left_out() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sources.list.d")).unwrap();
        fs::write(
            dir.path().join("sources.list"),
            "# deb http://a.invalid bookworm main\n\
             deb [arch=amd64 signed-by=/k] http://b.invalid/debian bookworm main contrib\n\
             deb http://c.invalid/debian trixie main\n\
             deb http://d.invalid/x nodistro main\n\
             deb-src http://b.invalid/debian bookworm main\n",
        )
        .unwrap();
        fs::write(
            dir.path().join("sources.list.d/debian.sources"),
            "Types: deb\nURIs: http://e.invalid/debian\nSuites: bookworm bookworm-backports\n\
             Components: main\nSigned-By: /key.gpg\n\nTypes: deb\nEnabled: no\n\
             URIs: http://f.invalid\nSuites: bookworm\nComponents: main\n",
        )
        .unwrap();
        assert_eq!(
            for_release("bookworm", dir.path()),
            [
                "deb [arch=amd64 signed-by=/k] http://b.invalid/debian bookworm main contrib",
                "deb [signed-by=/key.gpg] http://e.invalid/debian bookworm main",
            ]
        );
        assert!(for_release("sid", dir.path()).is_empty());
    }
}

//! `tests/peer/differences.json`: where we answer otherwise than a real
//! Ironic, reviewed, each with its reason.

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use serde::Deserialize;

use crate::paths::Paths;

/// A difference that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Part, chapter and name, such as `story/04-nodes/node-show`.
    pub place: String,
    /// What differs.
    pub text: String,
}

impl Found {
    /// A difference at a place.
    pub fn new(place: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            text: text.into(),
        }
    }
}

/// One that is listed; `*` in `place` and `text` stands for anything.
#[derive(Debug, Deserialize)]
struct Entry {
    place: String,
    /// Without it, whatever differs at the place.
    text: Option<String>,
    #[serde(flatten)]
    why: Why,
}

/// Why it is as it is.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Why {
    /// On purpose.
    Reason(String),
    /// Not built yet.
    Missing(String),
}

/// All that is listed.
#[derive(Debug)]
pub struct Listed(Vec<Entry>);

impl Listed {
    /// Nothing is excused.
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// Reads the list.
    pub fn read(paths: &Paths) -> Result<Self> {
        let path = super::folder(paths).join("differences.json");
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("reading {}", path.display()))?;
        let entries: Vec<Entry> =
            serde_json::from_str(&text).with_context(|| format!("parsing {}", path.display()))?;
        for entry in &entries {
            let (Why::Reason(why) | Why::Missing(why)) = &entry.why;
            if why.len() < 20 {
                bail!("{}: {} has no reason", path.display(), entry.place);
            }
        }
        Ok(Self(entries))
    }

    /// Each difference with a mark: `=` on purpose, `-` not built yet, `!`
    /// not listed.
    pub fn marks<'a>(&self, found: &'a [Found]) -> Vec<(&'a Found, char)> {
        let mark = |found: &Found| match self.0.iter().find(|entry| entry.covers(found)) {
            Some(entry) => match entry.why {
                Why::Reason(_) => '=',
                Why::Missing(_) => '-',
            },
            None => '!',
        };
        found.iter().map(|found| (found, mark(found))).collect()
    }

    /// An error where something in a part of the comparison is not listed, or
    /// listed and no longer true.
    pub fn settle(&self, part: &str, found: &[Found]) -> Result<()> {
        let news = found
            .iter()
            .filter(|found| !self.0.iter().any(|entry| entry.covers(found)))
            .map(|found| format!("not listed: {}: {}", found.place, found.text));
        let gone = self
            .0
            .iter()
            .filter(|entry| entry.place.split('/').next() == Some(part))
            .filter(|entry| !found.iter().any(|found| entry.covers(found)))
            .map(|entry| {
                let text = entry.text.as_deref().unwrap_or("whatever");
                format!("no longer true: {}: {text}", entry.place)
            });
        let lines: Vec<String> = news.chain(gone).collect();
        if lines.is_empty() {
            return Ok(());
        }
        for line in &lines {
            println!("{line}");
        }
        bail!("{} differences from what a real Ironic says", lines.len());
    }
}

impl Entry {
    fn covers(&self, found: &Found) -> bool {
        fits(&self.place, &found.place)
            && self
                .text
                .as_ref()
                .is_none_or(|text| fits(text, &found.text))
    }
}

/// Whether the text is as the pattern, in which `*` stands for anything.
fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.split_once(part) {
            Some((_, tail)) => rest = tail,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::Entry;
    use super::Found;
    use super::Listed;
    use super::fits;

    #[test]
    fn patterns() {
        assert!(fits("story/*", "story/a/b"));
        assert!(fits("a*c", "abc"));
        assert!(!fits("a*a", "a"));
        assert!(!fits("a", "ab"));
        assert!(fits("*/b*", "a/b/c"));
        assert!(!fits("*x*y", "yx"));
    }

    #[test]
    fn the_list_must_be_exact() {
        let text = r#"[{"place": "story/a", "text": "x*", "reason": "because of all that"},
                       {"place": "versions/b", "missing": "nobody has built that yet"}]"#;
        let listed = Listed(serde_json::from_str::<Vec<Entry>>(text).unwrap());
        let known = Found::new("story/a", "xyz");
        assert!(listed.settle("story", std::slice::from_ref(&known)).is_ok());
        assert!(listed.settle("story", &[]).is_err());
        assert!(
            listed
                .settle("story", &[known, Found::new("story/b", "x")])
                .is_err()
        );
        let other = [Found::new("versions/b", "anything")];
        assert!(listed.settle("versions", &other).is_ok());
        assert_eq!(listed.marks(&other)[0].1, '-');
    }
}

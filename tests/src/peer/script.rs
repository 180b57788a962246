//! Scripts of requests. A line is one of
//!
//! - `# …`: a remark;
//! - `let NAME TEXT`: `{NAME}` stands for the text from here on;
//! - `NAME: [@VERSION] [[HEADER: VALUE]] METHOD PATH [BODY]`: a request; the
//!   microversion is `latest` where none is said, and not sent at all for `@-`;
//!   a body behind `!` need not be JSON;
//! - `keep NAME /POINTER`: `{NAME}` stands for what the last answer has there;
//! - `wait PATH JSON`: until that resource has these values.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;

/// The microversion where a line says none.
const LATEST: &str = "latest";

/// A line of a script.
#[derive(Debug, Clone)]
pub enum Line {
    /// A word and what it stands for.
    Let(String, String),
    /// A request with its name.
    Ask(String, Ask),
    /// A word for a place in the last answer.
    Keep(String, String),
    /// A path and the JSON that its resource is to have.
    Wait(String, String),
}

/// A request; path, headers and body may have `{NAME}`.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The value of the version header; none: not sent.
    pub version: Option<String>,
    /// Further headers.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Option<String>,
}

impl Ask {
    /// A GET at the latest version.
    pub fn get(path: &str) -> Self {
        Self {
            method: "GET".to_owned(),
            path: path.to_owned(),
            version: Some(LATEST.to_owned()),
            headers: Vec::new(),
            body: None,
        }
    }
}

/// What the words stand for.
#[derive(Debug, Clone, Default)]
pub struct Words {
    texts: BTreeMap<String, String>,
    chosen: BTreeSet<String>,
}

impl Words {
    /// Gives a word the text that a script chose.
    pub fn choose(&mut self, name: &str, text: &str) {
        self.chosen.insert(text.to_owned());
        self.keep(name, text);
    }

    /// Gives a word a text that a server chose.
    pub fn keep(&mut self, name: &str, text: &str) {
        self.texts.insert(name.to_owned(), text.to_owned());
    }

    /// Whether a script chose this text, which is then always the same.
    pub fn has_chosen(&self, text: &str) -> bool {
        self.chosen.contains(text)
    }

    /// The text with all words replaced.
    pub fn fill(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, value) in &self.texts {
            text = text.replace(&format!("{{{name}}}"), value);
        }
        text
    }

    /// The request with all words replaced.
    pub fn ask(&self, ask: &Ask) -> Ask {
        Ask {
            path: self.fill(&ask.path),
            body: ask.body.as_deref().map(|body| self.fill(body)),
            ..ask.clone()
        }
    }
}

/// Reads one script.
pub fn read(path: &Path) -> Result<Vec<Line>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(number, line)| {
            parse(line).with_context(|| format!("{}:{}", path.display(), number + 1))
        })
        .collect()
}

fn parse(line: &str) -> Result<Line> {
    let (first, rest) = line.split_once(' ').context("one word alone")?;
    let (name, value) = rest.split_once(' ').unwrap_or((rest, ""));
    let pair = || (name.to_owned(), value.to_owned());
    Ok(match first {
        "let" => {
            let (name, value) = pair();
            Line::Let(name, value)
        }
        "keep" => {
            let (name, pointer) = pair();
            Line::Keep(name, pointer)
        }
        "wait" => {
            let (path, wanted) = pair();
            Line::Wait(path, wanted)
        }
        name => {
            let name = name.strip_suffix(':').context("no colon after the name")?;
            Line::Ask(name.to_owned(), request(rest)?)
        }
    })
}

fn request(text: &str) -> Result<Ask> {
    let mut rest = text;
    let mut version = Some(LATEST.to_owned());
    let mut headers = Vec::new();
    if let Some(tail) = rest.strip_prefix('@') {
        let (word, tail) = tail.split_once(' ').context("nothing after the version")?;
        version = (word != "-").then(|| word.to_owned());
        rest = tail;
    }
    if let Some(tail) = rest.strip_prefix('[') {
        let (header, tail) = tail.split_once("] ").context("a header without its end")?;
        let (name, value) = header
            .split_once(": ")
            .context("a header without a value")?;
        headers.push((name.to_owned(), value.to_owned()));
        rest = tail;
    }
    let (method, rest) = rest.split_once(' ').context("no path")?;
    let (path, body) = match rest.split_once(' ') {
        Some((path, body)) => (path, Some(body)),
        None => (rest, None),
    };
    if !path.starts_with('/') {
        bail!("{path:?} is no path");
    }
    Ok(Ask {
        method: method.to_owned(),
        path: path.to_owned(),
        version,
        headers,
        body: body.map(|body| body.strip_prefix('!').unwrap_or(body).to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::Line;
    use super::Words;
    use super::parse;

    #[test]
    fn lines() {
        let Line::Ask(name, ask) = parse("a-1: @1.5 [X: y z] PUT /v1/{N} {\"a\": 1}").unwrap()
        else {
            panic!("not a request");
        };
        assert_eq!((name.as_str(), ask.method.as_str()), ("a-1", "PUT"));
        assert_eq!(ask.version.as_deref(), Some("1.5"));
        assert_eq!(ask.headers, [("X".to_owned(), "y z".to_owned())]);
        let mut words = Words::default();
        words.choose("N", "nodes");
        let filled = words.ask(&ask);
        assert_eq!(filled.path, "/v1/nodes");
        assert_eq!(filled.body.as_deref(), Some("{\"a\": 1}"));
        let Line::Ask(_, ask) = parse("b: @- GET /").unwrap() else {
            panic!("not a request");
        };
        assert_eq!((ask.version, ask.body), (None, None));
        assert!(parse("c: GET nodes").is_err());
        assert!(parse("c GET /nodes").is_err());
    }
}

//! Expressions of hints, and how they are told from their text.

/// Comparison of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberOp {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `>=`, and `=` too
    AtLeast,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `<`
    Below,
}

/// Comparison of texts, by their characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextOp {
    /// `s==`
    Equal,
    /// `s!=`
    NotEqual,
    /// `s>=`
    AtLeast,
    /// `s<=`
    AtMost,
    /// `s>`
    Above,
    /// `s<`
    Below,
}

/// What must hold for a value.
#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    /// A comparison of numbers.
    Number(NumberOp, f64),
    /// A comparison of texts; the text is normalised.
    Text(TextOp, String),
    /// The value contains this.
    In(String),
    /// The value contains all of these.
    AllIn(Vec<String>),
    /// The value is one of these.
    Or(Vec<String>),
    /// The value lies in a range.
    Range {
        /// Lower end.
        low: f64,
        /// Whether the lower end belongs to it.
        with_low: bool,
        /// Upper end.
        high: f64,
        /// Whether the upper end belongs to it.
        with_high: bool,
    },
    /// The value is this truth.
    Flag(bool),
}

/// Longest first, so that `s>=` is not taken for `s>`.
const NUMBER_OPS: [(&str, NumberOp); 7] = [
    ("==", NumberOp::Equal),
    ("!=", NumberOp::NotEqual),
    (">=", NumberOp::AtLeast),
    ("<=", NumberOp::AtMost),
    ("=", NumberOp::AtLeast),
    (">", NumberOp::Above),
    ("<", NumberOp::Below),
];
const TEXT_OPS: [(&str, TextOp); 6] = [
    ("s==", TextOp::Equal),
    ("s!=", TextOp::NotEqual),
    ("s>=", TextOp::AtLeast),
    ("s<=", TextOp::AtMost),
    ("s>", TextOp::Above),
    ("s<", TextOp::Below),
];

/// Trimmed and in lower case, inner blanks made one.
pub(super) fn normalise(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .to_lowercase()
}

impl Expression {
    /// Reads an expression that begins with an operator; `None` when it has
    /// none. The error says what is wrong with the operand.
    pub(super) fn with_operator(text: &str) -> Result<Option<Self>, String> {
        let text = normalise(text);
        if let Some(rest) = text.strip_prefix("<in>") {
            return Ok(Some(Self::In(operand(rest, "<in>")?)));
        }
        if let Some(rest) = text.strip_prefix("<all-in>") {
            let words = rest.replace("<all-in>", " ");
            let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
            if words.is_empty() {
                return Err("nothing follows the operator <all-in>".to_owned());
            }
            return Ok(Some(Self::AllIn(words)));
        }
        if let Some(rest) = text.strip_prefix("<or>") {
            let choices: Result<_, _> = rest
                .split("<or>")
                .map(|choice| operand(choice, "<or>"))
                .collect();
            return Ok(Some(Self::Or(choices?)));
        }
        if let Some(rest) = text.strip_prefix("<range-in>") {
            return range(rest).map(Some);
        }
        if text.starts_with('<') && text.contains('>') {
            let (operator, _) = text.split_once(' ').unwrap_or((&text, ""));
            return Err(format!(
                "operator {operator} is not known; there are <in>, <all-in>, <or> and <range-in>"
            ));
        }
        for (sign, op) in TEXT_OPS {
            if let Some(rest) = text.strip_prefix(sign) {
                return Ok(Some(Self::Text(op, operand(rest, sign)?)));
            }
        }
        for (sign, op) in NUMBER_OPS {
            if let Some(rest) = text.strip_prefix(sign) {
                return Ok(Some(Self::Number(op, number(rest)?)));
            }
        }
        Ok(None)
    }
}

fn operand(text: &str, sign: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err(format!("nothing follows the operator {sign}"));
    }
    Ok(text.to_owned())
}

pub(super) fn number(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let value = text.parse::<f64>().ok().filter(|value| value.is_finite());
    value.ok_or_else(|| format!("a number is expected, found '{text}'"))
}

/// ` [ 10 20 ]`, with or without blanks at the brackets.
fn range(text: &str) -> Result<Expression, String> {
    let wrong = || {
        format!(
            "a range is written <range-in> [ 10 20 ], with ( or ) to leave an end out, found '{}'",
            text.trim()
        )
    };
    let inner = text.trim();
    let with_low = inner.starts_with('[');
    let with_high = inner.ends_with(']');
    if !(with_low || inner.starts_with('(')) || !(with_high || inner.ends_with(')')) {
        return Err(wrong());
    }
    let ends = inner
        .get(1..inner.len().saturating_sub(1))
        .ok_or_else(wrong)?;
    let mut ends = ends.split_whitespace();
    let (Some(low), Some(high), None) = (ends.next(), ends.next(), ends.next()) else {
        return Err(wrong());
    };
    Ok(Expression::Range {
        low: number(low)?,
        with_low,
        high: number(high)?,
        with_high,
    })
}

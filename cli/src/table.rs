//! Tables and property lists for people.

use serde_json::Value;

/// A value in one line.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Rows under their headings, columns as wide as needed.
pub(crate) fn columns(headings: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = headings
        .iter()
        .map(|heading| heading.chars().count())
        .collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &[String]| {
        let padded: Vec<String> = cells
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        format!("{}\n", padded.join("  ").trim_end())
    };
    let headings: Vec<String> = headings
        .iter()
        .map(|heading| (*heading).to_owned())
        .collect();
    let mut out = line(&headings);
    out.extend(rows.iter().map(|row| line(row)));
    out
}

/// The members of an object, one a line.
pub(crate) fn properties(value: &Value) -> String {
    let Some(object) = value.as_object() else {
        return format!("{}\n", text(value));
    };
    let mut rows: Vec<Vec<String>> = object
        .iter()
        .filter(|(key, _)| *key != "links")
        .map(|(key, value)| vec![key.clone(), text(value)])
        .collect();
    rows.sort();
    columns(&["FIELD", "VALUE"], &rows)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn aligned_and_without_links() {
        let shown = super::properties(&json!({"uuid": "u", "a": null, "links": [], "n": [1]}));
        assert_eq!(shown, "FIELD  VALUE\na      -\nn      [1]\nuuid   u\n");
    }
}

//! Small readers for resources whose every property may be missing.

use serde_json::Value;

/// A text below a JSON pointer.
pub(crate) fn text<'a>(resource: &'a Value, pointer: &str) -> Option<&'a str> {
    resource
        .pointer(pointer)
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty())
}

/// The path that a link object below a JSON pointer refers to.
pub(crate) fn link(resource: &Value, pointer: &str) -> Option<String> {
    text(resource.pointer(pointer)?, "/@odata.id").map(str::to_owned)
}

/// The paths that an array of link objects below a JSON pointer refers to.
pub(crate) fn links(resource: &Value, pointer: &str) -> Vec<String> {
    let array = resource.pointer(pointer).and_then(Value::as_array);
    array
        .into_iter()
        .flatten()
        .filter_map(|item| link(item, ""))
        .collect()
}

/// The texts of an array below a JSON pointer; none when there is no array.
pub(crate) fn texts(resource: &Value, pointer: &str) -> Option<Vec<String>> {
    let array = resource.pointer(pointer)?.as_array()?;
    Some(
        array
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
    )
}

/// The service's own words in an error body, cut to 300 characters.
pub(crate) fn error_message(body: &Value) -> String {
    let extended = body
        .pointer("/error/@Message.ExtendedInfo")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|info| text(info, "/Message").or_else(|| text(info, "/MessageId")))
        .collect::<Vec<_>>()
        .join(" ");
    let message = if extended.is_empty() {
        text(body, "/error/message").unwrap_or("no explanation given")
    } else {
        &extended
    };
    message
        .chars()
        .filter(|character| !character.is_control())
        .take(300)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::error_message;

    #[test]
    fn finds_the_words_of_the_service() {
        let body = json!({"error": {"message": "general", "@Message.ExtendedInfo": [
            {"MessageId": "Base.1.0.Busy"}, {"Message": "Try\nlater."}]}});
        assert_eq!(error_message(&body), "Base.1.0.Busy Trylater.");
        assert_eq!(
            error_message(&json!({"error": {"message": "general"}})),
            "general"
        );
        assert_eq!(error_message(&json!("text")), "no explanation given");
    }
}
